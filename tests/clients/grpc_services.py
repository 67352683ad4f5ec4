"""Asks a server for its health and its services, with gRPC's own clients.

  check ADDRESS SERVICE   its status, or the name of the error
  list ADDRESS            the status of every service, one a line
  watch ADDRESS SERVICE   each status, one a line, until the server ends the call
  services ADDRESS        what the server tells about itself, by both names of reflection
  call ADDRESS            every method and a health check, by nothing but what the server tells
  many ADDRESS            two thousand questions at once
"""

import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database, reflection_pb2

PROCESSOR = "envoy/service/ext_proc/v3/external_processor.proto"
STATUS = health_pb2.HealthCheckResponse.ServingStatus


def check(channel, service):
    request = health_pb2.HealthCheckRequest(service=service)
    try:
        print(STATUS.Name(health_pb2_grpc.HealthStub(channel).Check(request, timeout=60).status))
    except grpc.RpcError as error:
        print(error.code().name)


def list(channel):
    answer = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest(), timeout=60)
    for service, health in sorted(answer.statuses.items()):
        print(service or "(all)", STATUS.Name(health.status))


def watch(channel, service):
    request = health_pb2.HealthCheckRequest(service=service)
    for answer in health_pb2_grpc.HealthStub(channel).Watch(request):
        print(STATUS.Name(answer.status))


def ask(channel, version, questions):
    """The answers to questions. The bytes of the messages are the same in both versions."""
    method = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    requests = (reflection_pb2.ServerReflectionRequest(**question) for question in questions)
    return method(requests, timeout=60)


def services(channel):
    for version in ("v1", "v1alpha"):
        listed, file, missing, extension = ask(
            channel,
            version,
            [
                {"list_services": ""},
                {"file_containing_symbol": "envoy.service.ext_proc.v3.ExternalProcessor"},
                {"file_by_filename": "nowhere.proto"},
                {"all_extension_numbers_of_type": "grpc.health.v1.HealthCheckRequest"},
            ],
        )
        print(version, *[service.name for service in listed.list_services_response.service])
        print(version, "files", len(file.file_descriptor_response.file_descriptor_proto))
        for answer in (missing, extension):
            code = answer.error_response.error_code
            print(version, next(name.name for name in grpc.StatusCode if name.value[0] == code))


def call(channel):
    database = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(channel)
    pool = descriptor_pool.DescriptorPool(database)
    for name in sorted(database.get_services()):
        for method in pool.FindServiceByName(name).methods:
            kinds = (method.input_type.full_name, method.output_type.full_name)
            print(method.full_name, *kinds)
    method = pool.FindMethodByName("grpc.health.v1.Health.Check")
    request = message_factory.GetMessageClass(method.input_type)
    response = message_factory.GetMessageClass(method.output_type)
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    status = check(request(service="liveness"), timeout=60).status
    print(method.output_type.fields_by_name["status"].enum_type.values_by_number[status].name)


def many(channel):
    names = [f"envoy/{number}" if number % 2 else PROCESSOR for number in range(2000)]
    answers = ask(channel, "v1", ({"file_by_filename": name} for name in names))
    for name, answer in zip(names, answers, strict=True):
        assert answer.original_request.file_by_filename == name
        assert answer.HasField("error_response") == (name != PROCESSOR)
    print(len(names), "answers in order")


verb, address, *rest = sys.argv[1:]
with grpc.insecure_channel(address) as open_channel:
    globals()[verb](open_channel, *rest)
