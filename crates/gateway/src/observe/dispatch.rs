//! What the dispatcher does, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::Depth;

use super::prometheus_writer::{MetricType, MetricsText};

/// What became of an attempt, or of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// An answer was kept, good or bad.
    Answered,
    /// Its deadline passed.
    Expired,
    Cancelled,
    /// It could not be sent as it is, or its answer not be taken.
    Unsendable,
    /// It failed too often.
    Dead,
    /// It failed, and waits for another try.
    Failed,
    /// There was no room for it.
    Congested,
    /// It was somebody else's when it ended.
    Lost,
}

/// How each is called, in the order of [`End`].
const ENDS: [&str; 8] =
    ["answered", "expired", "cancelled", "unsendable", "dead", "failed", "congested", "lost"];

/// All queues and gates of a dispatcher.
#[derive(Debug, Default)]
pub(crate) struct Board {
    rows: Mutex<Vec<Arc<Row>>>,
    gates: Mutex<Vec<GateGauge>>,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Row {
    queue: String,
    sent: AtomicU64,
    ends: [AtomicU64; ENDS.len()],
    revived: AtomicU64,
    /// Pending, put back, claimed, dead, when they were last counted.
    depth: [AtomicU64; 4],
}

/// How a gate stood when it was last looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GateGauge {
    pub(crate) name: String,
    /// The free share; nothing where it cannot be read.
    pub(crate) free: Option<f64>,
    /// How much may still go.
    pub(crate) left: u64,
    pub(crate) in_flight: u64,
}

// === impl Board ===

impl Board {
    /// A queue's row, which is made at the start.
    pub(crate) fn row(&self, queue: &str) -> Arc<Row> {
        let mut rows = lock(&self.rows);
        if let Some(row) = rows.iter().find(|row| row.queue == queue) {
            return Arc::clone(row);
        }
        let row = Arc::new(Row {
            queue: queue.into(),
            sent: AtomicU64::new(0),
            ends: Default::default(),
            revived: AtomicU64::new(0),
            depth: Default::default(),
        });
        rows.push(Arc::clone(&row));
        row
    }

    /// The gates were looked at.
    pub(crate) fn gates(&self, gauges: Vec<GateGauge>) {
        *lock(&self.gates) = gauges;
    }

    /// Writes what there is; nothing where there is no dispatcher.
    pub(super) fn write(&self, text: &mut MetricsText) {
        let rows = lock(&self.rows);
        if rows.is_empty() {
            return;
        }
        write_rows(text, &rows);
        write_gates(text, &lock(&self.gates));
    }
}

fn write_rows(text: &mut MetricsText, rows: &[Arc<Row>]) {
    let help = "Batch requests that were sent, each attempt.";
    let mut family = text.family("dispatch_sent_total", MetricType::Counter, help);
    for row in rows {
        family.add(&[("queue", &row.queue)], row.sent.load(Relaxed));
    }
    let help = "What became of batch requests and their attempts.";
    let mut family = text.family("dispatch_ends_total", MetricType::Counter, help);
    for row in rows {
        for (end, count) in ENDS.into_iter().zip(&row.ends) {
            family.add(&[("queue", &row.queue), ("end", end)], count.load(Relaxed));
        }
    }
    let help = "Claims that ran out and came back.";
    let mut family = text.family("dispatch_claims_lost_total", MetricType::Counter, help);
    for row in rows {
        family.add(&[("queue", &row.queue)], row.revived.load(Relaxed));
    }
    let help = "Batch requests in a queue.";
    let mut family = text.family("dispatch_depth", MetricType::Gauge, help);
    for row in rows {
        for (state, count) in ["pending", "retry", "claimed", "dead"].into_iter().zip(&row.depth) {
            family.add(&[("queue", &row.queue), ("state", state)], count.load(Relaxed));
        }
    }
}

fn write_gates(text: &mut MetricsText, gates: &[GateGauge]) {
    let help = "Whether a gate can be read; nothing goes while it cannot.";
    let mut family = text.family("dispatch_gate_readable", MetricType::Gauge, help);
    for gate in gates {
        family.add(&[("gate", &gate.name)], u8::from(gate.free.is_some()));
    }
    let help = "The free share that a gate reads.";
    let mut family = text.family("dispatch_gate_free", MetricType::Gauge, help);
    for gate in gates.iter() {
        if let Some(free) = gate.free {
            family.add(&[("gate", &gate.name)], free);
        }
    }
    let help = "How much may still go by a gate's last reading.";
    let mut family = text.family("dispatch_gate_left", MetricType::Gauge, help);
    for gate in gates {
        family.add(&[("gate", &gate.name)], gate.left);
    }
    let help = "How much is under way that went through a gate.";
    let mut family = text.family("dispatch_gate_in_flight", MetricType::Gauge, help);
    for gate in gates {
        family.add(&[("gate", &gate.name)], gate.in_flight);
    }
}

// === impl Row ===

impl Row {
    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, end: End) {
        self.ends[end as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn revived(&self, claims: u64) {
        self.revived.fetch_add(claims, Relaxed);
    }

    /// The queue was counted.
    pub(crate) fn counted(&self, depth: Depth) {
        let Depth { pending, retry, claimed, dead } = depth;
        for (place, count) in self.depth.iter().zip([pending, retry, claimed, dead]) {
            place.store(count, Relaxed);
        }
    }

    /// How much of what the queue had when it was last counted.
    pub(crate) fn depth(&self) -> Depth {
        let [pending, retry, claimed, dead] =
            [0, 1, 2, 3].map(|at: usize| self.depth[at].load(Relaxed));
        Depth { pending, retry, claimed, dead }
    }

    /// What became of what was sent, by name.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ENDS.into_iter().zip(self.ends.iter().map(|count| count.load(Relaxed)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
