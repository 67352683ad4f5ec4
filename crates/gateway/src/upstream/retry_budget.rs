//! The budget of repeated attempts: first attempts pay for them, so that retries do not bury a
//! fleet that is failing.

use std::sync::atomic::{AtomicI64, Ordering};

/// One attempt, in the unit that is counted.
const ONE: i64 = 1000;
/// What is there at the start and at most: enough for a backend that dies with all it holds.
const RESERVE: i64 = 100 * ONE;

/// How many further attempts may be made.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    left: AtomicI64,
}

// === impl RetryBudget ===

impl RetryBudget {
    /// A request makes its first attempt, which pays for `share` of another one.
    pub(crate) fn deposit(&self, share: f64) {
        if self.left.load(Ordering::Relaxed) < RESERVE {
            self.left.fetch_add((share * ONE as f64) as i64, Ordering::Relaxed);
        }
    }

    /// Whether a further attempt may be made.
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
