//! Backends that get no new requests, but finish those that they have: an operator drains them, or
//! their source says that they are about to end.

use std::collections::BTreeMap;

use flow::BackendId;

use super::backend_state::BackendState;
use super::fleet_state::FleetState;
use super::{Fleet, StateWord};
use crate::config::settings::DrainCause;

/// The backends that operators drain, by name. A backend that leaves is forgotten.
#[derive(Debug, Default)]
pub(super) struct Drains {
    /// Whether the log has said that it is drained.
    by_operator: BTreeMap<String, bool>,
}

/// A backend that was drained, or is served again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrainState {
    pub(crate) backend: BackendId,
    pub(crate) id: String,
    pub(crate) state: StateWord,
}

// === impl Fleet ===

impl Fleet {
    /// Stops new requests to the backend with this name, or allows them again. `None` if there is
    /// no such backend.
    pub(crate) fn drain(&self, name: &str, drained: bool) -> Option<DrainState> {
        self.change(|state, _| state.drain(name, drained))?;
        let statuses = self.statuses();
        let status = statuses.into_iter().find(|status| status.id == name)?;
        Some(DrainState { backend: status.backend, id: status.id, state: status.state })
    }
}

// === impl FleetState ===

impl FleetState {
    pub(super) fn drain(&mut self, name: &str, drained: bool) -> Option<()> {
        self.backends.values().find(|backend| backend.spec.id == name)?;
        let was = match drained {
            true => self.drains.by_operator.insert(name.to_owned(), false).is_some(),
            false => self.drains.by_operator.remove(name).is_some(),
        };
        match (was, drained) {
            (false, true) => tracing::info!(backend = %name, "an operator drains the backend"),
            (true, false) => tracing::info!(backend = %name, "the backend is drained no longer"),
            _ => {}
        }
        Some(())
    }

    /// Logs that the source of a backend has changed whether it takes requests.
    pub(super) fn log_source_drain(backend: &BackendState, next: Option<DrainCause>) {
        let name = &backend.spec.id;
        match (backend.spec.drain, next) {
            (was, Some(cause)) if was != next => {
                tracing::info!(backend = %name, %cause, "the backend gets no new requests");
            }
            (Some(_), None) => {
                tracing::info!(backend = %name, "Kubernetes reports the backend as ready again");
            }
            _ => {}
        }
    }

    /// Forgets the drain of a backend that has left.
    pub(super) fn forget_drain(&mut self, name: &str) {
        // A backend that moves to another address joins before it leaves.
        if !self.backends.values().any(|other| other.spec.id == name) {
            self.drains.by_operator.remove(name);
        }
    }

    /// Why a backend gets no new requests, if it is drained.
    pub(super) fn drain_of(&self, backend: &BackendState) -> Option<DrainCause> {
        let by_operator = self.drains.by_operator.contains_key(&backend.spec.id);
        by_operator.then_some(DrainCause::Operator).or(backend.spec.drain)
    }

    /// Says once that no request is left at a backend that an operator drains.
    pub(super) fn log_drained(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get(&id) else { return };
        let name = &backend.spec.id;
        if backend.endpoint.is_in_use() {
            return;
        }
        if let Some(said @ false) = self.drains.by_operator.get_mut(name) {
            *said = true;
            tracing::info!(backend = %name, "drained: the backend has no request any more");
        }
    }
}
