//! The metrics of the dispatcher.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::{Depth, Lane, Moment, Outcome};

use super::prometheus_writer::{MetricType, MetricsText};
use crate::gates::GateGauge;

/// How an attempt or a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageEnd {
    /// A response was stored, good or bad.
    Answered,
    /// Its deadline passed.
    Expired,
    Cancelled,
    /// The request could not be sent, or its response was too long.
    Unsendable,
    /// It became a dead letter.
    DeadLetter,
    /// It failed and waits for a retry.
    Failed,
    /// The target was overloaded.
    Congested,
    /// Another dispatcher had the message when it ended.
    Lost,
}

/// The label values, in the order of [`MessageEnd`].
const ENDS: [&str; 8] =
    ["answered", "expired", "cancelled", "unsendable", "dead", "failed", "congested", "lost"];

/// Why a request failed that was in flight at the deadline of its message.
const UNANSWERED: &str = "without an answer before the deadline";

/// The metrics of all queues and gates.
#[derive(Debug, Default)]
pub(crate) struct DispatchMetrics {
    queues: Mutex<Vec<Arc<QueueMetrics>>>,
    gates: Mutex<Vec<GateGauge>>,
}

/// The metrics of one queue.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    queue: String,
    sent: AtomicU64,
    ends: [AtomicU64; ENDS.len()],
    judged: Mutex<AttemptCounts>,
    reclaimed: AtomicU64,
    /// The last counts: pending, retry, claimed, dead.
    depth: [AtomicU64; 4],
    /// The last look at its deadlines, while messages are pending.
    due: Mutex<Option<BacklogDue>>,
}

/// What attempts brought to those who submitted the messages, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttemptCounts {
    /// Attempts that brought what was asked for.
    pub(crate) served: u64,
    /// The others, by reason: few words that are no content.
    pub(crate) failed: BTreeMap<String, u64>,
}

/// The pending messages of a queue against their deadlines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BacklogDue {
    /// Seconds until the earliest deadline; less than 0 if it has passed.
    pub(crate) first_secs: f64,
    /// Messages that must end in a second, so that each tenant's are done by its earliest deadline.
    pub(crate) rate_needed: f64,
}

// === impl DispatchMetrics ===

impl DispatchMetrics {
    /// The metrics of a queue, created on first use.
    pub(crate) fn of_queue(&self, queue: &str) -> Arc<QueueMetrics> {
        let mut queues = lock(&self.queues);
        if let Some(metrics) = queues.iter().find(|metrics| metrics.queue == queue) {
            return Arc::clone(metrics);
        }
        let metrics = Arc::new(QueueMetrics {
            queue: queue.into(),
            sent: AtomicU64::new(0),
            ends: Default::default(),
            judged: Mutex::default(),
            reclaimed: AtomicU64::new(0),
            depth: Default::default(),
            due: Mutex::default(),
        });
        queues.push(Arc::clone(&metrics));
        metrics
    }

    /// Sets the state of all gates.
    pub(crate) fn gates(&self, gauges: Vec<GateGauge>) {
        *lock(&self.gates) = gauges;
    }

    /// Writes all metrics; nothing if the process has no dispatcher.
    pub(super) fn write(&self, text: &mut MetricsText) {
        let queues = lock(&self.queues);
        if queues.is_empty() {
            return;
        }
        write_queues(text, &queues);
        write_due(text, &queues);
        write_gates(text, &lock(&self.gates));
    }
}

fn write_queues(text: &mut MetricsText, queues: &[Arc<QueueMetrics>]) {
    let help = "Batch requests that were sent, each attempt.";
    let mut family = text.family("dispatch_sent_total", MetricType::Counter, help);
    for metrics in queues {
        family.add(&[("queue", &metrics.queue)], metrics.sent.load(Relaxed));
    }
    let help = "What became of batch requests and their attempts.";
    let mut family = text.family("dispatch_ends_total", MetricType::Counter, help);
    for metrics in queues {
        for (end, count) in ENDS.into_iter().zip(&metrics.ends) {
            family.add(&[("queue", &metrics.queue), ("end", end)], count.load(Relaxed));
        }
    }
    let help = "Claims that ran out and came back.";
    let mut family = text.family("dispatch_claims_lost_total", MetricType::Counter, help);
    for metrics in queues {
        family.add(&[("queue", &metrics.queue)], metrics.reclaimed.load(Relaxed));
    }
    let help = "Batch requests in a queue.";
    let mut family = text.family("dispatch_depth", MetricType::Gauge, help);
    for metrics in queues {
        for (state, count) in
            ["pending", "retry", "claimed", "dead"].into_iter().zip(&metrics.depth)
        {
            family.add(&[("queue", &metrics.queue), ("state", state)], count.load(Relaxed));
        }
    }
}

