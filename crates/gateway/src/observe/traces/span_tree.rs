//! The spans of one request: the request itself, below it each wait in the queue and each attempt
//! at a backend. Attributes have the names of OpenTelemetry's conventions for HTTP and for
//! generative models; those that only Tidegate has begin with `tidegate.`.

use flow::Time;
use prost::Message as _;

use super::attributes::Attributes;
use super::context::SpanId;
use super::messages::{OtlpSpan, SpanEvent, SpanKind, SpanStatus};
use super::request_trace::{RequestTrace, TracedAttempt};
use crate::backend::Attempt;
use crate::observe::outcome::{OK, UNSEEN};
use crate::observe::{BAND_NAMES, Record};

/// The flag of a span that was sampled.
const SAMPLED: u32 = 1;
/// The code of a status that is an error.
const ERROR: i32 = 2;

/// The operations of the conventions, by the end of the path.
const OPERATIONS: [(&str, &str); 9] = [
    ("/chat/completions", "chat"),
    ("/api/chat", "chat"),
    ("/responses", "chat"),
    ("/messages", "chat"),
    ("/completions", "text_completion"),
    ("/api/generate", "text_completion"),
    ("/embeddings", "embeddings"),
    ("/api/embed", "embeddings"),
    ("/rerank", "rerank"),
];

/// The spans of one request.
pub(super) fn spans(
    record: &Record,
    trace: &RequestTrace,
    mut fresh: impl FnMut() -> SpanId,
) -> Vec<Vec<u8>> {
    let ended = Time::from_nanos(trace.arrived.nanos().saturating_add(record.total.nanos()));
    let mut spans = vec![root(record, trace, ended)];
    for &times in &trace.waits {
        spans.push(wait(record, trace, fresh(), times));
    }
    for (at, attempt) in trace.attempts.iter().enumerate() {
        let is_last = at + 1 == trace.attempts.len();
        spans.push(attempted(record, trace, attempt, is_last));
    }
    spans
}

fn root(record: &Record, trace: &RequestTrace, ended: Time) -> Vec<u8> {
    let mut attributes = Attributes::of(record);
    attributes.text("http.request.method", record.method.as_str());
    attributes.text("url.path", &record.path);
    attributes.text("tidegate.request_id", record.request_id.to_str().unwrap_or_default());
    attributes.text("tidegate.outcome", record.outcome);
    attributes.text("tidegate.flow", &record.flow);
    attributes.text("tidegate.routing.reason", record.reason);
    if let Some(tenant) = &record.tenant {
        attributes.text("tidegate.tenant", &tenant.name);
    }
    attributes.int("tidegate.attempts", record.attempts.into());
    attributes.bool("tidegate.bypassed", record.bypassed);
    attributes.int("http.request.body.size", record.bytes_in);
    attributes.int("http.response.body.size", record.bytes_out);
    let failed = record.status >= 500 || (record.first_byte.is_some() && !is_well(record));
    attributes.status(record);
    // A path that clients invent must not become a name.
    let name = match is_usual(&record.path) {
        true => format!("{} {}", record.method, record.path),
        false => record.method.to_string(),
    };
    let span = OtlpSpan {
        parent_span_id: trace.parent.map(Vec::from).unwrap_or_default(),
        status: failed.then(|| error(record.outcome)),
        ..span(trace, trace.root, (name, SpanKind::Server), (trace.arrived, ended))
    };
    encoded(&span, attributes)
}

fn wait(record: &Record, trace: &RequestTrace, id: SpanId, times: (Time, Time)) -> Vec<u8> {
    let mut attributes = Attributes::of_span();
    attributes.text("tidegate.band", record.band.map_or("-", |band| BAND_NAMES[band as usize]));
    attributes.text("tidegate.flow", &record.flow);
    let refused = trace.attempts.is_empty() && !is_well(record);
    let name = ("wait in queue".to_owned(), SpanKind::Internal);
    let status = refused.then(|| error(record.outcome));
    encoded(&OtlpSpan { status, ..span(trace, id, name, times) }, attributes)
}

