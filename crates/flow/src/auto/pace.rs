//! How smoothly streams run, and a bound on asks in flight that keeps them so.
//!
//! Throughput alone would fill an engine until each of its steps takes five times as long. Where a
//! longest time from token to token is given, asks in flight are cut in proportion while it is
//! passed, and grow again while they bind and there is slack.

use super::AutoBound;
use super::blocked_time::BlockedTime;
use crate::time::{Span, Time};

/// A measurement needs this long, and so many tokens.
const MEASURE: Span = Span::from_secs(1);
const TOKENS_MIN: u64 = 20;
/// The least that a cut leaves, because a single measurement may be off.
const CUT_LEAST: f64 = 0.8;
/// After a cut its effect is awaited: what is in flight has to end first.
const HOLD: Span = Span::from_secs(2);
/// Below this part of what is allowed there is slack.
const SLACK: f64 = 0.95;
const GROWTH: f64 = 0.02;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PaceTuner {
    noted: Time,
    since: Time,
    /// Stream-seconds and tokens since then.
    streaming: f64,
    tokens: u64,
    hold: Time,
    pub(super) blocked_time: BlockedTime,
    last: Option<Span>,
}

// === impl PaceLaw ===

impl PaceTuner {
    /// So many streams ran until now.
    pub(super) fn note(&mut self, streams: u32, now: Time) {
        self.streaming += f64::from(streams) * now.since(self.noted).secs_f64();
        self.noted = now;
    }

    /// The time from token to token when it was last measured.
    pub(super) const fn last(&self) -> Option<Span> {
        self.last
    }

    pub(super) const fn produced(&mut self, tokens: u64) {
        self.tokens += tokens;
    }

    /// Takes a measurement if it is time.
    pub(super) fn measure(&mut self, now: Time) -> Option<Span> {
        if now.since(self.since) < MEASURE || self.tokens < TOKENS_MIN {
            return None;
        }
        let pace = Span::from_secs_f64(self.streaming / self.tokens as f64);
        (self.since, self.streaming, self.tokens) = (now, 0.0, 0);
        self.last = Some(pace);
        self.last
    }

    /// Moves the bound on asks in flight; `ratio` is the measured pace over the longest allowed.
    pub(super) fn revise(&mut self, cap: &mut f64, in_flight: u32, ratio: f64, now: Time) {
        let binding = self.blocked_time.since_last_sample(now);
        if ratio > 1.0 && now >= self.hold {
            self.hold = now.after(HOLD);
            let held = cap.min(f64::from(in_flight));
            *cap = (held * (1.0 / ratio).max(CUT_LEAST)).max(1.0);
        } else if ratio < SLACK && binding.on(AutoBound::Pace) {
            *cap += (*cap * GROWTH).max(1.0);
        }
    }
}
