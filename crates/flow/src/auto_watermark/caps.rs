//! The current values of the bounds at one backend.

use super::UNSTARTED;

/// The bound on unstarted asks at a backend that has not shown a first token yet.
const UNSTARTED_COLD: f64 = 2.0;
/// More ranks than this are not believed.
const RANKS_MAX: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    pub(super) unstarted: f64,
    pub(super) tokens: f64,
    pub(super) slots: f64,
    pub(super) pace: f64,
    /// The data-parallel ranks of the engine. Each of them prefills on its own.
    pub(super) ranks: u32,
}

// === impl Caps ===

impl Default for Caps {
    fn default() -> Self {
        Self {
            unstarted: UNSTARTED_COLD,
            tokens: f64::INFINITY,
            slots: f64::INFINITY,
            pace: f64::INFINITY,
            ranks: 1,
        }
    }
}

impl Caps {
    /// The bound on unstarted asks without a trial, once a first token was seen.
    pub(super) fn unstarted_least(&self) -> f64 {
        UNSTARTED * f64::from(self.ranks)
    }

    /// The engine reports so many ranks.
    pub(super) fn saw_ranks(&mut self, ranks: u32) {
        let ranks = ranks.clamp(1, RANKS_MAX);
        if std::mem::replace(&mut self.ranks, ranks) != ranks && self.unstarted >= UNSTARTED {
            self.unstarted = self.unstarted_least();
        }
    }
}
