"""Speaks to an endpoint picker as Envoy does, with the protocol's official messages.

Reads one command a line (JSON) and prints what comes back, one line each:

  {"on": 1, "headers": [["k", "v"]], "eos": false, "response": false, "config": 4, "metadata": {}}
       "config" is the mode of response bodies, null for a message without modes; "request_config"
  {"on": 1, "body": "text", "eos": true, "response": false}     each character is a byte
  {"on": 1, "trailers": [["k", "v"]], "response": false}
  {"on": 1, "raw": "text"}                                      a message of these bytes
  {"on": 1, "end": true}       no more from us         {"on": 1, "cancel": true}       gone
  {"health": "service"}        {"watch": "service"}    {"services": true}
"""

import json
import queue
import sys
import threading

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as ext_proc
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"

out = threading.Lock()
streams = {}


def say(**words):
    with out:
        print(json.dumps(words), flush=True)


class Stream:
    """One request as Envoy shows it to a picker."""

    def __init__(self, channel, number):
        self.number = number
        self.outgoing = queue.Queue()
        call = channel.stream_stream(METHOD, None, ext_proc.ProcessingResponse.FromString)
        self.call = call(iter(self.outgoing.get, None), wait_for_ready=True)
        threading.Thread(target=self.listen, daemon=True).start()

    def send(self, message):
        self.outgoing.put(message.SerializeToString())

    def listen(self):
        try:
            for message in self.call:
                say(on=self.number, got=told(message))
        except grpc.RpcError:
            pass
        say(on=self.number, ended=self.call.code().name, why=self.call.details())


def request(command):
    message = ext_proc.ProcessingRequest()
    side = "response" if command.get("response") else "request"
    if "headers" in command:
        part = getattr(message, side + "_headers")
        fill(part.headers.headers, command["headers"])
        part.end_of_stream = command.get("eos", False)
        # Envoy tells its modes; other proxies tell none.
        if side == "request" and command.get("config", 4) is not None:
            config = message.protocol_config
            config.request_body_mode = command.get("request_config", 4)
            config.response_body_mode = command.get("config", 4)
    elif "trailers" in command:
        part = getattr(message, side + "_trailers")
        part.SetInParent()
        fill(part.trailers.headers, command["trailers"])
    else:
        part = getattr(message, side + "_body")
        part.body = command["body"].encode("latin-1")
        part.end_of_stream = command.get("eos", False)
    for namespace, values in command.get("metadata", {}).items():
        message.metadata_context.filter_metadata[namespace].update(values)
    return message


def fill(headers, pairs):
    for name, value in pairs:
        headers.add(key=name, raw_value=value.encode("latin-1"))


def told(message):
    """What a picker said, in few words. What Envoy would not take is an error here."""
    kind = message.WhichOneof("response")
    words = {"kind": kind}
    if message.dynamic_metadata.fields:
        words["metadata"] = MessageToDict(message.dynamic_metadata)
    part = getattr(message, kind)
    if kind == "immediate_response":
        words |= mutation(part.headers)
        words["status"] = part.status.code
        words["body"] = part.body.decode("latin-1")
    elif kind.endswith("_headers"):
        assert part.response.status == ext_proc.CommonResponse.CONTINUE
        assert not part.response.HasField("body_mutation")
        words |= mutation(part.response.header_mutation)
        words["clear_route_cache"] = part.response.clear_route_cache
    elif kind.endswith("_body"):
        body = part.response.body_mutation
        assert body.WhichOneof("mutation") == "streamed_response", body
        words["body"] = body.streamed_response.body.decode("latin-1")
        words["eos"] = body.streamed_response.end_of_stream
    return words


def mutation(headers):
    for option in headers.set_headers:
        assert not option.header.value, "raw_value is the one that Envoy reads"
    pairs = [(o.header.key, o.header.raw_value.decode("latin-1")) for o in headers.set_headers]
    return {"set": dict(pairs), "remove": list(headers.remove_headers)}


def status(call):
    try:
        return call()
    except grpc.RpcError as error:
        return error.code().name


def obey(channel, command):
    health = health_pb2_grpc.HealthStub(channel)
    if "health" in command:
        asked = health_pb2.HealthCheckRequest(service=command["health"])
        name = health_pb2.HealthCheckResponse.ServingStatus.Name
        return say(health=status(lambda: name(health.Check(asked, timeout=60).status)))
    if "watch" in command:
        asked = health_pb2.HealthCheckRequest(service=command["watch"])
        name = health_pb2.HealthCheckResponse.ServingStatus.Name
        return say(watch=status(lambda: name(next(iter(health.Watch(asked, timeout=60))).status)))
    if "services" in command:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        answer = next(stub.ServerReflectionInfo(iter([asked]), timeout=60))
        return say(services=[service.name for service in answer.list_services_response.service])
    number = command["on"]
    if number not in streams:
        streams[number] = Stream(channel, number)
    stream = streams[number]
    if "raw" in command:
        stream.outgoing.put(command["raw"].encode("latin-1"))
    elif "end" in command:
        stream.outgoing.put(None)
    elif "cancel" in command:
        stream.call.cancel()
    elif "open" not in command:
        stream.send(request(command))


def main():
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(sys.argv[1], options=limits) as channel:
        for line in sys.stdin:
            obey(channel, json.loads(line))


main()
