//! Statistics of a backend that requests update without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use flow::{ModelId, Span, Time};

use super::proofs::Proofs;
use super::recent_times::{RecentTime, RecentTimes};

/// The weight of the newest latency is one part in this many.
const SMOOTHING: i64 = 8;
/// The share that a maximum loses with each response below it, so that one slow start does not
/// count for ever.
const FADING: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct PassiveStats {
    /// The requests that were granted the backend and have not ended.
    requests: AtomicUsize,
    /// Those of them that wait for long, and that are taken back from a silent backend.
    watched: AtomicUsize,
    /// Whether there are failures or pauses that a successful response would clear.
    has_failures: AtomicBool,
    /// Whether there are broken responses that the end of a whole one would clear.
    has_breaks: AtomicBool,
    /// What it has done for others than a request that it failed.
    pub(super) proofs: Proofs,
    /// The smoothed time to the first byte in nanoseconds; 0 before the first response.
    latency: AtomicU64,
    /// The same of streams alone: other responses begin when they are complete.
    stream_latency: AtomicU64,
    /// The longest times to a first byte, of streams and of other responses.
    streams: FadingMax,
    others: FadingMax,
    /// The last times to a first byte, of both.
    last_streams: RecentTimes,
    last_others: RecentTimes,
    /// When it last gave a sign of life that was dated, and whether it gave one since.
    alive_at: AtomicU64,
    moved: AtomicBool,
    /// When it was last found silent.
    silent_at: AtomicU64,
    /// The request of the last response that it began, packed; 0 before the first one.
    last_begun: AtomicU64,
}

/// A request to which a backend began a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BegunRequest {
    pub(crate) model: ModelId,
    /// When it was sent, in whole microseconds.
    pub(crate) sent: Time,
}

/// The bits of a packed time in microseconds; a model's number takes the others.
const TIME_BITS: u32 = 48;
const _: () = assert!(flow::MODELS_MAX <= 1 << (64 - TIME_BITS));

/// A maximum in nanoseconds that fades; 0 before the first value.
#[derive(Debug, Default)]
struct FadingMax(AtomicU64);

/// Adds a time to a smoothed mean.
fn smooth(mean: &AtomicU64, latency: i64) {
    let known = mean.load(Ordering::Relaxed) as i64;
    let next = if known == 0 { latency } else { known + (latency - known) / SMOOTHING };
    mean.store(next.max(1) as u64, Ordering::Relaxed);
}

fn known(mean: &AtomicU64) -> Option<Span> {
    let mean = mean.load(Ordering::Relaxed);
    (mean > 0).then(|| Span::from_nanos(mean))
}

// === impl PassiveStats ===

impl PassiveStats {
    pub(super) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn request_ended(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn watch_began(&self) {
        self.watched.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn watch_ended(&self) {
        self.watched.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn watched(&self) -> usize {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn has_failures(&self) -> bool {
        self.has_failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_failures(&self, has_failures: bool) {
        self.has_failures.store(has_failures, Ordering::Relaxed);
    }

    pub(super) fn has_breaks(&self) -> bool {
        self.has_breaks.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_breaks(&self, has_breaks: bool) {
        self.has_breaks.store(has_breaks, Ordering::Relaxed);
    }

    /// Records the latency of a request. Of two concurrent updates one may be lost, which a mean
    /// tolerates.
    pub(super) fn note(&self, request: BegunRequest, latency: Span, streamed: bool) {
        let at = request.sent.after(latency);
        self.alive_at.store(at.nanos(), Ordering::Relaxed);
        self.last_begun.store(request.packed(), Ordering::Relaxed);
        self.longest_of(streamed).add(latency.nanos());
        let last = if streamed { &self.last_streams } else { &self.last_others };
        last.add(RecentTime { at, taken: latency, tokens: None });
        let latency = i64::try_from(latency.nanos()).unwrap_or(i64::MAX).max(1);
        smooth(&self.latency, latency);
        if streamed {
            smooth(&self.stream_latency, latency);
        }
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

    pub(super) fn found_silent(&self, now: Time) {
        self.silent_at.store(now.nanos(), Ordering::Relaxed);
    }

    pub(super) fn found_silent_since(&self, time: Time) -> bool {
        self.silent_at.load(Ordering::Relaxed) > time.nanos()
    }

    /// The request of the last response that it began.
    pub(super) fn last_begun(&self) -> Option<BegunRequest> {
        BegunRequest::unpacked(self.last_begun.load(Ordering::Relaxed))
    }

    pub(super) fn latency(&self) -> Option<Span> {
        known(&self.latency)
    }

    pub(super) fn stream_latency(&self) -> Option<Span> {
        known(&self.stream_latency)
    }

    /// The time to the first byte of a stream by the last ones; `None` if they are old.
    pub(super) fn stream_latency_now(&self, now: Time) -> Option<Span> {
        self.last_streams.now(now).map(|time| time.taken)
    }

    /// The median of the last times to a first byte: of streams or of other responses, whichever
    /// take longer. A few that took long do not change it.
    pub(super) fn usual_latency(&self) -> Option<Span> {
        self.last_streams.usual().max(self.last_others.usual())
    }

    fn longest_of(&self, streamed: bool) -> &FadingMax {
        if streamed { &self.streams } else { &self.others }
    }
}

// === impl BegunRequest ===

impl BegunRequest {
    fn packed(self) -> u64 {
        let micros = (self.sent.nanos() / 1000).clamp(1, (1 << TIME_BITS) - 1);
        u64::from(self.model.0) << TIME_BITS | micros
    }

    fn unpacked(packed: u64) -> Option<Self> {
        let micros = packed & ((1 << TIME_BITS) - 1);
        let model = ModelId(u32::try_from(packed >> TIME_BITS).ok()?);
        (micros > 0).then(|| Self { model, sent: Time::from_nanos(micros * 1000) })
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

    fn sent(millis: u64) -> BegunRequest {
        BegunRequest { model: ModelId(7), sent: Time::from_millis(millis) }
    }

    fn noted(values: &[(u64, bool)]) -> PassiveStats {
        let stats = PassiveStats::default();
        for &(millis, streamed) in values {
            stats.note(sent(0), Span::from_millis(millis), streamed);
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
    fn n05_the_last_request_with_a_response_is_known() {
        let stats = PassiveStats::default();
        assert_eq!(stats.last_begun(), None);
        for at in [1, 5, 3_600_000] {
            stats.note(sent(at), Span::from_millis(1), STREAM);
            assert_eq!(stats.last_begun(), Some(sent(at)));
        }
    }
}
