//! The events of one sampled request, with their times. Spans are made from them later, outside the
//! path of the request.

use std::sync::Arc;
use std::time::Duration;

use flow::Time;
use http::HeaderValue;

use super::context::{self, SpanId, TraceId};
use crate::backend::{Attempt, Endpoint};
use crate::clock::Clock;

/// Further attempts and waits of one request are not recorded.
const PARTS_MAX: usize = 32;
/// The ids of spans below the root are derived from it by these numbers.
const ATTEMPTS: u64 = 1;
const WAITS: u64 = ATTEMPTS + PARTS_MAX as u64;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    pub(super) trace: TraceId,
    pub(super) root: SpanId,
    /// The span of the client, and what its `tracestate` says.
    pub(super) parent: Option<SpanId>,
    pub(super) state: String,
    /// The arrival of the request, by the clock of the core, and in nanoseconds since 1970.
    pub(super) arrived: Time,
    pub(super) arrived_at: u64,
    waits_since: Option<Time>,
    pub(super) waits: Vec<(Time, Time)>,
    /// Most requests have one attempt, which takes no allocation.
    first_attempt: Option<TracedAttempt>,
    more_attempts: Vec<TracedAttempt>,
    pub(super) first_byte: Option<Time>,
}

/// One attempt at a backend.
#[derive(Debug)]
pub(super) struct TracedAttempt {
    pub(super) span: SpanId,
    pub(super) endpoint: Arc<Endpoint>,
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
        (arrived, arrived_at): (Time, u64),
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
            first_attempt: None,
            more_attempts: Vec::new(),
            first_byte: None,
        }
    }

    /// The trace, and this time by the clock of the system.
    pub(in crate::observe) fn exemplar_at(&self, now: Time) -> (TraceId, Duration) {
        (self.trace, Duration::from_nanos(self.unix_nanos(now)))
    }

    /// The request begins to wait, unless it waits already.
    pub(crate) fn began_waiting(&mut self, now: Time) {
        self.waits_since.get_or_insert(now);
    }

    /// A backend was granted to the request, which is sent there.
    pub(crate) fn granted(&mut self, endpoint: &Arc<Endpoint>, now: Time) {
        self.end_wait(now);
        self.end_attempt(now);
        let count = usize::from(self.first_attempt.is_some()) + self.more_attempts.len();
        if count < PARTS_MAX {
            let attempt = TracedAttempt {
                span: context::derived(self.root, ATTEMPTS + count as u64),
                endpoint: Arc::clone(endpoint),
                began: now,
                ended: None,
                result: None,
            };
            match self.first_attempt {
                None => self.first_attempt = Some(attempt),
                Some(_) => self.more_attempts.push(attempt),
            }
        }
    }

    pub(super) fn attempts(&self) -> impl Iterator<Item = &TracedAttempt> {
        self.first_attempt.iter().chain(&self.more_attempts)
    }

    /// The id of the span of a wait.
    pub(super) fn wait_id(&self, at: usize) -> SpanId {
        context::derived(self.root, WAITS + at as u64)
    }

    fn last_attempt(&mut self) -> Option<&mut TracedAttempt> {
        self.more_attempts.last_mut().or(self.first_attempt.as_mut())
    }

    /// The attempt has a result. One that was answered lasts until the response ends.
    pub(crate) fn attempted(&mut self, attempt: Attempt, clock: Clock) {
        let Some(last) = self.last_attempt() else { return };
        last.result = Some(attempt);
        if attempt != Attempt::Answered {
            last.ended = Some(clock.now());
        }
    }

    pub(crate) fn response_began(&mut self, now: Time) {
        self.first_byte = Some(now);
    }

    /// The header by which the backend of the present attempt continues the trace.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let last = self.more_attempts.last().or(self.first_attempt.as_ref())?;
        Some(context::header(self.trace, last.span))
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
        if let Some(last) = self.last_attempt() {
            last.ended.get_or_insert(now);
        }
    }

    /// A time of the core by the clock of the system, in nanoseconds.
    pub(super) fn unix_nanos(&self, time: Time) -> u64 {
        let since = time.nanos().saturating_sub(self.arrived.nanos());
        self.arrived_at.saturating_add(since)
    }
}