fn attempted(
    record: &Record,
    trace: &RequestTrace,
    attempt: &TracedAttempt,
    is_last: bool,
) -> Vec<u8> {
    let mut attributes = Attributes::of(record);
    attributes.text("gen_ai.provider.name", attempt.kind);
    attributes.text("server.address", attempt.authority.host());
    if let Some(port) = attempt.authority.port_u16() {
        attributes.int("server.port", port.into());
    }
    attributes.text("tidegate.backend", &attempt.backend);
    let answered = attempt.result == Some(Attempt::Answered);
    let serves = is_last && (answered || record.first_byte.is_some());
    let mut events = Vec::new();
    if serves {
        attributes.status(record);
        attributes.count("gen_ai.usage.input_tokens", record.prompt_tokens);
        attributes.count("gen_ai.usage.output_tokens", record.output_tokens);
        attributes.count("tidegate.usage.cached_tokens", record.cached_tokens);
        events.extend(trace.first_byte.map(|at| SpanEvent {
            time_unix_nano: trace.unix_nanos(at),
            name: "first token".into(),
        }));
    }
    let result = attempt.result.map_or("none", label);
    attributes.text("tidegate.result", result);
    let failed = if serves { !is_well(record) } else { true };
    let times = (attempt.began, attempt.ended.unwrap_or(attempt.began));
    let model = record.target.as_deref().unwrap_or_default();
    let name = match operation(&record.path) {
        Some(operation) => format!("{operation} {model}").trim_end().to_owned(),
        None => record.method.to_string(),
    };
    let span = OtlpSpan {
        status: failed.then(|| error(if serves { record.outcome } else { result })),
        events,
        ..span(trace, attempt.span, (name, SpanKind::Client), times)
    };
    encoded(&span, attributes)
}

/// A span below the request.
fn span(
    trace: &RequestTrace,
    id: SpanId,
    (name, kind): (String, SpanKind),
    (began, ended): (Time, Time),
) -> OtlpSpan {
    OtlpSpan {
        trace_id: trace.trace.into(),
        span_id: id.into(),
        trace_state: trace.state.clone(),
        parent_span_id: trace.root.into(),
        name,
        kind: kind.into(),
        start_time_unix_nano: trace.unix_nanos(began),
        end_time_unix_nano: trace.unix_nanos(ended),
        events: Vec::new(),
        status: None,
        flags: SAMPLED,
    }
}

/// A span with its attributes, as it is sent.
fn encoded(span: &OtlpSpan, attributes: Attributes) -> Vec<u8> {
    let mut bytes = attributes.into_bytes();
    bytes.extend_from_slice(&span.encode_to_vec());
    bytes
}

fn operation(path: &str) -> Option<&'static str> {
    let found = OPERATIONS.iter().find(|(end, _)| path.ends_with(end));
    found.map(|(_, operation)| *operation)
}

/// Whether a path is one of a few that many clients use.
fn is_usual(path: &str) -> bool {
    let rest = path.strip_prefix("/v1").unwrap_or(path);
    OPERATIONS.iter().any(|(usual, _)| *usual == rest)
}

/// Whether neither the gateway nor a backend failed the request.
fn is_well(record: &Record) -> bool {
    [OK, UNSEEN, "client_closed", "client_stalled"].contains(&record.outcome) && record.status < 500
}

fn error(message: &str) -> SpanStatus {
    SpanStatus { message: message.to_owned(), code: ERROR }
}

fn label(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Answered => "answered",
        Attempt::Refused => "refused",
        Attempt::Failed => "failed",
        Attempt::Silent => "silent",
        Attempt::Withdrawn => "withdrawn",
        Attempt::Full(_) => "full",
    }
}

// === impl Attributes ===

impl Attributes {
    /// What every span of a request to a model has.
    fn of(record: &Record) -> Self {
        let mut attributes = Self::of_span();
        attributes.text("gen_ai.operation.name", operation(&record.path).unwrap_or_default());
        let (model, target) = record.models();
        attributes.text("gen_ai.request.model", model);
        if target != model {
            attributes.text("tidegate.target_model", target);
        }
        attributes
    }

    /// The status of the response, and the error if it is one.
    fn status(&mut self, record: &Record) {
        if record.status > 0 {
            self.int("http.response.status_code", record.status.into());
        }
        if ![OK, UNSEEN].contains(&record.outcome) {
            self.text("error.type", record.outcome);
        } else if record.status >= 400 {
            self.text("error.type", &record.status.to_string());
        }
    }
}
