//! The drain rate of a domain: cost completed per second. Every predicted wait is based on it.
//!
//! Only time in which an ask waited counts. An idle server completes little, which says nothing
//! about how fast it could complete.

use crate::time::{Span, Time};

/// The time constant of the moving mean.
const MEMORY_SECS: f64 = 10.0;
/// The time constant by which the highest rate fades.
const PEAK_MEMORY_SECS: f64 = 60.0;
/// Completions are collected for at least this long before they change the rate.
const SAMPLE: Span = Span::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct DrainRate {
    cost: u64,
    since: Time,
    /// The samples so far: their cost and their seconds, both fading with time. The mean of a short
    /// history thus gives each of its seconds the same weight.
    past_cost: f64,
    past_secs: f64,
    /// The highest rate of a sample in the last minute, about.
    peak: f64,
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
        if self.elapsed(now) >= SAMPLE {
            let secs = self.elapsed(now).secs_f64();
            let faded = self.peak * (-secs / PEAK_MEMORY_SECS).exp();
            self.peak = faded.max(self.cost as f64 / secs);
            (self.past_cost, self.past_secs) = self.sums(now);
            self.start(now);
        }
    }

    /// The time since the first ask began to wait, or since the last sample.
    pub(crate) fn elapsed(&self, now: Time) -> Span {
        now.since(self.since)
    }

    /// Cost completed per second, if it is known. Before the first completion, a slow server cannot
    /// be told from a cold one.
    pub(crate) fn at(&self, now: Time) -> Option<f64> {
        let (cost, secs) = self.sums(now);
        (cost > 0.0 && secs >= SAMPLE.secs_f64()).then(|| cost / secs)
    }

    /// The rate that was reached at best: a least wait must not rest on a mean.
    pub(crate) fn highest(&self, now: Time) -> Option<f64> {
        self.at(now).map(|mean| mean.max(self.peak))
    }

    fn sums(&self, now: Time) -> (f64, f64) {
        let secs = self.elapsed(now).secs_f64();
        let kept = (-secs / MEMORY_SECS).exp();
        (self.past_cost * kept + self.cost as f64, self.past_secs * kept + secs)
    }
}
