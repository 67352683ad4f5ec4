"""Receives traces by OTLP over gRPC, with the gRPC of Google, and prints their spans. The first call
is told to come again, as an overloaded receiver does."""

from concurrent import futures

import grpc

from otlp_spans import print_spans

calls = 0


def export(message, context):
    global calls
    calls += 1
    if calls == 1:
        context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
    return print_spans(message)


method = grpc.unary_unary_rpc_method_handler(export)
service = "opentelemetry.proto.collector.trace.v1.TraceService"
server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": method}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(f"listening on http://127.0.0.1:{port}", flush=True)
server.wait_for_termination()
