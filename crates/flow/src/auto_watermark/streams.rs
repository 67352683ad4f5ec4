//! Moves the bounds by the progress of the streams, for engines that report no metrics.
//!
//! The bound on slots follows the streams that run: an engine starts as many as it has room for,
//! and one more ask probes for the next slot. A full KV cache shows as a stream that stands still
//! while its neighbours advance: the engine has preempted it.

use super::blocked_time::BlockedTime;
use super::growth::StreamTokenGrowth;
use super::unstarted_probe::UnstartedProbe;
use super::windowed_max::WindowedMax;
use super::{AutoBound, Caps, TOKENS_CUT, TOKENS_HOLD, Tally};
use crate::time::{Span, Time};

/// How often the binding bounds are sampled.
const SAMPLE_EVERY: Span = Span::from_millis(200);
/// A stream stalls when it has missed this many steps and stood still for this long.
const MISSED_STEPS: f64 = 3.0;
const STALL: Span = Span::from_millis(200);
/// The number of stalls of one stream that count as preemptions.
const STALLS_BELIEVED: u8 = 2;
/// For this long after a new maximum of started streams, further asks may follow at once.
const RISING: Span = Span::from_secs(1);
const SLOTS_MIN: f64 = 2.0;
/// Tokens within this time come from the same step of the engine.
const STEP: Span = Span::from_millis(5);
/// No step of an engine that serves short responses takes longer.
const STEP_MAX: Span = Span::from_millis(250);

#[derive(Clone, Debug)]
pub(super) struct StreamTuner {
    /// Steps made by an average stream.
    steps: f64,
    stalled: bool,
    started_peak: WindowedMax,
    /// When the peak last rose.
    rose: Time,
    step_since: Time,
    /// Streams that ended in the present step of the engine, and in the step before.
    ended: [u32; 2],
    tokens_hold: Time,
    token_growth: StreamTokenGrowth,
    probe: UnstartedProbe,
}

/// The position of the average stream when this stream last advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamMark {
    steps: f64,
    moved: Time,
    stalls: u8,
}

// === impl StreamTuner ===

impl Default for StreamTuner {
    fn default() -> Self {
        Self {
            steps: 0.0,
            stalled: false,
            started_peak: WindowedMax::over(Span::from_secs(10)),
            rose: Time::ZERO,
            step_since: Time::ZERO,
            ended: [0; 2],
            tokens_hold: Time::ZERO,
            token_growth: StreamTokenGrowth::default(),
            probe: UnstartedProbe::default(),
        }
    }
}

impl StreamTuner {
    pub(super) const fn mark(&self, now: Time) -> StreamMark {
        StreamMark { steps: self.steps, moved: now, stalls: 0 }
    }

    /// One of `started` streams has started, as was `seen` or is presumed; returns the number of
    /// streams that ran at once.
    pub(super) fn started(&mut self, started: u32, seen: bool, now: Time) -> u32 {
        if seen {
            self.probe.started();
        }
        self.ran(started, now)
    }

    /// One of `started` streams has ended; returns the number of streams that ran at once.
    pub(super) fn ended(&mut self, started: u32, now: Time) -> u32 {
        let ran = self.ran(started, now);
        self.ended[0] = self.ended[0].saturating_add(1);
        ran
    }

    /// How many streams end in each step: so many ended in both of the last two.
    pub(super) fn ended_in_step(&self) -> u32 {
        self.ended[0].min(self.ended[1])
    }

    /// The number of streams that ran in this step: those that have started, and those that ended
    /// in it. A response of one token ends as it starts.
    fn ran(&mut self, started: u32, now: Time) -> u32 {
        if now.since(self.step_since) > STEP {
            let adjacent = now.since(self.step_since) <= STEP_MAX;
            self.ended = [0, if adjacent { self.ended[0] } else { 0 }];
            self.step_since = now;
        }
        if started > self.started_peak.at(now) {
            self.rose = now;
        }
        self.started_peak.push(started, now);
        started.saturating_add(self.ended[0])
    }

    /// One of `started` streams has advanced.
    pub(super) fn advanced(&mut self, mark: &mut StreamMark, started: u32, now: Time) {
        self.steps += 1.0 / f64::from(started.max(1));
        let missed = self.steps - mark.steps > MISSED_STEPS;
        let stalled = missed && now.since(mark.moved) > STALL;
        // A stream that stalls again and again is slow itself, for example because of its client.
        self.stalled |= stalled && mark.stalls < STALLS_BELIEVED;
        let stalls = mark.stalls.saturating_add(u8::from(stalled));
        *mark = StreamMark { stalls, ..self.mark(now) };
    }

    pub(super) fn forget_stalls(&mut self) {
        self.stalled = false;
    }

    pub(super) fn revise(
        &mut self,
        blocked_time: &mut BlockedTime,
        tally: &Tally,
        caps: &mut Caps,
        now: Time,
    ) {
        if std::mem::take(&mut self.stalled) && now >= self.tokens_hold && tally.in_flight > 1 {
            caps.tokens = TOKENS_CUT * caps.tokens.min(tally.tokens as f64);
            self.tokens_hold = now.after(TOKENS_HOLD);
            self.token_growth.was_cut(now);
        }
        if now.since(blocked_time.sampled_at()) >= SAMPLE_EVERY {
            let binding = blocked_time.since_last_sample(now);
            if binding.on(AutoBound::Tokens) {
                self.token_growth.grow(&mut caps.tokens, now);
            }
            self.probe.update(binding.on(AutoBound::Unstarted), &mut caps.unstarted, now);
        }
        // A stream that runs is known to fit, however long ago the last one started.
        self.started_peak.push(tally.in_flight - tally.unstarted, now);
        let rising = now.since(self.rose) <= RISING;
        let ahead =
            if rising { caps.unstarted } else { 1.0 + caps.unstarted - caps.unstarted_least() };
        let ran = self.started_peak.at(now).saturating_add(self.ended_in_step());
        caps.slots = (f64::from(ran) + ahead).max(SLOTS_MIN);
    }
}
