"""As much of the Kubernetes API as a picker needs to find one model server: a pool with one pod at
127.0.0.1. Beside it vLLM's metrics of an idle server, on the same port.

Arguments: the process to end with, and the model server's port. Prints its own port.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "server",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": "1",
        "labels": {"app": "server"},
    },
    "spec": {"containers": [{"name": "server", "image": "server"}]},
    "status": {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POOL = {
    "kind": "InferencePool",
    "apiVersion": "inference.networking.k8s.io/v1",
    "metadata": {"name": "pool", "namespace": "default", "uid": "2", "resourceVersion": "1"},
    "spec": {
        "selector": {"matchLabels": {"app": "server"}},
        "targetPorts": [{"number": int(sys.argv[2])}],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
    },
}
OBJECTS = {"pods": POD, "inferencepools": POOL}


def resources(version, name):
    entry = {
        "name": name,
        "singularName": name[:-1],
        "namespaced": True,
        "kind": OBJECTS[name]["kind"],
        "verbs": ["get", "list", "watch"],
    }
    return {"kind": "APIResourceList", "groupVersion": version, "resources": [entry]}


def group():
    version = {"groupVersion": POOL["apiVersion"], "version": "v1"}
    return {
        "name": "inference.networking.k8s.io",
        "versions": [version],
        "preferredVersion": version,
    }


DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]},
    "/api/v1": resources("v1", "pods"),
    "/apis/" + POOL["apiVersion"]: resources(POOL["apiVersion"], "inferencepools"),
}
METRICS = """vllm:num_requests_running{model_name="m"} 0
vllm:num_requests_waiting{model_name="m"} 0
vllm:kv_cache_usage_perc{model_name="m"} 0
vllm:lora_requests_info{max_lora="0",running_lora_adapters="",waiting_lora_adapters=""} 1
vllm:cache_config_info{block_size="16",num_gpu_blocks="4096"} 1
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlparse(self.path)
        query = parse_qs(url.query)
        if url.path == "/metrics":
            return self.answer(METRICS.encode(), "text/plain; version=0.0.4")
        if url.path in DISCOVERY:
            return self.json(DISCOVERY[url.path])
        path, _, last = url.path.rpartition("/")
        if last in OBJECTS:
            return self.list(OBJECTS[last], query)
        found = OBJECTS.get(path.rpartition("/")[2])
        if found and found["metadata"]["name"] == last:
            return self.json(found)
        self.json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

    def list(self, found, query):
        if query.get("watch", ["false"])[0] in ("true", "1"):
            return self.watch(found, query.get("sendInitialEvents", ["false"])[0] == "true")
        kind, version = found["kind"] + "List", found["apiVersion"]
        meta = {"resourceVersion": "1"}
        self.json({"kind": kind, "apiVersion": version, "metadata": meta, "items": [found]})

    def watch(self, found, initial):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if initial:
            self.event("ADDED", found)
            # So ends the list that a watch begins with.
            meta = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
            self.event("BOOKMARK", found | {"metadata": meta})
        # Nothing ever changes.
        threading.Event().wait()

    def event(self, kind, of):
        line = json.dumps({"type": kind, "object": of}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def json(self, value, status=200):
        self.answer(json.dumps(value).encode(), "application/json", status)

    def answer(self, body, kind, status=200):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    while os.path.exists("/proc/" + sys.argv[1]):
        time.sleep(1)


main()
