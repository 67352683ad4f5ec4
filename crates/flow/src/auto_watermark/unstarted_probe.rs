//! Probes whether the engine can start more asks at once than the bound on unstarted asks allows.
//!
//! Some engines produce the first tokens of many asks in parallel. There the first token is latency
//! and not work, and a small bound on unstarted asks keeps the engine idle. Only a large step
//! stands out from the noise of traffic, so the bound is doubled for a trial. It stays doubled if
//! the rate of first tokens rises by half. A raised bound is tried at half from time to time.

use super::UNSTARTED;
use crate::time::{Span, Time};

/// A measurement ends after this many first tokens, or after this time.
const SAMPLES: u32 = 30;
const MEASURE_MAX: Span = Span::from_secs(15);
/// A trial is measured only after this time, when the first effects have passed.
const SETTLE: Span = Span::from_secs(1);
/// Below this rate of first tokens per second a measurement says nothing.
const RATE_MIN: f64 = 1.5;
const RAISED: f64 = 1.5;
const KEPT: f64 = 0.85;
const UNSTARTED_MAX: f64 = 256.0;
const WAIT_FIRST: Span = Span::from_secs(5);
const WAIT_RAISED: Span = Span::from_secs(3);
const WAIT_LOWERED: Span = Span::from_secs(10);
const WAIT_MIN: Span = Span::from_secs(20);
const WAIT_MAX: Span = Span::from_secs(320);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The rate before a trial is measured.
    Base,
    /// The bound was multiplied by `factor`; `base` is the rate before.
    Trial { factor: f64, base: f64 },
}

#[derive(Clone, Debug)]
pub(super) struct UnstartedProbe {
    phase: Phase,
    since: Option<Time>,
    firsts: u32,
    wait: Span,
    lower_next: bool,
}

// === impl UnstartedProbe ===

impl Default for UnstartedProbe {
    fn default() -> Self {
        Self { phase: Phase::Base, since: None, firsts: 0, wait: WAIT_FIRST, lower_next: false }
    }
}

impl UnstartedProbe {
    pub(super) fn started(&mut self) {
        self.firsts = self.firsts.saturating_add(1);
    }

    /// Moves the bound; `binding` says whether it kept asks waiting since the last sample.
    pub(super) fn update(&mut self, binding: bool, unstarted: &mut f64, now: Time) {
        if !binding && self.phase == Phase::Base {
            self.since = None;
            return;
        }
        let Some(since) = self.since.filter(|&since| since <= now) else {
            // The trial has not settled yet, or no measurement has begun.
            if self.since.is_none() {
                self.since = Some(now);
            }
            self.firsts = 0;
            return;
        };
        let elapsed = now.since(since);
        let enough = elapsed > Span::ZERO && (self.firsts >= SAMPLES || elapsed >= MEASURE_MAX);
        let rate = f64::from(self.firsts) / elapsed.secs_f64();
        match self.phase {
            Phase::Base if enough && elapsed >= self.wait => self.step(rate, unstarted, now),
            Phase::Trial { factor, base } if enough => {
                self.judge(factor, rate / base, unstarted);
                self.since = Some(now);
                self.firsts = 0;
            }
            _ => {}
        }
    }

    fn step(&mut self, rate: f64, unstarted: &mut f64, now: Time) {
        self.firsts = 0;
        self.since = Some(now);
        if rate < RATE_MIN {
            return;
        }
        let lower = *unstarted > UNSTARTED && self.lower_next;
        self.lower_next = !lower;
        let factor = if lower { 0.5 } else { 2.0 };
        if *unstarted * factor > UNSTARTED_MAX {
            return;
        }
        *unstarted *= factor;
        self.phase = Phase::Trial { factor, base: rate };
        self.since = Some(now.after(SETTLE));
    }

    fn judge(&mut self, factor: f64, gain: f64, unstarted: &mut f64) {
        self.phase = Phase::Base;
        let keep = if factor > 1.0 { gain >= RAISED } else { gain >= KEPT };
        self.wait = match (keep, factor > 1.0) {
            (true, true) => WAIT_RAISED,
            (true, false) => WAIT_LOWERED,
            (false, _) => {
                let doubled = Span::from_nanos(self.wait.nanos() * 2);
                doubled.clamp(WAIT_MIN, WAIT_MAX)
            }
        };
        if !keep {
            *unstarted /= factor;
        }
    }
}
