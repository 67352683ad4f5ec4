//! The pace of streams (the mean time from token to token), and a bound on asks in flight that
//! keeps it below the configured limit.
//!
//! With throughput as the only goal, an engine fills until each of its steps takes five times as
//! long. If a longest time from token to token is configured, the bound is cut in proportion while
//! the pace exceeds it, and grows again while the bound binds and the pace leaves slack. An
//! objective for each stream moves the same bound: [`SlowStreams`] finds the mean that it needs.

use super::blocked_time::BlockedTime;
use super::slow_streams::SlowStreams;
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

/// For an objective the bound keeps this share of the requests that were seen to run. Below that
/// an engine loses more tokens than the objective is worth, or cannot meet it at any number.
const OBJECTIVE_LEAST: f64 = 0.5;
/// Nor does the bound fall below this number for an objective: with so few streams the time of a
/// step does not follow from their number.
const OBJECTIVE_STREAMS: f64 = 16.0;

/// The limits on the time from token to token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PaceLimits {
    /// The longest mean time of a backend's streams, whatever it costs.
    pub(crate) most: Option<Span>,
    /// The wanted time of each stream.
    pub(crate) objective: Option<Span>,
}

/// The asks at a backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaceLoad {
    pub(super) in_flight: u32,
    /// The most requests that were seen to run there at once.
    pub(super) most_running: u32,
}

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
    slow_streams: SlowStreams,
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

    /// The share of the usual prompt tokens that may be unstarted.
    pub(super) const fn prompt_share(&self) -> f64 {
        self.slow_streams.prompt_share()
    }

    pub(super) const fn produced(&mut self, tokens: u64) {
        self.tokens += tokens;
    }

    /// A stream has ended after so many tokens and so much time since the first one.
    pub(super) fn stream_ended(&mut self, tokens: u64, took: Span) {
        if tokens > 1 {
            self.slow_streams.ended(Span::from_nanos(took.nanos() / (tokens - 1)));
        }
    }

    /// Moves the bound on asks in flight, if enough time has passed and enough tokens were
    /// produced for a measurement.
    pub(super) fn revise(&mut self, cap: &mut f64, limits: PaceLimits, load: PaceLoad, now: Time) {
        let Some(pace) = self.measure(now) else { return };
        if limits.objective.is_none() {
            self.slow_streams = SlowStreams::default();
        }
        let wanted = limits.objective.map(|objective| self.slow_streams.mean_for(objective, now));
        let (limit, least) = match (limits.most, wanted) {
            (None, None) => {
                *cap = f64::INFINITY;
                return;
            }
            (Some(most), wanted) if wanted.is_none_or(|wanted| most <= wanted) => (most, 1.0),
            (_, wanted) => {
                let least = OBJECTIVE_LEAST * f64::from(load.most_running);
                (wanted.unwrap_or(Span::FOREVER), least.max(OBJECTIVE_STREAMS))
            }
        };
        let ratio = pace.secs_f64() / limit.secs_f64();
        let binding = self.blocked_time.since_last_sample(now);
        if ratio > 1.0 && now >= self.hold {
            self.hold = now.after(HOLD);
            let held = cap.min(f64::from(load.in_flight));
            *cap = (held * (1.0 / ratio).max(CUT_LEAST)).max(least);
        } else if ratio < SLACK && binding.on(AutoBound::Pace) {
            *cap = growth::pace(*cap);
        }
    }

    fn measure(&mut self, now: Time) -> Option<Span> {
        if now.since(self.since) < MEASURE || self.tokens < TOKENS_MIN {
            return None;
        }
        let pace = Span::from_secs_f64(self.streaming / self.tokens as f64);
        (self.since, self.streaming, self.tokens) = (now, 0.0, 0);
        self.last = Some(pace);
        self.last
    }
}
