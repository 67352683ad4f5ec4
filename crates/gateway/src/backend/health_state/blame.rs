//! Whose fault a failed request is: its own, or that of the backend.
//!
//! A backend that has failed others since it last answered is at fault. One that serves others is
//! not ejected for what one caller alone sends, nor for a request that fails elsewhere too: a
//! prompt that crashes every engine would close one backend after the other for all. If it serves
//! nobody else for a while, every failure counts again.

use flow::{Span, Time};

use super::super::Attempt;
use super::super::proofs::CallerHash;
use super::{Health, HealthSettings};

/// A response that began within this time shows that a backend serves others. A backend that fails
/// altogether is ejected this much later if only one caller uses it.
const PROOF_HOLDS: Span = Span::from_secs(10);

/// Why a failed request may be the cause of its failure.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Suspicion {
    pub(in crate::backend) caller: CallerHash,
    /// Whether other backends have failed it too.
    pub(in crate::backend) failed_elsewhere: bool,
    /// When the backend last began a response to others: to other callers, or to any request if
    /// this one has failed elsewhere.
    pub(in crate::backend) others_served_at: Option<Time>,
}

/// Who sent the requests that have failed in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FailedCallers {
    #[default]
    None,
    One(CallerHash),
    Several,
}

// === impl Health ===

impl Health {
    /// Records a failure of a request that may be its cause. Returns whether it counts.
    pub(in crate::backend) fn failed_for(
        &mut self,
        suspicion: &Suspicion,
        cause: &str,
        settings: &HealthSettings,
        now: Time,
    ) -> bool {
        let Suspicion { caller, failed_elsewhere, others_served_at } = *suspicion;
        let serves_others = others_served_at.is_some_and(|at| now.since(at) < PROOF_HOLDS);
        // A trial ends in any case.
        let spared = serves_others && !self.unproven;
        if spared && failed_elsewhere {
            return false;
        }
        self.failed_callers = self.failed_callers.and(caller);
        let ejects = self.failures + 1 >= settings.eject_after.max(1);
        if spared && ejects && self.failed_callers == FailedCallers::One(caller) {
            return false;
        }
        self.report(Attempt::Failed, cause, settings, now);
        true
    }

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

// === impl FailedCallers ===

impl FailedCallers {
    /// The same with the caller of another failed request.
    fn and(self, caller: CallerHash) -> Self {
        match self {
            Self::None => Self::One(caller),
            Self::One(first) if first == caller => self,
            _ => Self::Several,
        }
    }
}
