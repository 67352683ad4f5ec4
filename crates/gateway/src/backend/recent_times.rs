//! The last times that a backend took, without a lock: a mean over many responses shows too late
//! that it has become slow, and too long that it was.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use flow::{Span, Time};

/// How many times are kept.
const KEPT: usize = 16;
/// Older times say nothing. A backend that the router avoids gets about one request in a minute.
const AGE_MAX: Span = Span::from_secs(120);
/// The last times count, and all that are this young.
const COUNTED: usize = 3;
const YOUNG: Span = Span::from_secs(5);

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes {
    next: AtomicUsize,
    slots: [Slot; KEPT],
}

/// One time. While it is replaced, a reader may see parts of two, which an estimate tolerates.
#[derive(Debug, Default)]
struct Slot {
    /// When the time ended, in nanoseconds; 0 before the first one.
    at: AtomicU64,
    nanos: AtomicU64,
    /// The tokens of the response; 0 if they are not known.
    tokens: AtomicU64,
}

/// A time that a backend took for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentTime {
    pub(crate) at: Time,
    pub(crate) taken: Span,
    /// The length of the response, where it is known.
    pub(crate) tokens: Option<u64>,
}

// === impl RecentTimes ===

impl RecentTimes {
    pub(crate) fn add(&self, time: RecentTime) {
        let slot = &self.slots[self.next.fetch_add(1, Relaxed) % KEPT];
        slot.nanos.store(time.taken.nanos(), Relaxed);
        slot.tokens.store(time.tokens.unwrap_or(0), Relaxed);
        slot.at.store(time.at.nanos().max(1), Relaxed);
    }

    /// What it takes now: the median of the last three, or of those of the last seconds. `None` if
    /// the last one is old. If the lengths of some responses are known, only these count: others,
    /// such as embeddings, take far less time.
    pub(crate) fn now(&self, now: Time) -> Option<RecentTime> {
        let mut times = self.read();
        times.retain(|time| now.since(time.at) <= AGE_MAX);
        if times.iter().any(|time| time.tokens.is_some()) {
            times.retain(|time| time.tokens.is_some());
        }
        let young = times.iter().filter(|time| now.since(time.at) <= YOUNG).count();
        times.truncate(young.max(COUNTED));
        median(times)
    }

    /// What it usually takes, however long ago that was.
    pub(crate) fn usual(&self) -> Option<Span> {
        median(self.read()).map(|time| time.taken)
    }

    /// All times, the last first.
    fn read(&self) -> Vec<RecentTime> {
        let mut times: Vec<RecentTime> = self.slots.iter().filter_map(Slot::read).collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.at));
        times
    }
}

// === impl Slot ===

impl Slot {
    fn read(&self) -> Option<RecentTime> {
        let at = self.at.load(Relaxed);
        let tokens = self.tokens.load(Relaxed);
        (at > 0).then(|| RecentTime {
            at: Time::from_nanos(at),
            taken: Span::from_nanos(self.nanos.load(Relaxed)),
            tokens: (tokens > 0).then_some(tokens),
        })
    }
}

/// Of an even number the lower one: one long response of two does not make a backend slow.
fn median(mut times: Vec<RecentTime>) -> Option<RecentTime> {
    times.sort_by_key(|time| time.taken);
    times.get(times.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Responses that ended at these seconds, and took so many milliseconds.
    fn times(values: &[(u64, u64)]) -> RecentTimes {
        let times = RecentTimes::default();
        for &(second, millis) in values {
            times.add(time(second, millis, None));
        }
        times
    }

    fn time(second: u64, millis: u64, tokens: Option<u64>) -> RecentTime {
        let (at, taken) = (Time::from_millis(second * 1000), Span::from_millis(millis));
        RecentTime { at, taken, tokens }
    }

    fn millis_at(times: &RecentTimes, second: u64) -> Option<u64> {
        let found = times.now(Time::from_millis(second * 1000));
        found.map(|time| time.taken.nanos() / 1_000_000)
    }

    #[test]
    fn m03_two_slow_responses_show_a_slow_backend_and_one_does_not() {
        let fast: Vec<(u64, u64)> = (0..40).map(|second| (second, 500)).collect();
        let then = |more: &[(u64, u64)]| times(&[&fast[..], more].concat());
        assert_eq!(millis_at(&then(&[]), 40), Some(500));
        assert_eq!(millis_at(&then(&[(45, 4500)]), 46), Some(500), "one long response");
        assert_eq!(millis_at(&then(&[(45, 4500), (46, 4500)]), 47), Some(4500));
        let busy: Vec<(u64, u64)> =
            (0..16).map(|at| (45, if at < 9 { 500 } else { 900 })).collect();
        assert_eq!(millis_at(&then(&busy), 46), Some(500), "most of the last seconds");
        assert_eq!(millis_at(&then(&busy), 51), Some(900), "only the last three");
    }

    #[test]
    fn m03_a_time_of_long_ago_says_nothing() {
        let one = times(&[(10, 4500)]);
        assert_eq!(millis_at(&one, 11), Some(4500), "it is all that is known");
        assert_eq!(millis_at(&one, 130), Some(4500));
        assert_eq!(millis_at(&one, 131), None);
        assert_eq!(one.usual(), Some(Span::from_millis(4500)));
        let avoided = times(&[(10, 500), (11, 500), (70, 4500), (130, 4500)]);
        assert_eq!(millis_at(&avoided, 130), Some(4500), "one request in a minute");
        assert_eq!(RecentTimes::default().usual(), None);
        assert_eq!(millis_at(&RecentTimes::default(), 0), None);
    }

    #[test]
    fn m03_responses_with_tokens_are_compared_with_each_other() {
        let mixed = times(&[(10, 5), (11, 5)]);
        mixed.add(time(12, 900, Some(30)));
        (13..16).for_each(|second| mixed.add(time(second, 5, None)));
        assert_eq!(mixed.now(Time::from_millis(16_000)), Some(time(12, 900, Some(30))));
    }
}
