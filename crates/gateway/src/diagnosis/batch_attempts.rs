//! What the attempts of a batch queue brought: counts that grow, or those of a time.

use std::collections::BTreeMap;

use serde::Serialize;

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BatchAttempts {
    /// Attempts that brought what was asked for.
    pub(crate) served: u64,
    /// The others, by reason.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Messages that became dead letters.
    pub(crate) dead: u64,
}

// === impl BatchAttempts ===

impl BatchAttempts {
    /// Those that were counted after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = |(reason, count): (&String, &u64)| {
            let old = before.failed.get(reason).copied().unwrap_or(0);
            Some((reason.clone(), count.saturating_sub(old))).filter(|(_, new)| *new > 0)
        };
        Self {
            served: self.served.saturating_sub(before.served),
            failed: self.failed.iter().filter_map(new).collect(),
            dead: self.dead.saturating_sub(before.dead),
        }
    }

    pub(super) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}
