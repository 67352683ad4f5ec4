//! How long requests for an unknown model wait for the model lists of backends.
//!
//! A backend whose list is unknown may serve the model. While no list at all is known, requests
//! wait for the first. Beside a known list they wait for a bounded time only: a server that refuses
//! its list, or one that is off, would otherwise make every misspelt name wait.

use flow::{Span, Time};

use super::backend_state::{BackendState, ServedModels};
use super::fleet_state::FleetState;

/// For how long the list of a server that answers, and gives no list, is waited for.
const FAILING_GRACE: Span = Span::from_secs(60);
/// For how long a server that does not answer may load its model.
const SILENT_GRACE: Span = Span::from_secs(900);

// === impl FleetState ===

impl FleetState {
    /// Notes since when each list fails. Returns whether the set of awaited lists has changed since
    /// the catalogue was made.
    pub(super) fn note_lists(&mut self, now: Time) -> bool {
        for backend in self.backends.values_mut() {
            backend.note_list(now);
        }
        let awaits = self.backends.values().any(|backend| backend.is_list_awaited(now));
        awaits != self.catalogue.awaits_lists
    }

    /// When the next list is not waited for any more.
    pub(super) fn next_list_given_up(&self, now: Time) -> Option<Time> {
        let awaited = self.backends.values().filter(|backend| backend.is_list_awaited(now));
        awaited.map(BackendState::list_awaited_until).min()
    }
}

// === impl BackendState ===

impl BackendState {
    fn note_list(&mut self, now: Time) {
        let fails = matches!(self.models, ServedModels::Unknown) && self.list_error.is_some();
        self.list_failing_since = match self.list_failing_since {
            _ if matches!(self.models, ServedModels::Listed(_) | ServedModels::Any) => None,
            None if fails => Some(now),
            since => since,
        };
    }

    /// Whether requests for unknown models wait for its list, also beside other lists.
    pub(super) fn is_list_awaited(&self, now: Time) -> bool {
        matches!(self.models, ServedModels::Unknown) && now < self.list_awaited_until()
    }

    fn list_awaited_until(&self) -> Time {
        let failing = self.list_failing_since.map(|since| since.after(FAILING_GRACE));
        failing.unwrap_or(self.joined.after(SILENT_GRACE))
    }
}
