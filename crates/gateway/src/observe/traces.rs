//! Traces in the format of OpenTelemetry: one tree of spans for each sampled request.
//!
//! A sampled request collects times on its way ([`RequestTrace`]) and is handed over at its end. A
//! task of the process takes the requests in batches, makes spans of them and sends them
//! (`trace_export`). Their queue is bounded: if the receiver is too slow, traces are dropped and
//! counted, and no request waits.

mod attributes;
mod context;
mod messages;
mod request_trace;
mod span_tree;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Time;
use http::HeaderMap;
use prost::Message as _;
use tokio::sync::Notify;

use super::Record;
use crate::backend::Endpoint;
use crate::clock;
use crate::config::settings::Traces;
use attributes::Attributes;
use context::SpanId;
use messages::{ExportTraceServiceRequest, InstrumentationScope, ResourceSpans, ScopeSpans};

pub(crate) use context::TRACEPARENT;
pub(super) use context::TraceId;
pub(crate) use request_trace::RequestTrace;

/// The most traces in one message.
const BATCH_MAX: usize = 512;
/// A trace waits for others for at most this time.
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// The reasons why traces are dropped, as label values.
pub(super) const DROP_REASONS: [&str; 2] = ["queue_full", "export_failed"];

/// Samples requests, and keeps those that have ended until they are sent.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) settings: Traces,
    /// Trace ids whose last seven bytes are below this are sampled.
    threshold: u64,
    ids: RandomState,
    last_id: AtomicU64,
    ended: Mutex<Vec<EndedTrace>>,
    /// There is a whole batch, or the process ends.
    due: Notify,
    closing: AtomicBool,
    sent: AtomicU64,
    /// By reason, as in [`DROP_REASONS`].
    dropped: [AtomicU64; DROP_REASONS.len()],
}

/// A request that has ended.
#[derive(Debug)]
pub(crate) struct EndedTrace {
    record: Record,
    trace: Box<RequestTrace>,
}

// === impl Tracer ===

impl Tracer {
    pub(super) fn new(settings: &Traces) -> Self {
        Self {
            settings: settings.clone(),
            threshold: (settings.sample_ratio * (1_u64 << 56) as f64) as u64,
            ids: RandomState::new(),
            last_id: AtomicU64::new(0),
            ended: Mutex::default(),
            due: Notify::new(),
            closing: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: Default::default(),
        }
    }

    /// Begins the trace of a request that is sampled.
    pub(super) fn begin(&self, headers: &HeaderMap, now: Time) -> Option<Box<RequestTrace>> {
        let context = context::read(headers);
        let trace = context.as_ref().map_or_else(|| self.fresh_trace(), |context| context.trace);
        let follows = context.as_ref().filter(|_| self.settings.follow_parent);
        if !follows.map_or_else(|| self.samples(trace), |context| context.sampled) {
            return None;
        }
        let state = context.as_ref().map(|_| context::state(headers)).unwrap_or_default();
        let parent = context.map(|context| context.parent);
        let arrived = (now, clock::since_epoch());
        let trace = RequestTrace::new((trace, self.fresh_span()), parent, state, arrived);
        Some(Box::new(trace))
    }

    /// A backend was granted to a request.
    pub(super) fn granted(&self, trace: &mut RequestTrace, endpoint: &Endpoint, now: Time) {
        trace.granted(endpoint, self.fresh_span(), now);
    }

    /// Takes a request that has ended.
    pub(super) fn ended(&self, record: &Record, mut trace: Box<RequestTrace>, now: Time) {
        trace.end(now);
        let mut record = record.clone();
        record.workload = String::new();
        record.bound_texts();
        let ended = EndedTrace { record, trace };
        let mut queue = self.queue();
        if queue.len() >= self.settings.queue_max {
            drop(queue);
            self.dropped[0].fetch_add(1, Relaxed);
            return;
        }
        queue.push(ended);
        if queue.len() == BATCH_MAX {
            self.due.notify_one();
        }
    }

    /// Waits for the next batch. `None` when the process ends and all is taken.
    pub(crate) async fn next_batch(&self) -> Option<Vec<EndedTrace>> {
        loop {
            if !self.closing.load(Relaxed) && self.queue().len() < BATCH_MAX {
                // Either end of the wait is good.
                let _ = tokio::time::timeout(BATCH_EVERY, self.due.notified()).await;
            }
            let mut queue = self.queue();
            let count = queue.len().min(BATCH_MAX);
            if count > 0 {
                return Some(queue.drain(..count).collect());
            }
            if self.closing.load(Relaxed) {
                return None;
            }
        }
    }

    /// Lets [`Self::next_batch`] end after what is there.
    pub(crate) fn close(&self) {
        self.closing.store(true, Relaxed);
        self.due.notify_one();
    }

    /// The message for a batch.
    pub(crate) fn encode(&self, batch: &[EndedTrace]) -> Vec<u8> {
        let spans = batch.iter().flat_map(|EndedTrace { record, trace }| {
            span_tree::spans(record, trace, || self.fresh_span())
        });
        let version = env!("CARGO_PKG_VERSION");
        let scope = InstrumentationScope { name: "tidegate".into(), version: version.into() };
        let scope_spans = ScopeSpans { scope: Some(scope), spans: spans.collect() };
        let mut resource = Attributes::of_resource();
        resource.text("service.name", &self.settings.service_name);
        resource.text("service.version", version);
        let resource = resource.into_bytes();
        let resource_spans = ResourceSpans { resource, scope_spans: vec![scope_spans] };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
    }

    /// Counts traces that were sent, or that no receiver took.
    pub(crate) fn count(&self, traces: usize, sent: bool) {
        let count = if sent { &self.sent } else { &self.dropped[1] };
        count.fetch_add(traces as u64, Relaxed);
    }

    /// The numbers of sent traces, and of dropped ones by reason.
    pub(super) fn counts(&self) -> (u64, [u64; DROP_REASONS.len()]) {
        (self.sent.load(Relaxed), std::array::from_fn(|at| self.dropped[at].load(Relaxed)))
    }

    fn samples(&self, trace: TraceId) -> bool {
        let low = u128::from_be_bytes(trace) as u64 & ((1 << 56) - 1);
        low < self.threshold
    }

    fn fresh_trace(&self) -> TraceId {
        let mut trace = TraceId::default();
        trace[..8].copy_from_slice(&self.fresh_span());
        trace[8..].copy_from_slice(&self.fresh_span());
        trace
    }

    /// A random number; never zero, which no id may be.
    fn fresh_span(&self) -> SpanId {
        let number = self.ids.hash_one(self.last_id.fetch_add(1, Relaxed));
        number.max(1).to_be_bytes()
    }

    fn queue(&self) -> MutexGuard<'_, Vec<EndedTrace>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
