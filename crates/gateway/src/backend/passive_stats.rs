//! Statistics of a backend that requests update without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow::{Span, Time};

/// The weight of the newest latency is one part in this many.
const SMOOTHING: i64 = 8;
/// The share that a maximum loses with each response below it, so that one slow start does not
/// count for ever.
const FADING: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct PassiveStats {
    /// Whether there are failures or pauses that a successful response would clear.
    has_failures: AtomicBool,
    /// The smoothed time to the first byte in nanoseconds; 0 before the first response.
    latency: AtomicU64,
    /// The longest times to a first byte, of streams and of other responses.
    streams: FadingMax,
    others: FadingMax,
    /// When it last gave a sign of life that was dated, and whether it gave one since.
    alive_at: AtomicU64,
    moved: AtomicBool,
    /// When it was last found silent, and how long it may be silent from then on.
    silent_at: AtomicU64,
    extended: AtomicU64,
}

/// A maximum in nanoseconds that fades; 0 before the first value.
#[derive(Debug, Default)]
struct FadingMax(AtomicU64);

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
    pub(super) fn note(&self, sent: Time, latency: Span, streamed: bool) {
        self.alive_at.store(sent.after(latency).nanos(), Ordering::Relaxed);
        self.extended.store(0, Ordering::Relaxed);
        self.longest_of(streamed).add(latency.nanos());
        let latency = i64::try_from(latency.nanos()).unwrap_or(i64::MAX).max(1);
        let mean = self.latency.load(Ordering::Relaxed) as i64;
        let next = if mean == 0 { latency } else { mean + (latency - mean) / SMOOTHING };
        self.latency.store(next.max(1) as u64, Ordering::Relaxed);
    }

    /// Records that a part of a response has come. It costs no clock and, mostly, no write.
    pub(super) fn note_progress(&self) {
        if !self.moved.load(Ordering::Relaxed) {
            self.moved.store(true, Ordering::Relaxed);
        }
    }

    /// When it last gave a sign of life. Progress since the last call counts as now.
    pub(super) fn last_alive(&self, now: Time) -> Time {
        if self.moved.swap(false, Ordering::Relaxed) {
            self.alive_at.fetch_max(now.nanos(), Ordering::Relaxed);
        }
        Time::from_nanos(self.alive_at.load(Ordering::Relaxed))
    }

    /// The longest time to a first byte; `None` before the first response. The time of a whole
    /// response stands in for that of a stream.
    pub(super) fn longest(&self, streamed: bool) -> Option<Span> {
        let own = self.longest_of(streamed).get();
        own.or_else(|| self.longest_of(!streamed).get())
    }

    /// Records that it was found silent, and how long it may be silent from now on.
    pub(super) fn found_silent(&self, now: Time, extended: Span) {
        self.extended.store(extended.nanos(), Ordering::Relaxed);
        self.silent_at.store(now.nanos(), Ordering::Relaxed);
    }

    pub(super) fn found_silent_since(&self, time: Time) -> bool {
        self.silent_at.load(Ordering::Relaxed) > time.nanos()
    }

    /// How long it may at least be silent, because it was found silent and has not answered yet.
    pub(super) fn extended(&self) -> Span {
        Span::from_nanos(self.extended.load(Ordering::Relaxed))
    }

    pub(super) fn latency(&self) -> Option<Span> {
        let mean = self.latency.load(Ordering::Relaxed);
        (mean > 0).then(|| Span::from_nanos(mean))
    }

    fn longest_of(&self, streamed: bool) -> &FadingMax {
        if streamed { &self.streams } else { &self.others }
    }
}

// === impl FadingMax ===

impl FadingMax {
    /// Of two concurrent updates one may be lost.
    fn add(&self, value: u64) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(value.max(before - before / FADING).max(1), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Span> {
        let value = self.0.load(Ordering::Relaxed);
        (value > 0).then(|| Span::from_nanos(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: bool = true;
    const WHOLE: bool = false;

    fn noted(values: &[(u64, bool)]) -> PassiveStats {
        let stats = PassiveStats::default();
        for &(millis, streamed) in values {
            stats.note(Time::ZERO, Span::from_millis(millis), streamed);
        }
        stats
    }

    #[test]
    fn n05_the_longest_time_of_streams_and_of_other_responses_is_kept_apart() {
        assert_eq!(noted(&[]).longest(STREAM), None);
        assert_eq!(noted(&[(9000, WHOLE)]).longest(STREAM), Some(Span::from_secs(9)));
        let stats = noted(&[(9000, WHOLE), (64, STREAM)]);
        assert_eq!(stats.longest(STREAM), Some(Span::from_millis(64)));
        assert_eq!(stats.longest(WHOLE), Some(Span::from_secs(9)));
    }

    #[test]
    fn n05_one_slow_start_does_not_count_for_ever() {
        let stats = noted(&[&[(60_000, STREAM)][..], &[(100, STREAM); 10]].concat());
        assert!(stats.longest(STREAM).unwrap() > Span::from_secs(45), "it fades slowly");
        let stats = noted(&[&[(60_000, STREAM)][..], &[(100, STREAM); 600]].concat());
        assert_eq!(stats.longest(STREAM), Some(Span::from_millis(100)));
    }

    #[test]
    fn n05_progress_is_dated_when_it_is_looked_for() {
        let stats = noted(&[(10, STREAM)]);
        let at = Time::from_millis;
        assert_eq!(stats.last_alive(at(20)), at(10));
        stats.note_progress();
        assert_eq!(stats.last_alive(at(30)), at(30));
        assert_eq!(stats.last_alive(at(40)), at(30));
    }

    #[test]
    fn n05_a_longer_patience_ends_with_the_next_response() {
        let stats = noted(&[(10, STREAM)]);
        stats.found_silent(Time::from_millis(50), Span::from_secs(20));
        assert!(stats.found_silent_since(Time::from_millis(49)));
        assert!(!stats.found_silent_since(Time::from_millis(50)));
        assert_eq!(stats.extended(), Span::from_secs(20));
        stats.note(Time::ZERO, Span::from_millis(10), STREAM);
        assert_eq!(stats.extended(), Span::ZERO);
    }
}
