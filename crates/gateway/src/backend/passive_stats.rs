//! Statistics of a backend that requests update without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow::{Span, Time};

/// The weight of the newest latency is one part in this many.
const SMOOTHING: i64 = 8;
/// A backend that is silent for this many times its longest first byte is beyond what is usual.
const PATIENCE: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct PassiveStats {
    /// Whether there are failures or pauses that a successful response would clear.
    has_failures: AtomicBool,
    /// The smoothed time to the first byte in nanoseconds; 0 before the first response.
    latency: AtomicU64,
    /// The longest time to the first byte in nanoseconds; 0 before the first response.
    longest: AtomicU64,
    /// When it last began a response.
    responded: AtomicU64,
}

// === impl PassiveStats ===

impl PassiveStats {
    pub(super) fn has_failures(&self) -> bool {
        self.has_failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_failures(&self, has_failures: bool) {
        self.has_failures.store(has_failures, Ordering::Relaxed);
    }

    /// Records the latency of a request that was sent at `sent`. Of two concurrent updates one may
    /// be lost, which a mean tolerates.
    pub(super) fn note(&self, sent: Time, latency: Span) {
        self.responded.store(sent.after(latency).nanos(), Ordering::Relaxed);
        self.allow(latency);
        let latency = i64::try_from(latency.nanos()).unwrap_or(i64::MAX).max(1);
        let mean = self.latency.load(Ordering::Relaxed) as i64;
        let next = if mean == 0 { latency } else { mean + (latency - mean) / SMOOTHING };
        self.latency.store(next.max(1) as u64, Ordering::Relaxed);
    }

    /// Counts a time to the first byte as usual.
    pub(super) fn allow(&self, latency: Span) {
        if latency.nanos() > self.longest.load(Ordering::Relaxed) {
            self.longest.store(latency.nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn longest(&self) -> Span {
        Span::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    /// How long it may be silent; `None` before its first response.
    pub(super) fn patience(&self) -> Option<Span> {
        let longest = self.longest().nanos();
        (longest > 0).then(|| Span::from_nanos(longest.saturating_mul(PATIENCE)))
    }

    pub(super) fn has_responded_since(&self, time: Time) -> bool {
        self.responded.load(Ordering::Relaxed) > time.nanos()
    }

    pub(super) fn latency(&self) -> Option<Span> {
        let mean = self.latency.load(Ordering::Relaxed);
        (mean > 0).then(|| Span::from_nanos(mean))
    }
}
