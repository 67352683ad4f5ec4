"""Asks a scaler as KEDA does, with gRPC's own client.

The messages are made here from the interface that KEDA documents, so that a mistake in our reading
of a .proto file cannot agree with itself.

  VERB ADDRESS [KEY=VALUE...]

  active                  true or false
  spec                    NAME TARGET
  metrics                 NAME VALUE
  watch                   true or false, one a line, until the server ends the stream
  tls                     as active, through TLS
  crowd                   how many of 1000 streams at once are accepted, then as active

Each prints `CODE text` where the server refuses.
"""

import ssl
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
SERVICE = "/externalscaler.ExternalScaler/"


def message(file, name, *fields):
    described = file.message_type.add(name=name)
    for number, (field, kind, label, type_name) in enumerate(fields, 1):
        added = described.field.add(name=field, number=number, type=kind, label=label)
        if type_name:
            added.type_name = f".externalscaler.{type_name}"
    return described


def library():
    file = descriptor_pb2.FileDescriptorProto(
        name="externalscaler.proto", package="externalscaler", syntax="proto3"
    )
    one, many = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    text, whole, real = FIELD.TYPE_STRING, FIELD.TYPE_INT64, FIELD.TYPE_DOUBLE
    inner = FIELD.TYPE_MESSAGE
    reference = message(
        file,
        "ScaledObjectRef",
        ("name", text, one, None),
        ("namespace", text, one, None),
        ("scalerMetadata", inner, many, "ScaledObjectRef.ScalerMetadataEntry"),
    )
    entry = reference.nested_type.add(name="ScalerMetadataEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=text, label=one)
    entry.field.add(name="value", number=2, type=text, label=one)
    message(file, "IsActiveResponse", ("result", FIELD.TYPE_BOOL, one, None))
    message(
        file,
        "MetricSpec",
        ("metricName", text, one, None),
        ("targetSize", whole, one, None),
        ("targetSizeFloat", real, one, None),
    )
    message(file, "GetMetricSpecResponse", ("metricSpecs", inner, many, "MetricSpec"))
    message(
        file,
        "GetMetricsRequest",
        ("scaledObjectRef", inner, one, "ScaledObjectRef"),
        ("metricName", text, one, None),
    )
    message(
        file,
        "MetricValue",
        ("metricName", text, one, None),
        ("metricValue", whole, one, None),
        ("metricValueFloat", real, one, None),
    )
    message(file, "GetMetricsResponse", ("metricValues", inner, many, "MetricValue"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    def find(name):
        found = pool.FindMessageTypeByName(f"externalscaler.{name}")
        return message_factory.GetMessageClass(found)

    return find


find = library()


def method(channel, name, response, streams=False):
    make = channel.unary_stream if streams else channel.unary_unary
    return make(
        SERVICE + name,
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=find(response).FromString,
    )


def word(result):
    return str(result).lower()


def active(channel, reference):
    call = method(channel, "IsActive", "IsActiveResponse")
    print(word(call(reference, timeout=60).result))


def spec(channel, reference):
    call = method(channel, "GetMetricSpec", "GetMetricSpecResponse")
    for one in call(reference, timeout=60).metricSpecs:
        print(one.metricName, one.targetSize, one.targetSizeFloat)


def metrics(channel, reference):
    specs = method(channel, "GetMetricSpec", "GetMetricSpecResponse")(reference, timeout=60)
    call = method(channel, "GetMetrics", "GetMetricsResponse")
    for one in specs.metricSpecs:
        # KEDA puts the number of the trigger in front.
        name = f"s0-{one.metricName}"
        request = find("GetMetricsRequest")(scaledObjectRef=reference, metricName=name)
        for value in call(request, timeout=60).metricValues:
            print(value.metricName, value.metricValue, value.metricValueFloat)


def watch(channel, reference):
    call = method(channel, "StreamIsActive", "IsActiveResponse", streams=True)
    for response in call(reference):
        print(word(response.result), flush=True)


def crowd(channel, reference):
    call = method(channel, "StreamIsActive", "IsActiveResponse", streams=True)
    streams, accepted = [call(reference) for _ in range(1000)], 0
    for stream in streams:
        try:
            next(stream)
            accepted += 1
        except grpc.RpcError:
            pass
    print(accepted, end=" ")
    active(channel, reference)


def main():
    verb, address, *pairs = sys.argv[1:]
    metadata = dict(pair.split("=", 1) for pair in pairs)
    reference = find("ScaledObjectRef")(name="m", namespace="models", scalerMetadata=metadata)
    if verb == "tls":
        host, port = address.rsplit(":", 1)
        certificate = ssl.get_server_certificate((host, int(port))).encode()
        credentials = grpc.ssl_channel_credentials(root_certificates=certificate)
        options = [("grpc.ssl_target_name_override", "localhost")]
        channel = grpc.secure_channel(address, credentials, options)
        verb = "active"
    else:
        channel = grpc.insecure_channel(address)
    try:
        globals()[verb](channel, reference)
    except grpc.RpcError as error:
        print(error.code().name, error.details())


main()
