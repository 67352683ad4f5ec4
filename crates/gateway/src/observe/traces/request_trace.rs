//! The events of one sampled request, with their times. Spans are made from them later, outside the
//! path of the request.

use std::time::Duration;

use flow::Time;
use http::HeaderValue;
use http::uri::Authority;

use super::context::{self, SpanId, TraceId};
use crate::backend::{Attempt, Endpoint};

/// Further attempts and waits of one request are not recorded.
const PARTS_MAX: usize = 32;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    pub(super) trace: TraceId,
    pub(super) root: SpanId,
    /// The span of the client, and what its `tracestate` says.
    pub(super) parent: Option<SpanId>,
    pub(super) state: String,
    /// The arrival of the request, by the clock of the core and by that of the system.
    pub(super) arrived: Time,
    pub(super) arrived_at: Duration,
    waits_since: Option<Time>,
    pub(super) waits: Vec<(Time, Time)>,
    pub(super) attempts: Vec<TracedAttempt>,
    pub(super) first_byte: Option<Time>,
}

/// One attempt at a backend.
#[derive(Debug)]
pub(super) struct TracedAttempt {
    pub(super) span: SpanId,
    pub(super) backend: String,
    pub(super) kind: &'static str,
    /// Host and port, which are told apart off the path of the request.
    pub(super) authority: Authority,
    pub(super) began: Time,
    /// When it failed, or when the response ended.
    pub(super) ended: Option<Time>,
    pub(super) result: Option<Attempt>,
}

// === impl RequestTrace ===

impl RequestTrace {
    pub(super) fn new(
        (trace, root): (TraceId, SpanId),
        parent: Option<SpanId>,
        state: String,
        (arrived, arrived_at): (Time, Duration),
    ) -> Self {
        Self {
            trace,
            root,
            parent,
            state,
            arrived,
            arrived_at,
            waits_since: None,
            waits: Vec::new(),
            attempts: Vec::new(),
            first_byte: None,
        }
    }

    pub(in crate::observe) fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// The request begins to wait, unless it waits already.
    pub(crate) fn began_waiting(&mut self, now: Time) {
        self.waits_since.get_or_insert(now);
    }

    /// A backend was granted to the request, which is sent there.
    pub(super) fn granted(&mut self, endpoint: &Endpoint, span: SpanId, now: Time) {
        self.end_wait(now);
        self.end_attempt(now);
        if self.attempts.len() < PARTS_MAX {
            self.attempts.push(TracedAttempt {
                span,
                backend: endpoint.name.clone(),
                kind: endpoint.kind.name(),
                authority: endpoint.authority.clone(),
                began: now,
                ended: None,
                result: None,
            });
        }
    }

    /// The attempt has a result. One that was answered lasts until the response ends.
    pub(crate) fn attempted(&mut self, attempt: Attempt, now: Time) {
        let Some(last) = self.attempts.last_mut() else { return };
        last.result = Some(attempt);
        if attempt != Attempt::Answered {
            last.ended = Some(now);
        }
    }

    pub(crate) fn response_began(&mut self, now: Time) {
        self.first_byte = Some(now);
    }

    /// The header by which the backend of the present attempt continues the trace.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        self.attempts.last().map(|attempt| context::header(self.trace, attempt.span))
    }

    /// Ends what has not ended.
    pub(super) fn end(&mut self, now: Time) {
        self.end_wait(now);
        self.end_attempt(now);
    }

    fn end_wait(&mut self, now: Time) {
        let since = self.waits_since.take();
        if let Some(since) = since.filter(|_| self.waits.len() < PARTS_MAX) {
            self.waits.push((since, now));
        }
    }

    fn end_attempt(&mut self, now: Time) {
        if let Some(last) = self.attempts.last_mut() {
            last.ended.get_or_insert(now);
        }
    }

    /// A time of the core by the clock of the system, in nanoseconds.
    pub(super) fn unix_nanos(&self, time: Time) -> u64 {
        let since = time.nanos().saturating_sub(self.arrived.nanos());
        crate::clock::nanos(self.arrived_at).saturating_add(since)
    }
}
