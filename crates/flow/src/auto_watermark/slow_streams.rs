//! What keeps nearly all streams within an objective for the time from token to token.
//!
//! Streams differ: one that runs beside the prefill of long prompts is slower than the mean, and a
//! short response is slow if a single step was long. So while too many streams are slow, fewer
//! prompt tokens may be unstarted at once, which makes the steps alike and costs few tokens. Only
//! if that is not enough, the mean time from token to token must fall, by fewer asks in flight.

use crate::time::{Span, Time};

/// A judgement needs this many streams, and this long since the last one: a change of the bound
/// shows only in the streams that start after it.
const STREAMS_MIN: u32 = 32;
const EVERY: Span = Span::from_secs(5);
/// Above this share of slow streams the load must fall, below the second one it may rise.
const SLOW_MOST: f64 = 0.055;
const SLOW_FEW: f64 = 0.045;
/// The steps of the unstarted prompt tokens, and their least share.
const PROMPTS_DOWN: f64 = 0.8;
const PROMPTS_UP: f64 = 1.02;
const PROMPTS_LEAST: f64 = 0.375;
/// The steps of the mean, and its least share of the objective.
const MEAN_DOWN: f64 = 0.97;
const MEAN_UP: f64 = 1.02;
const MEAN_LEAST: f64 = 0.7;

#[derive(Clone, Copy, Debug)]
pub(super) struct SlowStreams {
    objective: Option<Span>,
    ended: u32,
    slow: u32,
    judged: Time,
    /// The unstarted prompt tokens, as a share of those that are allowed without an objective.
    prompts: f64,
    /// The mean as a share of the objective.
    mean: f64,
}

// === impl SlowStreams ===

impl Default for SlowStreams {
    fn default() -> Self {
        Self { objective: None, ended: 0, slow: 0, judged: Time::ZERO, prompts: 1.0, mean: 1.0 }
    }
}

impl SlowStreams {
    /// A stream with this mean time from token to token has ended.
    pub(super) fn ended(&mut self, pace: Span) {
        if let Some(objective) = self.objective {
            self.ended += 1;
            self.slow += u32::from(pace > objective);
        }
    }

    /// The share of the usual prompt tokens that may be unstarted.
    pub(super) const fn prompt_share(&self) -> f64 {
        self.prompts
    }

    /// The mean over all streams that lets nearly all of them keep the objective.
    pub(super) fn mean_for(&mut self, objective: Span, now: Time) -> Span {
        if self.objective.replace(objective) != Some(objective) {
            *self = Self { objective: Some(objective), judged: now, ..Self::default() };
        }
        if self.ended >= STREAMS_MIN && now.since(self.judged) >= EVERY {
            self.judge(f64::from(self.slow) / f64::from(self.ended));
            (self.ended, self.slow, self.judged) = (0, 0, now);
        }
        Span::from_secs_f64(objective.secs_f64() * self.mean)
    }

    fn judge(&mut self, slow: f64) {
        if slow > SLOW_MOST && self.prompts > PROMPTS_LEAST {
            self.prompts = (self.prompts * PROMPTS_DOWN).max(PROMPTS_LEAST);
        } else if slow > SLOW_MOST {
            self.mean = (self.mean * MEAN_DOWN).max(MEAN_LEAST);
        } else if slow < SLOW_FEW && self.mean < 1.0 {
            self.mean = (self.mean * MEAN_UP).min(1.0);
        } else if slow < SLOW_FEW {
            self.prompts = (self.prompts * PROMPTS_UP).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STREAMS_MIN, SlowStreams};
    use crate::time::{Span, Time};

    const OBJECTIVE: Span = Span::from_millis(100);

    fn at(second: u64) -> Time {
        Time::ZERO.after(Span::from_secs(second))
    }

    /// The mean for the objective in milliseconds, and the share of unstarted prompt tokens in per
    /// cent, after so many judgements, each with this share of slow streams.
    fn after(judgements: u64, slow: u32) -> (u64, u64) {
        let mut streams = SlowStreams::default();
        let mut mean = streams.mean_for(OBJECTIVE, at(0));
        for judgement in 1..=judgements {
            (0..slow).for_each(|_| streams.ended(Span::from_millis(101)));
            (slow..100).for_each(|_| streams.ended(Span::from_millis(99)));
            mean = streams.mean_for(OBJECTIVE, at(5 * judgement));
        }
        (mean.nanos() / 1_000_000, (streams.prompt_share() * 100.0).round() as u64)
    }

    #[test]
    fn o03_while_many_streams_are_slow_the_prompts_fall_first_and_then_the_mean() {
        assert_eq!(after(0, 0), (100, 100));
        assert_eq!(after(1, 10), (100, 80));
        assert_eq!(after(5, 10), (100, 38));
        assert_eq!(after(6, 10), (97, 38));
        assert_eq!(after(100, 10), (70, 38), "both have a least value");
        assert_eq!(after(10, 4), (100, 100), "a few slow streams are allowed");
    }

    #[test]
    fn o03_the_mean_rises_again_before_the_prompts() {
        let mut streams = SlowStreams::default();
        streams.mean_for(OBJECTIVE, at(0));
        let mut judge = |pace, second| {
            (0..STREAMS_MIN).for_each(|_| streams.ended(Span::from_millis(pace)));
            (streams.mean_for(OBJECTIVE, at(second)), streams.prompt_share())
        };
        let cut = (1..=6).map(|judgement| judge(200, 5 * judgement)).last().unwrap();
        assert!(cut.0 < OBJECTIVE);
        assert_eq!(judge(50, 34), cut, "too soon for a judgement");
        let risen = judge(50, 35);
        assert!(risen.0 > cut.0 && risen.1 == cut.1, "{risen:?}");
        let last = (8..100).map(|judgement| judge(50, 5 * judgement)).last();
        assert_eq!(last, Some((OBJECTIVE, 1.0)));
    }
}
