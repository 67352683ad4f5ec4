//! A token bucket: an amount that refills within a minute, and from which requests take.
//!
//! The bucket holds at most the amount of one minute. A request may take more than is left, because
//! its cost is known only when it has ended; the next one then waits until the bucket has filled
//! above zero again. All arithmetic is exact, so the same calls give the same results.

use flow::{Span, Time};

/// One unit of the amount. In a nanosecond, a limit of N in a minute adds N parts.
const UNIT: i128 = 60_000_000_000;
/// How many minutes of its limit a bucket can owe: a wait is bounded by an hour.
const DEBT_MINUTES: i128 = 60;

/// See the module documentation. A new bucket is full.
#[derive(Debug, Default)]
pub(super) struct TokenBucket {
    /// What is missing in a full bucket.
    missing: i128,
    at: Time,
}

// === impl TokenBucket ===

impl TokenBucket {
    /// How long a request has to wait until the bucket has at least one unit; zero if it has.
    pub(super) fn wait(&mut self, per_minute: u64, now: Time) -> Span {
        let rate = i128::from(per_minute.max(1));
        let elapsed = i128::from(now.since(self.at).nanos());
        self.missing = (self.missing - elapsed * rate).max(0);
        self.at = self.at.max(now);
        let lacking = self.missing + UNIT - rate * UNIT;
        let nanos = (lacking.max(0) + rate - 1) / rate;
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes an amount.
    pub(super) fn take(&mut self, per_minute: u64, amount: u64) {
        let most = i128::from(per_minute.max(1)) * UNIT * (DEBT_MINUTES + 1);
        self.missing = (self.missing + i128::from(amount) * UNIT).min(most);
    }

    /// Puts back an amount that was not used.
    pub(super) fn put(&mut self, per_minute: u64, amount: u64) {
        let most = i128::from(per_minute.max(1)) * UNIT * (DEBT_MINUTES + 1);
        self.missing = (self.missing - i128::from(amount) * UNIT).clamp(0, most);
    }
}
