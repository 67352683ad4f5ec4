// Google's own fake of Pub/Sub, for the tests: it serves gRPC at a free port of loopback.
//
// Each line of the standard input is a command in JSON, and has one line of JSON as its reply. So a
// test needs no client of Pub/Sub of its own. The first line of the output is the address. The
// server ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A command. Names of topics and subscriptions are whole resource names.
type command struct {
	Do           string
	Topic        string
	Subscription string
	Data         string
	Attributes   map[string]string
	// How long a message stays with a subscriber that says nothing, in seconds.
	AckSeconds int32
	// Where messages go that were delivered so many times.
	DeadLetters string
	Attempts    int32
	// By how many seconds the clock of the server jumps.
	Seconds float64
	// A call that fails from now on, with this code of gRPC; 0 ends the failures.
	Call string
	Code uint32
}

// A call that changed something, in the order of the calls.
type event struct {
	// "publish" or "ack".
	Call  string `json:"call"`
	Topic string `json:"topic,omitempty"`
	// The data of a published message.
	Data       string            `json:"data,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// The id of an acknowledged message.
	Message string `json:"message,omitempty"`
}

// What the server remembers of its calls.
type record struct {
	mutex    sync.Mutex
	events   []event
	failures map[string]codes.Code
	jumped   time.Duration
	// The call of the test itself, which is no event and does not fail.
	own *pubsubpb.PublishRequest
}

// A reactor to one kind of call.
type reactor struct {
	name   string
	record *record
}

func (r reactor) React(request any) (bool, any, error) {
	r.record.mutex.Lock()
	defer r.record.mutex.Unlock()
	if call, ok := request.(*pubsubpb.PublishRequest); ok && call == r.record.own {
		return false, nil, nil
	}
	if code := r.record.failures[r.name]; code != codes.OK {
		return true, nil, status.Errorf(code, "the test wants %s to fail", r.name)
	}
	switch call := request.(type) {
	case *pubsubpb.PublishRequest:
		for _, message := range call.Messages {
			r.record.events = append(r.record.events, event{
				Call: "publish", Topic: call.Topic,
				Data: string(message.Data), Attributes: message.Attributes,
			})
		}
	case *pubsubpb.AcknowledgeRequest:
		for _, id := range call.AckIds {
			message, _, _ := strings.Cut(id, ":")
			r.record.events = append(r.record.events, event{Call: "ack", Message: message})
		}
	}
	return false, nil, nil
}

func main() {
	record := &record{failures: map[string]codes.Code{}}
	var options []pstest.ServerReactorOption
	for _, name := range []string{
		"Publish", "Acknowledge", "ModifyAckDeadline", "Pull", "GetSubscription", "GetTopic",
	} {
		options = append(options, pstest.ServerReactorOption{FuncName: name, Reactor: reactor{name, record}})
	}
	server := pstest.NewServer(options...)
	server.SetTimeNowFunc(func() time.Time {
		record.mutex.Lock()
		defer record.mutex.Unlock()
		return time.Now().Add(record.jumped)
	})
	fmt.Println(server.Addr)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked command
		reply := any(map[string]any{})
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			reply, err = run(server, record, asked)
		}
		if err != nil {
			reply = map[string]any{"error": err.Error()}
		}
		text, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func run(server *pstest.Server, record *record, asked command) (any, error) {
	done := map[string]any{}
	ctx := context.Background()
	switch asked.Do {
	case "topic":
		_, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: asked.Topic})
		return done, err
	case "subscription":
		made := &pubsubpb.Subscription{
			Name: asked.Subscription, Topic: asked.Topic, AckDeadlineSeconds: asked.AckSeconds,
		}
		if asked.DeadLetters != "" {
			made.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{
				DeadLetterTopic: asked.DeadLetters, MaxDeliveryAttempts: asked.Attempts,
			}
		}
		_, err := server.GServer.CreateSubscription(ctx, made)
		return done, err
	case "publish":
		message := &pubsubpb.PubsubMessage{Data: []byte(asked.Data), Attributes: asked.Attributes}
		request := &pubsubpb.PublishRequest{
			Topic: asked.Topic, Messages: []*pubsubpb.PubsubMessage{message},
		}
		record.mutex.Lock()
		record.own = request
		record.mutex.Unlock()
		published, err := server.GServer.Publish(ctx, request)
		return map[string]any{"id": published.GetMessageIds()}, err
	case "messages":
		messages := []map[string]any{}
		for _, message := range server.Messages() {
			messages = append(messages, map[string]any{
				"id": message.ID, "topic": message.Topic, "data": string(message.Data),
				"attributes": message.Attributes, "deliveries": message.Deliveries,
				"acks": message.Acks,
			})
		}
		return messages, nil
	case "events":
		record.mutex.Lock()
		defer record.mutex.Unlock()
		return append([]event{}, record.events...), nil
	case "advance":
		record.mutex.Lock()
		defer record.mutex.Unlock()
		record.jumped += time.Duration(asked.Seconds * float64(time.Second))
		return done, nil
	case "fail":
		record.mutex.Lock()
		defer record.mutex.Unlock()
		record.failures[asked.Call] = codes.Code(asked.Code)
		return done, nil
	}
	return nil, fmt.Errorf("there is no command %q", asked.Do)
}
