"""Receives traces by OTLP over HTTP and prints their spans."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from otlp_spans import print_spans


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        good = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
        answer = print_spans(body)
        self.send_response(200 if good else 400)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
