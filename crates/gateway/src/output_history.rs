//! How long the responses of each model were. This limits how many tokens a request can claim with
//! `max_tokens`.
//!
//! A request counts with the output that it asks for until its tokens come. A client that asks for
//! a billion tokens would fill a backend with a request that uses ten. So a claim counts at most as
//! twice the longest response of its model before, which is forgotten slowly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flow::ModelId;

/// Models whose numbers are equal modulo this share a history.
const MODELS: usize = 256;
/// A claim up to this many tokens counts as it is.
pub(crate) const CLAIM_MIN: u64 = 256;
/// The most that a claim counts for a model without a history.
const CLAIM_UNKNOWN: u64 = 4096;
/// Each response takes this part of the longest one away.
const FORGOTTEN: u64 = 64;

/// The longest output of each model, in 1/64 tokens; 0 if there was none.
#[derive(Debug)]
pub(crate) struct OutputHistory([AtomicU64; MODELS]);

// === impl OutputHistory ===

impl OutputHistory {
    /// Notes the output of a response. Two responses that end at the same time may count as one.
    pub(crate) fn note(&self, model: ModelId, output: u64) {
        let longest = self.of(model);
        let before = longest.load(Relaxed);
        let now = output.saturating_mul(FORGOTTEN).max(before - before / FORGOTTEN);
        if now != before {
            longest.store(now, Relaxed);
        }
    }

    /// The most that a claimed output counts.
    pub(crate) fn bound(&self, model: ModelId) -> u64 {
        let bound = |longest: u64| longest.saturating_mul(2).max(CLAIM_MIN);
        self.longest(model).map_or(CLAIM_UNKNOWN, bound)
    }

    /// The longest output, as far as it is not forgotten; `None` before the first one.
    pub(crate) fn longest(&self, model: ModelId) -> Option<u64> {
        let longest = self.of(model).load(Relaxed);
        (longest > 0).then_some(longest / FORGOTTEN)
    }

    fn of(&self, model: ModelId) -> &AtomicU64 {
        &self.0[model.0 as usize % MODELS]
    }
}

impl Default for OutputHistory {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q04_a_claim_counts_at_most_twice_the_longest_response_of_its_model() {
        let (history, model) = (OutputHistory::default(), ModelId(3));
        assert_eq!(history.bound(model), CLAIM_UNKNOWN);
        history.note(model, 10);
        assert_eq!(history.bound(model), CLAIM_MIN);
        history.note(model, 5000);
        history.note(model, 10);
        assert!((9600..=10_000).contains(&history.bound(model)), "{}", history.bound(model));
        assert_eq!(history.bound(ModelId(4)), CLAIM_UNKNOWN, "another model");
        (0..1000).for_each(|_| history.note(model, 10));
        assert_eq!(history.bound(model), CLAIM_MIN, "forgotten");
        history.note(model, u64::MAX);
        assert!(history.bound(model) > 1 << 50, "no overflow");
    }
}
