//! The spans of one request: the request itself, below it each wait in the queue and each attempt
//! at a backend. Attributes have the names of OpenTelemetry's conventions for HTTP and for
//! generative models; those that only Tidegate has begin with `tidegate.`.

use flow::Time;

use super::request_trace::{RequestTrace, TracedAttempt};
use super::span_blocks::{SpanBlock, SpanBlocks, of_endpoint};
use super::span_writer::{SpanHead, SpanKind, SpanWriter, key};
use crate::backend::Attempt;
use crate::observe::outcome::{OK, UNSEEN};
use crate::observe::{BAND_NAMES, Record};

/// What a thread needs to write spans.
#[derive(Debug, Default)]
pub(super) struct SpanTools {
    pub(super) writer: SpanWriter,
    blocks: SpanBlocks,
}

/// Writes the spans of one request.
pub(super) fn write(tools: &mut SpanTools, record: &Record, trace: &RequestTrace) {
    let (out, block) = (&mut tools.writer, tools.blocks.find(record));
    let ended = Time::from_nanos(trace.arrived.nanos().saturating_add(record.total.nanos()));
    root(out, (record, block), trace, ended);
    for (at, &times) in trace.waits.iter().enumerate() {
        wait(out, record, (trace, at), times);
    }
    let mut attempts = trace.attempts().peekable();
    while let Some(attempt) = attempts.next() {
        let is_last = attempts.peek().is_none();
        attempted(out, (record, block), trace, (attempt, is_last));
    }
}

fn root(
    out: &mut SpanWriter,
    (record, block): (&Record, &SpanBlock),
    trace: &RequestTrace,
    ended: Time,
) {
    out.begin(&SpanHead {
        id: trace.root,
        parent: trace.parent,
        ..head(trace, SpanKind::Server, (trace.arrived, ended))
    });
    out.fields(&block.root);
    let request_id = std::str::from_utf8(record.request_id.as_bytes()).unwrap_or_default();
    out.text(key!("tidegate.request_id"), request_id);
    out.text(key!("tidegate.outcome"), record.outcome);
    out.text(key!("tidegate.flow"), &record.flow);
    out.text(key!("tidegate.routing.reason"), record.reason);
    if let Some(tenant) = &record.tenant {
        out.text(key!("tidegate.tenant"), &tenant.name);
    }
    if let Some(terms) = &record.urgency {
        out.text(key!("tidegate.workload.id"), &record.workload);
        out.int(key!("tidegate.workload.criticality"), terms.criticality.into());
        out.real(key!("tidegate.workload.wait"), terms.wait.secs_f64());
        out.real(key!("tidegate.workload.rate"), terms.rate);
        out.real(key!("tidegate.workload.urgency"), terms.urgency);
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
    out.begin(&SpanHead { id, ..head(trace, SpanKind::Internal, times) });
    out.name("wait in queue", "");
    out.text(key!("tidegate.band"), record.band.map_or("-", |band| BAND_NAMES[band as usize]));
    out.text(key!("tidegate.flow"), &record.flow);
    if trace.attempts().next().is_none() && !is_well(record) {
        out.error(record.outcome);
    }
    out.end();
}

fn attempted(
    out: &mut SpanWriter,
    (record, block): (&Record, &SpanBlock),
    trace: &RequestTrace,
    (attempt, is_last): (&TracedAttempt, bool),
) {
    let times = (attempt.began, attempt.ended.unwrap_or(attempt.began));
    out.begin(&SpanHead { id: attempt.span, ..head(trace, SpanKind::Client, times) });
    out.fields(&block.attempt);
    let endpoint = &attempt.endpoint;
    out.fields(endpoint.span_fields.get_or_init(|| of_endpoint(endpoint)));
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
fn head(trace: &RequestTrace, kind: SpanKind, (began, ended): (Time, Time)) -> SpanHead<'_> {
    SpanHead {
        trace: trace.trace,
        id: trace.root,
        parent: Some(trace.root),
        state: &trace.state,
        kind,
        times: (trace.unix_nanos(began), trace.unix_nanos(ended)),
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
        Attempt::NotSent => "not sent",
        Attempt::Full(_) => "full",
    }
}
