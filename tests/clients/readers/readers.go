// Reads requests as servers in Go do: Ollama's struct by encoding/json (Unmarshal, and the first
// value alone as gin does), and forms by mime/multipart. One line of JSON a request, in and out.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
)

type request struct {
	Body []byte `json:"body"`
	Type string `json:"type"`
}

type ollama struct {
	Model     string         `json:"model"`
	Stream    *bool          `json:"stream"`
	MaxTokens *int           `json:"max_tokens"`
	N         *int           `json:"n"`
	Options   map[string]any `json:"options"`
}

func (read ollama) fields() map[string]any {
	fields := map[string]any{"stream": read.Stream, "max_tokens": read.MaxTokens, "n": read.N}
	fields["num_predict"] = read.Options["num_predict"]
	fields["model"] = nil
	if read.Model != "" {
		fields["model"] = read.Model
	}
	return fields
}

func main() {
	version := runtime.Version()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		found := map[string]any{}
		var whole, first ollama
		found[version+" json.Unmarshal"] = nil
		if json.Unmarshal(asked.Body, &whole) == nil {
			found[version+" json.Unmarshal"] = whole.fields()
		}
		found[version+" json.Decoder"] = nil
		if json.NewDecoder(bytes.NewReader(asked.Body)).Decode(&first) == nil {
			found[version+" json.Decoder"] = first.fields()
		}
		found[version+" ParseMultipartForm"] = nil
		post, _ := http.NewRequest("POST", "/", bytes.NewReader(asked.Body))
		post.Header.Set("Content-Type", asked.Type)
		if post.ParseMultipartForm(1<<20) == nil && len(post.MultipartForm.Value["model"]) > 0 {
			found[version+" ParseMultipartForm"] = map[string]any{"model": post.FormValue("model")}
		}
		out, err := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(out))
	}
}
