//! The mean time from token to token at which nearly all streams keep an objective.
//!
//! Streams differ: one that runs beside the prefill of a long prompt is slower than the mean. So
//! the mean must be shorter than the objective, by a margin that follows from the streams that
//! ended.

use crate::time::{Span, Time};

/// A judgement needs this many streams, and this long since the last one: a change of the bound
/// shows only in the streams that start after it.
const STREAMS_MIN: u32 = 32;
const EVERY: Span = Span::from_secs(5);
/// Above this share of slow streams the mean must fall, below the second one it may rise.
const SLOW_MOST: f64 = 0.05;
const SLOW_FEW: f64 = 0.02;
/// The steps of the mean, and its least share of the objective.
const STEP_DOWN: f64 = 0.95;
const STEP_UP: f64 = 1.02;
const LEAST: f64 = 0.7;

#[derive(Clone, Copy, Debug)]
pub(super) struct SlowStreams {
    objective: Option<Span>,
    ended: u32,
    slow: u32,
    judged: Time,
    /// The mean as a share of the objective.
    share: f64,
}

// === impl SlowStreams ===

impl Default for SlowStreams {
    fn default() -> Self {
        Self { objective: None, ended: 0, slow: 0, judged: Time::ZERO, share: 1.0 }
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

    /// The mean over all streams that lets nearly all of them keep the objective.
    pub(super) fn mean_for(&mut self, objective: Span, now: Time) -> Span {
        if self.objective.replace(objective) != Some(objective) {
            *self = Self { objective: Some(objective), judged: now, ..Self::default() };
        }
        if self.ended >= STREAMS_MIN && now.since(self.judged) >= EVERY {
            let slow = f64::from(self.slow) / f64::from(self.ended);
            let step = match slow {
                slow if slow > SLOW_MOST => STEP_DOWN,
                slow if slow < SLOW_FEW => STEP_UP,
                _ => 1.0,
            };
            self.share = (self.share * step).clamp(LEAST, 1.0);
            (self.ended, self.slow, self.judged) = (0, 0, now);
        }
        Span::from_secs_f64(objective.secs_f64() * self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::{STREAMS_MIN, SlowStreams};
    use crate::time::{Span, Time};

    const OBJECTIVE: Span = Span::from_millis(100);

    /// The mean for the objective after so many judgements, each with this share of slow streams.
    fn mean_after(judgements: u64, slow: u32) -> u64 {
        let mut streams = SlowStreams::default();
        let at = |second: u64| Time::ZERO.after(Span::from_secs(second));
        let mut mean = streams.mean_for(OBJECTIVE, at(0));
        for judgement in 1..=judgements {
            (0..slow).for_each(|_| streams.ended(Span::from_millis(101)));
            (slow..100).for_each(|_| streams.ended(Span::from_millis(99)));
            mean = streams.mean_for(OBJECTIVE, at(5 * judgement));
        }
        mean.nanos() / 1_000_000
    }

    #[test]
    fn o03_the_mean_falls_while_many_streams_are_slow() {
        assert_eq!(mean_after(0, 0), 100);
        assert_eq!(mean_after(1, 10), 95);
        assert_eq!(mean_after(100, 10), 70, "it has a least value");
        assert_eq!(mean_after(10, 4), 100, "a few slow streams are allowed");
    }

    #[test]
    fn o03_the_mean_rises_again() {
        let mut streams = SlowStreams::default();
        let at = |second: u64| Time::ZERO.after(Span::from_secs(second));
        streams.mean_for(OBJECTIVE, at(0));
        (0..STREAMS_MIN).for_each(|_| streams.ended(Span::from_millis(200)));
        let cut = streams.mean_for(OBJECTIVE, at(5));
        assert!(cut < OBJECTIVE);
        (0..STREAMS_MIN).for_each(|_| streams.ended(Span::from_millis(50)));
        assert_eq!(streams.mean_for(OBJECTIVE, at(9)), cut, "too soon for a judgement");
        assert!(streams.mean_for(OBJECTIVE, at(10)) > cut);
    }
}
