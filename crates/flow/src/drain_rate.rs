//! How fast a domain drains: the measure behind every predicted wait.
//!
//! Only time in which something waited counts. An idle server completes little, and that says
//! nothing about how fast it could.

use crate::time::{Span, Time};

/// The past that the rate remembers.
const MEMORY_SECS: f64 = 10.0;
/// Completions are gathered for at least this long before they move the rate.
const SAMPLE: Span = Span::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct DrainRate {
    cost: u64,
    since: Time,
    per_sec: Option<f64>,
}

// === impl DrainRate ===

impl DrainRate {
    /// Something begins to wait.
    pub(crate) fn start(&mut self, now: Time) {
        self.cost = 0;
        self.since = now;
    }

    /// Something that cost this much completed while others waited.
    pub(crate) fn completed(&mut self, cost: u32, now: Time) {
        self.cost += u64::from(cost);
        if now.since(self.since) >= SAMPLE {
            self.per_sec = self.at(now);
            self.start(now);
        }
    }

    /// Cost completed per second, as far as it is known by `now`.
    pub(crate) fn at(&self, now: Time) -> Option<f64> {
        let elapsed = now.since(self.since);
        // Before the first completion of all, slow and cold cannot be told apart.
        let nothing_yet = self.cost == 0 && self.per_sec.is_none();
        if elapsed < SAMPLE || nothing_yet {
            return self.per_sec;
        }
        let secs = elapsed.secs_f64();
        let sample = self.cost as f64 / secs;
        let trust = 1.0 - (-secs / MEMORY_SECS).exp();
        Some(self.per_sec.map_or(sample, |known| known + (sample - known) * trust))
    }
}
