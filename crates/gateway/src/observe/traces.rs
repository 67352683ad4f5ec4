//! Traces in the format of OpenTelemetry: one tree of spans for each sampled request.
//!
//! A sampled request collects times on its way ([`RequestTrace`]). At its end its spans are written
//! as the bytes that are sent: a copy of what they need would take longer. A task of the process
//! sends them in batches (`trace_export`). Their queue is bounded: if the receiver is too slow,
//! traces are dropped and counted, and no request waits.

mod batch;
mod context;
mod request_trace;
mod span_blocks;
mod span_tree;
mod span_writer;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flow::Time;
use http::HeaderMap;
use tokio::sync::Notify;

use super::Record;
use crate::clock;
use crate::config::settings::Traces;
use batch::{Envelope, TraceBatch, TraceQueue};
use span_tree::SpanTools;

pub(crate) use context::TRACEPARENT;
pub(super) use context::TraceId;
pub(crate) use request_trace::RequestTrace;

/// A trace waits for others for at most this time.
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// For how long the difference of the clocks is used, in nanoseconds.
const EPOCH_KEPT: u64 = 1_000_000_000;
/// By these the halves of a trace id differ from the id of its first span.
const HIGH: u64 = 1 << 62;
const LOW: u64 = 1 << 63;
/// The reasons why traces are dropped, as label values.
pub(super) const DROP_REASONS: [&str; 2] = ["queue_full", "export_failed"];

/// Samples requests, and keeps those that have ended until they are sent.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) settings: Traces,
    /// Trace ids whose last seven bytes are below this are sampled.
    threshold: u64,
    /// Ids are made from both.
    seed: u64,
    last_id: AtomicU64,
    envelope: Envelope,
    ended: Mutex<TraceQueue>,
    /// Its length, so that a trace for which it has no room is not written.
    queued: AtomicUsize,
    /// There is a whole batch, or the process ends.
    due: Notify,
    closing: AtomicBool,
    /// The time of the system's clock at the start of the core's, in nanoseconds since 1970, and
    /// when it is read again: that costs more than the rest of a span.
    epoch: AtomicU64,
    epoch_until: AtomicU64,
    sent: AtomicU64,
    /// By reason, as in [`DROP_REASONS`].
    dropped: [AtomicU64; DROP_REASONS.len()],
}

thread_local! {
    /// The spans of one request, which are written outside the lock of the queue.
    static TOOLS: RefCell<SpanTools> = RefCell::default();
}

// === impl Tracer ===

impl Tracer {
    pub(super) fn new(settings: &Traces) -> Self {
        Self {
            settings: settings.clone(),
            threshold: (settings.sample_ratio * (1_u64 << 56) as f64) as u64,
            seed: RandomState::new().hash_one(0),
            last_id: AtomicU64::new(0),
            envelope: Envelope::new(&settings.service_name),
            ended: Mutex::default(),
            queued: AtomicUsize::new(0),
            due: Notify::new(),
            closing: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            epoch_until: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            dropped: Default::default(),
        }
    }

    /// Begins the trace of a request that is sampled.
    pub(super) fn begin(&self, headers: &HeaderMap, now: Time) -> Option<Box<RequestTrace>> {
        let context = context::read(headers);
        let number = self.fresh_number();
        let fresh = || fresh_trace(number);
        let trace = context.as_ref().map_or_else(fresh, |context| context.trace);
        let follows = context.as_ref().filter(|_| self.settings.follow_parent);
        if !follows.map_or_else(|| self.samples(trace), |context| context.sampled) {
            return None;
        }
        let state = context.as_ref().map(|_| context::state(headers)).unwrap_or_default();
        let parent = context.map(|context| context.parent);
        let arrived = (now, self.unix_nanos(now));
        let root = context::span_id(number);
        Some(Box::new(RequestTrace::new((trace, root), parent, state, arrived)))
    }

    /// Writes the spans of a request that has ended.
    pub(super) fn ended(&self, record: &Record, mut trace: Box<RequestTrace>, now: Time) {
        if self.queued.load(Relaxed) >= self.settings.queue_max {
            self.dropped[0].fetch_add(1, Relaxed);
            return;
        }
        trace.end(now);
        TOOLS.with_borrow_mut(|tools| {
            tools.writer.clear();
            span_tree::write(tools, record, &trace);
            let mut queue = self.queue();
            let is_due = queue.push(tools.writer.bytes(), &self.envelope);
            self.queued.store(queue.len(), Relaxed);
            drop(queue);
            if is_due {
                self.due.notify_one();
            }
        });
    }

    /// Waits for the next batch. `None` when the process ends and all is taken.
    pub(crate) async fn next_batch(&self) -> Option<TraceBatch> {
        loop {
            if !self.closing.load(Relaxed) && !self.queue().is_due() {
                // Either end of the wait is good.
                let _ = tokio::time::timeout(BATCH_EVERY, self.due.notified()).await;
            }
            let mut queue = self.queue();
            let batch = queue.take();
            self.queued.store(queue.len(), Relaxed);
            if batch.is_some() {
                return batch;
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
    pub(crate) fn message(&self, batch: TraceBatch) -> Bytes {
        self.envelope.message(batch)
    }

    /// Keeps the memory of a message that is not needed any more.
    pub(crate) fn recycle(&self, message: Bytes) {
        self.queue().recycle(message);
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

    /// A time of the core by the clock of the system, which may be set in between.
    fn unix_nanos(&self, now: Time) -> u64 {
        let now = now.nanos();
        if now >= self.epoch_until.load(Acquire) {
            let epoch = clock::nanos(clock::since_epoch()).saturating_sub(now);
            self.epoch.store(epoch, Relaxed);
            self.epoch_until.store(now.saturating_add(EPOCH_KEPT), Release);
        }
        self.epoch.load(Relaxed).saturating_add(now)
    }

    fn samples(&self, trace: TraceId) -> bool {
        let low = u128::from_be_bytes(trace) as u64 & ((1 << 56) - 1);
        low < self.threshold
    }

    /// A number that no other request of this process has, and none of another process expects.
    fn fresh_number(&self) -> u64 {
        let number = self.last_id.fetch_add(1, Relaxed);
        context::mixed(self.seed ^ number)
    }

    fn queue(&self) -> MutexGuard<'_, TraceQueue> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fresh_trace(number: u64) -> TraceId {
    let mut trace = TraceId::default();
    trace[..8].copy_from_slice(&context::span_id(number ^ HIGH));
    trace[8..].copy_from_slice(&context::span_id(number ^ LOW));
    trace
}
