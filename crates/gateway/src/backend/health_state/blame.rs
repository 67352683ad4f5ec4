//! Whose fault a failed request is: its own, or that of the backend.
//!
//! A backend that has failed others since it last answered is at fault.

use flow::Time;

use super::Health;

// === impl Health ===

impl Health {
    /// Whether requests have failed since the last one that was answered, besides `own`.
    pub(in crate::backend) fn fails_others(&self, own: u32) -> bool {
        self.unproven || self.failures > own
    }

    /// Whether it was down and is back since this moment.
    pub(in crate::backend) fn is_back_since(&self, moment: Time) -> bool {
        self.back_at > Some(moment)
    }

    /// A request was the cause of its failure: the backend is not.
    pub(in crate::backend) fn forgive(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }
}
