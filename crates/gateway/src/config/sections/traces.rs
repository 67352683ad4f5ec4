//! The section `traces`.

use super::forms::BACKEND_URL;
use super::{count, number};
use crate::config::settings::TraceProtocol;
use crate::schema::ValueType::{Bool, Keyword, Text};
use crate::schema::{NOT_EMPTY, SectionSchema, key, words};

pub(in crate::config) const TRACES: SectionSchema = SectionSchema::new(
    "traces",
    &[
        key(
            "endpoint",
            Text(&BACKEND_URL),
            "The receiver of traces, such as an OpenTelemetry Collector. With the protocol `http` \
             `/v1/traces` is added.",
        )
        .unset("traces are off")
        .restart(),
        key(
            "protocol",
            Keyword(words::<TraceProtocol>),
            "How the receiver is spoken to: OTLP over HTTP with protobuf (usually port 4318), or \
             over gRPC (usually port 4317).",
        )
        .default("http")
        .restart(),
        key(
            "sample_ratio",
            number(0.0, 1.0),
            "The share of requests that are traced, of those that no `traceparent` decides.",
        )
        .default("1.0")
        .restart(),
        key(
            "follow_parent",
            Bool,
            "Whether the `traceparent` of a request decides whether the request is traced.",
        )
        .default("true")
        .restart(),
        key("service_name", Text(&NOT_EMPTY), "The `service.name` of the spans.")
            .default("tidegate")
            .restart(),
        key(
            "queue_max",
            count(1, 1_000_000),
            "Traces that wait to be sent. Further ones are dropped and counted.",
        )
        .default("2048")
        .restart(),
    ],
)
.doc(
    "Each traced request has one tree of spans: the request, each wait in the queue, each attempt \
     at a backend. GATEWAY.md has the attributes.",
);
