//! Slow start: a backend that has returned warms up with fewer requests than the others get.

use flow::{Span, Time};

use super::{Health, HealthSettings};

/// The score that a returning backend loses at first: as much as ten waiting requests.
const HANDICAP_MOST: f32 = 500.0;
const HANDICAP_STEPS: u64 = 10;

// === impl Health ===

impl Health {
    /// The score that it loses while it warms up, falling in steps.
    pub(in crate::backend) fn handicap(&self, settings: &HealthSettings, now: Time) -> f32 {
        let Some(step) = self.cold_step(settings, now) else { return 0.0 };
        HANDICAP_MOST * (HANDICAP_STEPS - step) as f32 / HANDICAP_STEPS as f32
    }

    /// When the next step of the warming up begins.
    pub(super) fn next_warm_step(&self, settings: &HealthSettings, now: Time) -> Option<Time> {
        let (step, since) = self.cold_step(settings, now).zip(self.cold_since(now))?;
        Some(since.after(part(settings.slow_start, step + 1)))
    }

    fn cold_since(&self, now: Time) -> Option<Time> {
        let ejection =
            (self.ejections > 0 && self.ejected_until <= now).then_some(self.ejected_until);
        self.back_at.max(ejection)
    }

    fn cold_step(&self, settings: &HealthSettings, now: Time) -> Option<u64> {
        let past = now.since(self.cold_since(now)?).nanos();
        let step = past / part(settings.slow_start, 1).nanos().max(1);
        (step < HANDICAP_STEPS && settings.slow_start > Span::ZERO).then_some(step)
    }
}

fn part(whole: Span, steps: u64) -> Span {
    Span::from_nanos(whole.nanos() / HANDICAP_STEPS * steps)
}
