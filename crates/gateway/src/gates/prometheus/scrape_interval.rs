//! How often Prometheus scrapes, learnt from the times of its samples.
//!
//! A sample is as old as the interval just before the next one replaces it. Of several targets that
//! are scraped at different moments the oldest sample counts, and it is replaced more often than
//! each target is scraped; but its age still comes close to the interval. So the interval is the
//! age of a sample when it was replaced, or the time between the two, if that is longer. An outage
//! of a target gives one long age, so the median of the last ages counts, the lower one of two.

use std::collections::VecDeque;

use super::promql::Sample;

/// Prometheus itself forgets the last sample of a series after this many seconds.
pub(in crate::gates) const LOOK_BACK: f64 = 300.0;
/// A sample counts until this many intervals have passed without the next one.
const INTERVALS: f64 = 3.0;
/// The number of replaced samples that are remembered.
const MEMORY: usize = 5;

/// The samples of a query so far.
#[derive(Debug, Default)]
pub(in crate::gates) struct ScrapeInterval {
    /// The last sample, as old as it was seen.
    last: Option<Sample>,
    /// The intervals at which samples were replaced, in seconds.
    seen: VecDeque<f64>,
}

// === impl ScrapeInterval ===

impl ScrapeInterval {
    /// Notes a sample, which may be the last one again.
    pub(in crate::gates) fn note(&mut self, sample: Sample) {
        if let Some(last) = self.last.filter(|last| last.taken < sample.taken) {
            self.seen.push_front(last.age.max(sample.taken - last.taken));
            self.seen.truncate(MEMORY);
        }
        self.last = Some(sample);
    }

    /// The age in seconds at which a sample no longer counts; at least `least`. Before a sample was
    /// replaced, all that Prometheus itself remembers counts.
    pub(in crate::gates) fn stale_after(&self, least: f64) -> f64 {
        let mut seen: Vec<f64> = self.seen.iter().copied().collect();
        seen.sort_by(f64::total_cmp);
        let median = seen.len().checked_sub(1).and_then(|last| seen.get(last / 2));
        median.map_or(LOOK_BACK, |median| median * INTERVALS).clamp(least.min(LOOK_BACK), LOOK_BACK)
    }
}
