//! The budgets of repeated attempts. First attempts pay for repeated ones, so that retries do not
//! overload a fleet that is failing. Each tenant has its own budget, so that its failing requests
//! do not use up the attempts of other tenants. Without tenants, flows have budgets. Clients can
//! invent names of flows, so the number of budgets is fixed, and flows with equal hashes share one.

use std::sync::atomic::{AtomicI64, Ordering};

/// One attempt, in thousandths.
const ONE: i64 = 1000;
/// The budget at the start, beyond which requests pay nothing unless their share is larger: enough
/// for a backend that dies with all its requests.
const RESERVE: i64 = 100 * ONE;

/// Flows whose hashes are equal modulo this share a budget.
const BUDGETS: usize = 1024;

/// The budgets of flows.
#[derive(Debug)]
pub(crate) struct RetryBudgets(Box<[RetryBudget]>);

/// The number of attempts that may be repeated.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    left: AtomicI64,
}

// === impl RetryBudgets ===

impl RetryBudgets {
    /// The budget of a flow.
    pub(crate) fn of(&self, name: &str) -> &RetryBudget {
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = name.bytes().fold(0x811C_9DC5, step);
        &self.0[hash as usize % BUDGETS]
    }
}

// === impl RetryBudget ===

impl RetryBudget {
    /// Pays for `share` repeated attempts, once per request.
    pub(crate) fn deposit(&self, share: f64) {
        let paid = (share * ONE as f64) as i64;
        if self.left.load(Ordering::Relaxed) < RESERVE.max(paid) {
            self.left.fetch_add(paid, Ordering::Relaxed);
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

impl Default for RetryBudgets {
    fn default() -> Self {
        Self(std::iter::repeat_with(RetryBudget::default).take(BUDGETS).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n05_one_flow_does_not_use_up_the_attempts_of_another() {
        let budgets = RetryBudgets::default();
        let used = std::iter::from_fn(|| budgets.of("alpha").withdraw().then_some(())).count();
        assert_eq!(used, 100);
        assert!(budgets.of("beta").withdraw());
        budgets.of("alpha").deposit(1.0);
        assert!(budgets.of("alpha").withdraw() && !budgets.of("alpha").withdraw());
    }

    /// Where each request pays for more attempts than it can make, none is refused one.
    #[test]
    fn g01_a_large_share_is_never_used_up() {
        let budget = RetryBudget::default();
        (0..20).for_each(|_| budget.deposit(1000.0));
        assert!((0..1000).all(|_| budget.withdraw()));
    }
}
