//! Histograms of durations, with fixed buckets from a millisecond to ten minutes.
//!
//! All histograms share one set of buckets, so that waits, first bytes and whole responses can be
//! compared. Many responses and the longest waits end between 10 s and 30 s, the default time to
//! live. There each bucket is 2.5 s wide, so a quantile is off by less than that.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flow::Span;

use super::traces::TraceId;

/// The upper bounds of the buckets, with their text form. OpenMetrics has whole numbers as `1.0`.
pub(super) const STEPS: [(Span, &str); 27] = [
    (Span::from_millis(1), "0.001"),
    (Span::from_nanos(2_500_000), "0.0025"),
    (Span::from_millis(5), "0.005"),
    (Span::from_millis(10), "0.01"),
    (Span::from_millis(25), "0.025"),
    (Span::from_millis(50), "0.05"),
    (Span::from_millis(100), "0.1"),
    (Span::from_millis(250), "0.25"),
    (Span::from_millis(500), "0.5"),
    (Span::from_secs(1), "1.0"),
    (Span::from_millis(2500), "2.5"),
    (Span::from_secs(5), "5.0"),
    (Span::from_millis(7500), "7.5"),
    (Span::from_secs(10), "10.0"),
    (Span::from_millis(12_500), "12.5"),
    (Span::from_secs(15), "15.0"),
    (Span::from_millis(17_500), "17.5"),
    (Span::from_secs(20), "20.0"),
    (Span::from_millis(22_500), "22.5"),
    (Span::from_secs(25), "25.0"),
    (Span::from_millis(27_500), "27.5"),
    (Span::from_secs(30), "30.0"),
    (Span::from_secs(45), "45.0"),
    (Span::from_secs(60), "60.0"),
    (Span::from_secs(120), "120.0"),
    (Span::from_secs(300), "300.0"),
    (Span::from_secs(600), "600.0"),
];

/// Counts by bucket; the last one is for longer durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    counts: [AtomicU64; STEPS.len() + 1],
    /// In microseconds: nanoseconds would overflow within weeks with ten thousand waiting clients.
    sum: AtomicU64,
    /// A traced request of each bucket. Without traces there is none.
    exemplars: OnceLock<Box<KeptExemplars>>,
}

/// The exemplars of a histogram. Each changes at most once in a second: readers come less often.
#[derive(Debug, Default)]
struct KeptExemplars {
    /// When each was named, in seconds since 1970.
    named_at: [AtomicU64; STEPS.len() + 1],
    kept: Mutex<Exemplars>,
}

/// By bucket.
pub(super) type Exemplars = [Option<Exemplar>; STEPS.len() + 1];

/// A traced request that a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    pub(super) trace: TraceId,
    pub(super) span: Span,
    /// Since 1970.
    pub(super) at: Duration,
}

/// A histogram at one moment, with cumulative counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HistogramSnapshot {
    pub(super) up_to: [u64; STEPS.len()],
    pub(super) count: u64,
    pub(super) sum_secs: f64,
}

// === impl HistogramSnapshot ===

impl HistogramSnapshot {
    /// Both together.
    pub(super) fn plus(mut self, more: &Self) -> Self {
        self.up_to.iter_mut().zip(more.up_to).for_each(|(count, more)| *count += more);
        self.count += more.count;
        self.sum_secs += more.sum_secs;
        self
    }

    /// The sum of histograms.
    pub(super) fn of_all(histograms: &[Histogram]) -> Self {
        let none = Self { up_to: [0; STEPS.len()], count: 0, sum_secs: 0.0 };
        histograms.iter().fold(none, |sum, more| sum.plus(&more.read()))
    }
}

// === impl Histogram ===

impl Histogram {
    pub(super) fn add(&self, span: Span) {
        let step = step_of(span);
        self.counts[step].fetch_add(1, Relaxed);
        self.sum.fetch_add(span.nanos().saturating_add(500) / 1000, Relaxed);
    }

    /// Names the trace of a request that was added, and when it ended.
    pub(super) fn exemplify(&self, span: Span, (trace, at): (TraceId, Duration)) {
        let exemplars = self.exemplars.get_or_init(Box::default);
        let (step, second) = (step_of(span), at.as_secs());
        if exemplars.named_at[step].load(Relaxed) != second {
            exemplars.named_at[step].store(second, Relaxed);
            let mut kept = exemplars.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept[step] = Some(Exemplar { trace, span, at });
        }
    }

    pub(super) fn exemplars(&self) -> Option<Exemplars> {
        let exemplars = self.exemplars.get()?;
        Some(*exemplars.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn read(&self) -> HistogramSnapshot {
        let mut count = 0;
        let mut running = self.counts.iter().map(|step| {
            count += step.load(Relaxed);
            count
        });
        let up_to = std::array::from_fn(|_| running.next().unwrap_or_default());
        running.for_each(drop);
        HistogramSnapshot { up_to, count, sum_secs: self.sum.load(Relaxed) as f64 / 1e6 }
    }
}

/// The bucket of a duration.
fn step_of(span: Span) -> usize {
    STEPS.partition_point(|&(most, _)| most < span)
}
