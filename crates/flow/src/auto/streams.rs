//! The law by what the streams show, for engines that report nothing.
//!
//! Slots follow the streams that have started: what the engine lets run is what it has room for,
//! and one more asks for the next. A full KV cache shows as a stream that stands still while its
//! neighbours advance: it was preempted.

use super::blocked_time::BlockedTime;
use super::unstarted_probe::UnstartedProbe;
use super::windowed_max::WindowedMax;
use super::{AutoBound, Caps, TOKENS_CUT, TOKENS_HOLD, Tally, UNSTARTED};
use crate::time::{Span, Time};

/// How often it is asked which bound binds.
const SAMPLE_EVERY: Span = Span::from_millis(200);
/// Steps that a stream may miss, and the time it may stand still, before it counts as stalled.
const MISSED_STEPS: f64 = 3.0;
const STALL: Span = Span::from_millis(200);
/// How often a stream is believed to have been preempted.
const STALLS_BELIEVED: u8 = 2;
/// The share by which tokens grow, doubled each time while nothing stalls.
const GROWTH: f64 = 0.01;
const GROWTH_MAX: f64 = 0.16;
const GROW_EVERY: Span = Span::from_secs(10);
/// While more streams start than ever before in the window, the next ones may follow at once.
const RISING: Span = Span::from_secs(1);
const SLOTS_MIN: f64 = 2.0;
/// First tokens that come within this time come from one step of the engine.
const TOGETHER: Span = Span::from_millis(10);

#[derive(Clone, Debug)]
pub(super) struct StreamTuner {
    /// Steps made by an average stream.
    steps: f64,
    stalled: bool,
    started_peak: WindowedMax,
    grew: Time,
    together: u32,
    together_since: Time,
    tokens_hold: Time,
    tokens_grown: Time,
    growth: f64,
    probe: UnstartedProbe,
}

/// How far the average stream was when this one last moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamMark {
    steps: f64,
    moved: Time,
    stalls: u8,
}

// === impl StreamLaw ===

impl Default for StreamTuner {
    fn default() -> Self {
        Self {
            steps: 0.0,
            stalled: false,
            started_peak: WindowedMax::over(Span::from_secs(10)),
            grew: Time::ZERO,
            together: 0,
            together_since: Time::ZERO,
            tokens_hold: Time::ZERO,
            tokens_grown: Time::ZERO,
            growth: GROWTH,
            probe: UnstartedProbe::default(),
        }
    }
}

impl StreamTuner {
    pub(super) const fn mark(&self, now: Time) -> StreamMark {
        StreamMark { steps: self.steps, moved: now, stalls: 0 }
    }

    pub(super) fn started(&mut self, started: u32, now: Time) {
        // Answers of one token end as they start: what starts together ran together.
        if now.since(self.together_since) > TOGETHER {
            (self.together_since, self.together) = (now, 0);
        }
        self.together = self.together.saturating_add(1);
        let ran = started.max(self.together);
        if ran > self.started_peak.at(now) {
            self.grew = now;
        }
        self.started_peak.push(ran, now);
        self.probe.started();
    }

    /// One of `started` streams has moved.
    pub(super) fn advanced(&mut self, mark: &mut StreamMark, started: u32, now: Time) {
        self.steps += 1.0 / f64::from(started.max(1));
        let missed = self.steps - mark.steps > MISSED_STEPS;
        let stalled = missed && now.since(mark.moved) > STALL;
        // One that stalls again and again is slow itself: its client, or what parses it.
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
            self.tokens_grown = now;
            self.growth = GROWTH;
        }
        if now.since(blocked_time.sampled_at()) >= SAMPLE_EVERY {
            let binding = blocked_time.since_last_sample(now);
            if binding.on(AutoBound::Tokens) && now >= self.tokens_grown.after(GROW_EVERY) {
                caps.tokens *= 1.0 + self.growth;
                self.growth = (self.growth * 2.0).min(GROWTH_MAX);
                self.tokens_grown = now;
            }
            self.probe.update(binding.on(AutoBound::Unstarted), &mut caps.unstarted, now);
        }
        let rising = now.since(self.grew) <= RISING;
        let ahead = if rising { caps.unstarted } else { 1.0 + caps.unstarted - UNSTARTED };
        caps.slots = (f64::from(self.started_peak.at(now)) + ahead).max(SLOTS_MIN);
    }
}
