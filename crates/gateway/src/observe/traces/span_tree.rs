//! The spans of one request: the request itself, below it each wait in the queue and each attempt
//! at a backend. Attributes have the names of OpenTelemetry's conventions for HTTP and for
//! generative models; those that only Tidegate has begin with `tidegate.`.

use flow::Time;

use super::request_trace::{RequestTrace, TracedAttempt};
use super::span_writer::{SpanHead, SpanKind, SpanWriter, key};
use crate::backend::Attempt;
use crate::observe::outcome::{OK, UNSEEN};
use crate::observe::{BAND_NAMES, Record};

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

/// Writes the spans of one request.
pub(super) fn write(out: &mut SpanWriter, record: &Record, trace: &RequestTrace) {
    let operation = operation(&record.path);
    let ended = Time::from_nanos(trace.arrived.nanos().saturating_add(record.total.nanos()));
    root(out, (record, operation), trace, ended);
    for (at, &times) in trace.waits.iter().enumerate() {
        wait(out, record, (trace, at), times);
    }
    let mut attempts = trace.attempts().peekable();
    while let Some(attempt) = attempts.next() {
        let is_last = attempts.peek().is_none();
        attempted(out, (record, operation), trace, (attempt, is_last));
    }
}

fn root(
    out: &mut SpanWriter,
    (record, operation): (&Record, Option<&'static str>),
    trace: &RequestTrace,
    ended: Time,
) {
    // A path that clients invent must not become a name.
    let path = if is_usual(&record.path) { record.path.as_str() } else { "" };
    out.begin(&SpanHead {
        id: trace.root,
        parent: trace.parent,
        ..head(trace, (record.method.as_str(), path), SpanKind::Server, (trace.arrived, ended))
    });
    models(out, record, operation);
    out.text(key!("http.request.method"), record.method.as_str());
    out.text(key!("url.path"), &record.path);
    out.text(key!("tidegate.request_id"), record.request_id.to_str().unwrap_or_default());
    out.text(key!("tidegate.outcome"), record.outcome);
    out.text(key!("tidegate.flow"), &record.flow);
    out.text(key!("tidegate.routing.reason"), record.reason);
    if let Some(tenant) = &record.tenant {
        out.text(key!("tidegate.tenant"), &tenant.name);
    }
    out.int(key!("tidegate.attempts"), record.attempts.into());
    out.bool(key!("tidegate.bypassed"), record.bypassed);
    out.int(key!("http.request.body.size"), record.bytes_in);
    out.int(key!("http.response.body.size"), record.bytes_out);
    status(out, record);
    if record.status >= 500 || (record.first_byte.is_some() && !is_well(record)) {
        out.error(record.outcome);
    }
    out.end();
}

fn wait(
    out: &mut SpanWriter,
    record: &Record,
    (trace, at): (&RequestTrace, usize),
    times: (Time, Time),
) {
    let id = trace.wait_id(at);
    out.begin(&SpanHead { id, ..head(trace, ("wait in queue", ""), SpanKind::Internal, times) });
    out.text(key!("tidegate.band"), record.band.map_or("-", |band| BAND_NAMES[band as usize]));
    out.text(key!("tidegate.flow"), &record.flow);
    if trace.attempts().next().is_none() && !is_well(record) {
        out.error(record.outcome);
    }
    out.end();
}

fn attempted(
    out: &mut SpanWriter,
    (record, operation): (&Record, Option<&'static str>),
    trace: &RequestTrace,
    (attempt, is_last): (&TracedAttempt, bool),
) {
    let name = match operation {
        Some(operation) => (operation, record.target.as_deref().unwrap_or_default()),
        None => (record.method.as_str(), ""),
    };
    let times = (attempt.began, attempt.ended.unwrap_or(attempt.began));
    out.begin(&SpanHead { id: attempt.span, ..head(trace, name, SpanKind::Client, times) });
    models(out, record, operation);
    let endpoint = &attempt.endpoint;
    out.text(key!("gen_ai.provider.name"), endpoint.kind.name());
    out.text(key!("server.address"), endpoint.authority.host());
    if let Some(port) = endpoint.authority.port_u16() {
        out.int(key!("server.port"), port.into());
    }
    out.text(key!("tidegate.backend"), &endpoint.name);
    let answered = attempt.result == Some(Attempt::Answered);
    let serves = is_last && (answered || record.first_byte.is_some());
    let result = attempt.result.map_or("none", label);
    out.text(key!("tidegate.result"), result);
    if serves {
        status(out, record);
        out.count(key!("gen_ai.usage.input_tokens"), record.prompt_tokens);
        out.count(key!("gen_ai.usage.output_tokens"), record.output_tokens);
        out.count(key!("tidegate.usage.cached_tokens"), record.cached_tokens);
        if let Some(at) = trace.first_byte {
            out.event("first token", trace.unix_nanos(at));
        }
        if !is_well(record) {
            out.error(record.outcome);
        }
    } else {
        out.error(result);
    }
    out.end();
}

/// A span below the request; its own id is added.
fn head<'a>(
    trace: &'a RequestTrace,
    name: (&'a str, &'a str),
    kind: SpanKind,
    (began, ended): (Time, Time),
) -> SpanHead<'a> {
    SpanHead {
        trace: trace.trace,
        id: trace.root,
        parent: Some(trace.root),
        state: &trace.state,
        name,
        kind,
        times: (trace.unix_nanos(began), trace.unix_nanos(ended)),
    }
}

/// What every span of a request to a model has.
fn models(out: &mut SpanWriter, record: &Record, operation: Option<&'static str>) {
    out.text(key!("gen_ai.operation.name"), operation.unwrap_or_default());
    let (model, target) = record.models();
    out.text(key!("gen_ai.request.model"), model);
    if target != model {
        out.text(key!("tidegate.target_model"), target);
    }
}

/// The status of the response, and the error if it is one.
fn status(out: &mut SpanWriter, record: &Record) {
    if record.status > 0 {
        out.int(key!("http.response.status_code"), record.status.into());
    }
    if ![OK, UNSEEN].contains(&record.outcome) {
        out.text(key!("error.type"), record.outcome);
    } else if record.status >= 400 {
        out.text(key!("error.type"), &record.status.to_string());
    }
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
