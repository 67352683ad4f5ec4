//! The budget of repeated attempts: first attempts pay for them, so that retries do not bury a
//! fleet that is failing.

use std::sync::atomic::{AtomicI64, Ordering};

/// One attempt, in thousandths.
const ONE: i64 = 1000;
/// The budget at the start and its maximum: enough for a backend that dies with all its requests.
const RESERVE: i64 = 100 * ONE;

/// The number of attempts that may be repeated.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    left: AtomicI64,
}

// === impl RetryBudget ===

impl RetryBudget {
    /// Pays for `share` of a repeated attempt, once per request.
    pub(crate) fn deposit(&self, share: f64) {
        if self.left.load(Ordering::Relaxed) < RESERVE {
            self.left.fetch_add((share * ONE as f64) as i64, Ordering::Relaxed);
        }
    }

    /// Takes one repeated attempt from the budget, if it has one.
    pub(crate) fn withdraw(&self) -> bool {
        let take = |left| (left >= ONE).then_some(left - ONE);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { left: AtomicI64::new(RESERVE) }
    }
}
