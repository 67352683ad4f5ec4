//! The pace of streams (the mean time from token to token), and a bound on asks in flight that
//! keeps it below the configured limit.
//!
//! With throughput as the only goal, an engine fills until each of its steps takes five times as
//! long. If a longest time from token to token is configured, the bound is cut in proportion while
//! the pace exceeds it, and grows again while the bound binds and the pace leaves slack.

use super::blocked_time::BlockedTime;
use super::{AutoBound, growth};
use crate::time::{Span, Time};

/// A measurement takes at least this long, and at least this many tokens.
const MEASURE: Span = Span::from_secs(1);
const TOKENS_MIN: u64 = 20;
/// A cut leaves at least this share, because a single measurement may be wrong.
const CUT_LEAST: f64 = 0.8;
/// The next cut waits for the effect of the last: asks in flight have to end first.
const HOLD: Span = Span::from_secs(2);
/// Below this share of the limit there is slack.
const SLACK: f64 = 0.95;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PaceTuner {
    noted: Time,
    since: Time,
    /// Stream-seconds and tokens since then: their quotient is the pace.
    streaming: f64,
    tokens: u64,
    hold: Time,
    pub(super) blocked_time: BlockedTime,
    last: Option<Span>,
}

// === impl PaceTuner ===

impl PaceTuner {
    /// Adds the time since the last call, in which this number of streams ran.
    pub(super) fn note(&mut self, streams: u32, now: Time) {
        self.streaming += f64::from(streams) * now.since(self.noted).secs_f64();
        self.noted = now;
    }

    /// The pace when it was last measured.
    pub(super) const fn last(&self) -> Option<Span> {
        self.last
    }

    pub(super) const fn produced(&mut self, tokens: u64) {
        self.tokens += tokens;
    }

    /// Takes a measurement if enough time has passed and enough tokens were produced.
    pub(super) fn measure(&mut self, now: Time) -> Option<Span> {
        if now.since(self.since) < MEASURE || self.tokens < TOKENS_MIN {
            return None;
        }
        let pace = Span::from_secs_f64(self.streaming / self.tokens as f64);
        (self.since, self.streaming, self.tokens) = (now, 0.0, 0);
        self.last = Some(pace);
        self.last
    }

    /// Moves the bound on asks in flight; `ratio` is the measured pace over the limit.
    pub(super) fn revise(&mut self, cap: &mut f64, in_flight: u32, ratio: f64, now: Time) {
        let binding = self.blocked_time.since_last_sample(now);
        if ratio > 1.0 && now >= self.hold {
            self.hold = now.after(HOLD);
            let held = cap.min(f64::from(in_flight));
            *cap = (held * (1.0 / ratio).max(CUT_LEAST)).max(1.0);
        } else if ratio < SLACK && binding.on(AutoBound::Pace) {
            *cap = growth::pace(*cap);
        }
    }
}
