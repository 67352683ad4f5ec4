//! The law by what the streams show, for engines that report nothing.
//!
//! Slots follow the streams that have started: what the engine lets run is what it has room for,
//! and one more asks for the next. A full KV cache shows as a stream that stands still while its
//! neighbours advance: it was preempted.

use super::peak::Peak;
use super::pressure::Pressure;
use super::probe::Probe;
use super::{Bound, Caps, UNSTARTED};
use crate::time::{Span, Time};

/// How often it is asked which bound binds.
const LOOK_EVERY: Span = Span::from_millis(200);
/// Steps that a stream may miss, and the time it may stand still, before it counts as stalled.
const MISSED_STEPS: f64 = 3.0;
const STALL: Span = Span::from_millis(200);
const CUT: f64 = 0.95;
const GROWTH: f64 = 1.01;
const HOLD: Span = Span::from_secs(2);
const GROW_EVERY: Span = Span::from_secs(10);
/// While more streams start than ever before in the window, the next ones may follow at once.
const RISING: Span = Span::from_secs(1);
const SLOTS_MIN: f64 = 2.0;

#[derive(Clone, Debug)]
pub(super) struct StreamLaw {
    /// Steps made by an average stream.
    steps: f64,
    stalled: bool,
    started_peak: Peak,
    grew: Time,
    tokens_hold: Time,
    tokens_grown: Time,
    probe: Probe,
}

/// How far the average stream was when this one last moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    steps: f64,
    moved: Time,
}

// === impl StreamLaw ===

impl Default for StreamLaw {
    fn default() -> Self {
        Self {
            steps: 0.0,
            stalled: false,
            started_peak: Peak::over(Span::from_secs(10)),
            grew: Time::ZERO,
            tokens_hold: Time::ZERO,
            tokens_grown: Time::ZERO,
            probe: Probe::default(),
        }
    }
}

impl StreamLaw {
    pub(super) const fn mark(&self, now: Time) -> Mark {
        Mark { steps: self.steps, moved: now }
    }

    pub(super) fn started(&mut self, started: u32, now: Time) {
        if started > self.started_peak.at(now) {
            self.grew = now;
        }
        self.started_peak.push(started, now);
        self.probe.started();
    }

    /// One of `started` streams has moved.
    pub(super) fn advanced(&mut self, mark: &mut Mark, started: u32, now: Time) {
        self.steps += 1.0 / f64::from(started.max(1));
        let missed = self.steps - mark.steps > MISSED_STEPS;
        self.stalled |= missed && now.since(mark.moved) > STALL;
        *mark = self.mark(now);
    }

    pub(super) fn revise(
        &mut self,
        pressure: &mut Pressure,
        tokens: u64,
        caps: &mut Caps,
        now: Time,
    ) {
        if std::mem::take(&mut self.stalled) && now >= self.tokens_hold {
            caps.tokens = CUT * caps.tokens.min(tokens as f64);
            self.tokens_hold = now.after(HOLD);
            self.tokens_grown = now;
        }
        if now.since(pressure.looked()) >= LOOK_EVERY {
            let binding = pressure.since_last_look(now);
            if binding.on(Bound::Tokens) && now >= self.tokens_grown.after(GROW_EVERY) {
                caps.tokens *= GROWTH;
                self.tokens_grown = now;
            }
            self.probe.look(binding.on(Bound::Unstarted), &mut caps.unstarted, now);
        }
        let rising = now.since(self.grew) <= RISING;
        let ahead = if rising { caps.unstarted } else { 1.0 + caps.unstarted - UNSTARTED };
        caps.slots = (f64::from(self.started_peak.at(now)) + ahead).max(SLOTS_MIN);
    }
}
