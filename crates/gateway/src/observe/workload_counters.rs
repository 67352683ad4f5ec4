//! What the order `workload` did, by criticality, and contexts of workloads that had no effect.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use flow::{Span, Time, UrgencyTerms};

use super::Record;
use super::histogram::Histogram;
use super::metrics::add_used;
use super::prometheus_writer::{MetricType, MetricsText};

/// The values of the label `criticality`.
const LEVELS: [&str; 5] = ["1", "2", "3", "4", "5"];
/// Contexts without an effect are told for so long after the last one.
const TOLD_FOR: Span = Span::from_secs(300);

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct WorkloadCounters {
    levels: [Level; LEVELS.len()],
    unused: UnusedContexts,
}

/// Requests of one criticality that the order `workload` granted.
#[derive(Debug, Default)]
struct Level {
    waited: Histogram,
    /// The bits of the urgency and of the rate of the one that ended last.
    urgency: AtomicU64,
    rate: AtomicU64,
}

#[derive(Debug, Default)]
struct UnusedContexts {
    count: AtomicU64,
    /// In nanoseconds.
    last: AtomicU64,
    warned: AtomicBool,
}

// === impl WorkloadCounters ===

impl WorkloadCounters {
    /// Counts a request that has ended, if the order `workload` granted it.
    pub(super) fn count(&self, record: &Record) {
        let Some(terms) = &record.urgency else { return };
        let UrgencyTerms { wait, criticality, rate, urgency } = **terms;
        let Some(level) = self.levels.get(usize::from(criticality).wrapping_sub(1)) else { return };
        level.waited.add(wait);
        level.urgency.store(urgency.to_bits(), Relaxed);
        level.rate.store(rate.to_bits(), Relaxed);
    }

    /// A request has a context, and neither the order nor a flow depends on it.
    pub(crate) fn note_unused(&self, now: Time) {
        self.unused.count.fetch_add(1, Relaxed);
        self.unused.last.store(now.nanos(), Relaxed);
        if !self.unused.warned.swap(true, Relaxed) {
            tracing::warn!(
                "requests have X-Workload-Context, which has no effect: queue.order is not \
                 `workload`, and no flow is named by `workload`"
            );
        }
    }

    /// The contexts without an effect since the start; 0 if none came lately.
    pub(crate) fn unused(&self, now: Time) -> u64 {
        let last = Time::from_nanos(self.unused.last.load(Relaxed));
        if now.since(last) <= TOLD_FOR { self.unused.count.load(Relaxed) } else { 0 }
    }

    pub(super) fn write(&self, text: &mut MetricsText) {
        let help = "Contexts of workloads that had no effect, because of `queue.order`.";
        let count = self.unused.count.load(Relaxed);
        text.family("workload_contexts_unused_total", MetricType::Counter, help).add(&[], count);
        let used = || {
            let levels = LEVELS.into_iter().zip(&self.levels);
            levels.filter(|(_, level)| level.waited.read().count > 0)
        };
        if used().next().is_none() {
            return;
        }
        let help = "From arrival to grant in the order `workload`, of requests that have ended.";
        let mut family = text.family("workload_wait_seconds", MetricType::Histogram, help);
        for (criticality, level) in used() {
            add_used(&mut family, &[("criticality", criticality)], &level.waited);
        }
        let help = "The urgency at its grant of the request that ended last.";
        let mut family = text.family("workload_urgency", MetricType::Gauge, help);
        for (criticality, level) in used() {
            let urgency = f64::from_bits(level.urgency.load(Relaxed));
            family.add(&[("criticality", criticality)], urgency);
        }
        let help =
            "Requests per second of the workload of the request that ended last, at its grant.";
        let mut family = text.family("workload_rate", MetricType::Gauge, help);
        for (criticality, level) in used() {
            let rate = f64::from_bits(level.rate.load(Relaxed));
            family.add(&[("criticality", criticality)], rate);
        }
    }
}