/// Writes what is due, of the queues with pending messages.
fn write_due(text: &mut MetricsText, queues: &[Arc<QueueMetrics>]) {
    let due: Vec<(&str, BacklogDue)> =
        queues.iter().filter_map(|one| Some((one.queue.as_str(), (*lock(&one.due))?))).collect();
    let help = "Time until the earliest deadline of the pending batch requests.";
    let first = due.iter().map(|(queue, due)| (*queue, due.first_secs));
    text.gauges("dispatch_deadline_seconds", help, "queue", first);
    let help = "Batch requests that must end in a second, so that those of each tenant are done by \
                its earliest deadline.";
    let needed = due.iter().map(|(queue, due)| (*queue, due.rate_needed));
    text.gauges("dispatch_rate_needed", help, "queue", needed);
}

fn write_gates(text: &mut MetricsText, gates: &[GateGauge]) {
    let named = || gates.iter().map(|gate| (gate.name.as_str(), gate));
    let help = "Whether a gate can be read; nothing goes while it cannot.";
    let readable = named().map(|(name, gate)| (name, u8::from(gate.free.is_some())));
    text.gauges("dispatch_gate_readable", help, "gate", readable);
    let help = "The free share that a gate reads.";
    let free = named().filter_map(|(name, gate)| Some((name, gate.free?)));
    text.gauges("dispatch_gate_free", help, "gate", free);
    let help = "How much may still go by a gate's last reading.";
    let left = named().map(|(name, gate)| (name, gate.left));
    text.gauges("dispatch_gate_left", help, "gate", left);
    let help = "How much is under way that went through a gate.";
    let in_flight = named().map(|(name, gate)| (name, gate.in_flight));
    text.gauges("dispatch_gate_in_flight", help, "gate", in_flight);
}

// === impl QueueMetrics ===

impl QueueMetrics {
    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, end: MessageEnd) {
        self.ends[end as usize].fetch_add(1, Relaxed);
    }

    /// Counts what an attempt brought. A response of the target may be an error or a redirect, too.
    pub(crate) fn judged(&self, outcome: &Outcome) {
        let mut counts = lock(&self.judged);
        let reason = match outcome {
            Outcome::Answered { status: 200..300, .. } => {
                counts.served += 1;
                return;
            }
            Outcome::Answered { status, .. } => format!("status {status}"),
            Outcome::Failed { code, .. } if *code == Outcome::CANCELLED => return,
            Outcome::Failed { code, .. } => code.to_lowercase().replace('_', " "),
        };
        *counts.failed.entry(reason).or_default() += 1;
    }

    /// Counts a request that the target did not answer before the deadline of its message.
    pub(crate) fn unanswered(&self) {
        *lock(&self.judged).failed.entry(UNANSWERED.into()).or_default() += 1;
    }

    /// What attempts brought since the start.
    pub(crate) fn attempt_counts(&self) -> AttemptCounts {
        lock(&self.judged).clone()
    }

    pub(crate) fn reclaimed(&self, claims: u64) {
        self.reclaimed.fetch_add(claims, Relaxed);
    }

    /// Sets the counts of the queue.
    pub(crate) fn counted(&self, depth: Depth) {
        let Depth { pending, retry, claimed, dead } = depth;
        for (place, count) in self.depth.iter().zip([pending, retry, claimed, dead]) {
            place.store(count, Relaxed);
        }
    }

    /// Sets what is due.
    pub(crate) fn due(&self, lanes: &[Lane], now: Moment) {
        *lock(&self.due) = BacklogDue::of(lanes, now);
    }

    /// The last counts of the queue.
    pub(crate) fn depth(&self) -> Depth {
        let [pending, retry, claimed, dead] =
            [0, 1, 2, 3].map(|at: usize| self.depth[at].load(Relaxed));
        Depth { pending, retry, claimed, dead }
    }

    /// How many messages became dead letters here.
    pub(crate) fn dead_letters(&self) -> u64 {
        self.ends[MessageEnd::DeadLetter as usize].load(Relaxed)
    }

    /// The number of ends by name.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ENDS.into_iter().zip(self.ends.iter().map(|count| count.load(Relaxed)))
    }
}

// === impl BacklogDue ===

impl BacklogDue {
    /// What is due; `None` if nothing is pending. All messages of a tenant count for its earliest
    /// deadline, because the others are not known, so the rate is an upper limit.
    fn of(lanes: &[Lane], now: Moment) -> Option<Self> {
        let left = |lane: &Lane| (lane.deadline.millis() as f64 - now.millis() as f64) / 1000.0;
        let mut lanes: Vec<(f64, u64)> =
            lanes.iter().map(|lane| (left(lane), lane.waiting)).collect();
        lanes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let first_secs = lanes.first()?.0;
        let mut pending = 0;
        let rates = lanes.into_iter().map(|(left, waiting)| {
            pending += waiting;
            pending as f64 / left.max(1.0)
        });
        Some(Self { first_secs, rate_needed: rates.fold(0.0, f64::max) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
