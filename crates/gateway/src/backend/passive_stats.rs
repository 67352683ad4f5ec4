//! Statistics of a backend that requests update without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow::Span;

/// The weight of the newest latency is one part in this many.
const SMOOTHING: i64 = 8;

#[derive(Debug, Default)]
pub(super) struct PassiveStats {
    /// Whether there are failures or pauses that a successful response would clear.
    has_failures: AtomicBool,
    /// The smoothed time to the first byte in nanoseconds; 0 before the first response.
    latency: AtomicU64,
}

// === impl PassiveStats ===

impl PassiveStats {
    pub(super) fn has_failures(&self) -> bool {
        self.has_failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_failures(&self, has_failures: bool) {
        self.has_failures.store(has_failures, Ordering::Relaxed);
    }

    /// Adds a latency to the mean. Of two concurrent updates one may be lost, which a mean
    /// tolerates.
    pub(super) fn note(&self, latency: Span) {
        let latency = i64::try_from(latency.nanos()).unwrap_or(i64::MAX).max(1);
        let mean = self.latency.load(Ordering::Relaxed) as i64;
        let next = if mean == 0 { latency } else { mean + (latency - mean) / SMOOTHING };
        self.latency.store(next.max(1) as u64, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Option<Span> {
        let mean = self.latency.load(Ordering::Relaxed);
        (mean > 0).then(|| Span::from_nanos(mean))
    }
}
