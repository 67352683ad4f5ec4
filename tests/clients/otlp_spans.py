"""Decodes traces with OpenTelemetry's own messages, and prints each span as one line of JSON, with its
resource."""

import json

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

# Older versions of the messages have another name for the same field.
FIELDS = service.ExportTraceServiceRequest.DESCRIPTOR.fields_by_name["resource_spans"].message_type
SCOPES = FIELDS.fields_by_number[2].name


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def attributes_of(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


def span_of(span, resource):
    return {
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "name": span.name,
        "kind": span.SpanKind.Name(span.kind),
        "began": span.start_time_unix_nano,
        "ended": span.end_time_unix_nano,
        "attributes": attributes_of(span.attributes),
        "events": {event.name: event.time_unix_nano for event in span.events},
        "error": span.status.message if span.status.code == 2 else None,
        "resource": resource,
    }


def print_spans(message):
    request = service.ExportTraceServiceRequest()
    request.ParseFromString(message)
    for resource_spans in request.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in getattr(resource_spans, SCOPES):
            for span in scope_spans.spans:
                print(json.dumps(span_of(span, resource)), flush=True)
    return service.ExportTraceServiceResponse().SerializeToString()
