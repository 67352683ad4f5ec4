//! How fast a backend computes prompts, learned from first tokens.
//!
//! A prompt is computed after those that were granted before it and have no first token yet. So the
//! time to its first token is the time for all of them. Short prompts say little: their time is
//! mostly overhead.

use crate::time::Span;

/// The weight that earlier first tokens keep at each new one.
const KEPT: f64 = 0.9;
/// The shortest prompt to learn from, in tokens.
const TOKENS_MIN: u64 = 512;
/// Rates outside this range, in tokens a second, count as its ends.
const RATES: std::ops::RangeInclusive<f64> = 10.0..=1e6;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrefillRate {
    tokens: f64,
    seconds: f64,
}

// === impl PrefillRate ===

impl PrefillRate {
    /// Takes the time to the first token of a prompt: `own` of its tokens had to be computed, and
    /// `ahead` tokens of other prompts before it.
    pub(crate) fn learn(&mut self, own: u64, ahead: u64, took: Span) {
        if own < TOKENS_MIN || took == Span::ZERO {
            return;
        }
        self.tokens = self.tokens * KEPT + own.saturating_add(ahead) as f64;
        self.seconds = self.seconds * KEPT + took.secs_f64();
    }

    /// Tokens a second; `None` before the first long prompt.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let known = self.seconds > 0.0;
        known.then(|| (self.tokens / self.seconds).clamp(*RATES.start(), *RATES.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k01_the_rate_is_that_of_all_prompts_that_were_computed() {
        let mut rate = PrefillRate::default();
        assert_eq!(rate.per_second(), None);
        rate.learn(511, 0, Span::from_millis(10));
        rate.learn(4000, 0, Span::ZERO);
        assert_eq!(rate.per_second(), None, "too short, and no time at all");
        rate.learn(2000, 0, Span::from_millis(500));
        assert_eq!(rate.per_second(), Some(4000.0));
        rate.learn(2000, 6000, Span::from_secs(2));
        let learned = rate.per_second().unwrap();
        assert!((learned - 4000.0).abs() < 1e-6, "it waited for the prompts ahead: {learned}");
    }

    #[test]
    fn k01_the_rate_follows_the_engine_and_stays_sane() {
        let mut rate = PrefillRate::default();
        for _ in 0..100 {
            rate.learn(1000, 0, Span::from_secs(1));
        }
        for _ in 0..50 {
            rate.learn(1000, 0, Span::from_millis(100));
        }
        let learned = rate.per_second().unwrap();
        assert!((9_000.0..=10_000.0).contains(&learned), "{learned}");
        let mut wild = PrefillRate::default();
        wild.learn(u64::MAX, u64::MAX, Span::from_nanos(1));
        assert_eq!(wild.per_second(), Some(1e6));
        let mut stuck = PrefillRate::default();
        stuck.learn(512, 0, Span::from_secs(1 << 30));
        assert_eq!(stuck.per_second(), Some(10.0));
    }
}
