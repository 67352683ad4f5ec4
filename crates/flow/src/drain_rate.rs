//! The drain rate of a domain: cost completed per second. Every predicted wait is based on it.
//!
//! Only time in which an ask waited counts. An idle server completes little, which says nothing
//! about how fast it could complete.

use crate::time::{Span, Time};

/// The time constant of the moving mean.
const MEMORY_SECS: f64 = 10.0;
/// Completions are collected for at least this long before they change the rate.
const SAMPLE: Span = Span::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct DrainRate {
    cost: u64,
    since: Time,
    per_sec: Option<f64>,
}

// === impl DrainRate ===

impl DrainRate {
    /// A first ask begins to wait.
    pub(crate) fn start(&mut self, now: Time) {
        self.cost = 0;
        self.since = now;
    }

    /// An ask of this cost completed while others waited.
    pub(crate) fn completed(&mut self, cost: u32, now: Time) {
        self.cost += u64::from(cost);
        if now.since(self.since) >= SAMPLE {
            self.per_sec = self.at(now);
            self.start(now);
        }
    }

    /// The time since the first ask began to wait, or since the last sample.
    pub(crate) fn elapsed(&self, now: Time) -> Span {
        now.since(self.since)
    }

    /// Cost completed per second, if it is known.
    pub(crate) fn at(&self, now: Time) -> Option<f64> {
        let elapsed = now.since(self.since);
        // Before the first completion, a slow server cannot be told from a cold one.
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
