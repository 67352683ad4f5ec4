//! Whether a failure is the fault of the request or of the backend.
//!
//! A backend that has failed others since it last answered is at fault. One that has failed this
//! request alone may still be: there is no proof before it has answered a request for the same
//! model that was sent after the failure. A health check is no such proof, because a server may
//! pass its checks and fail every request. A server that was down and is back counts as proof: a
//! request that fails there again may be what ends it.

use flow::{BackendId, ModelId, Time};

use super::Fleet;
use super::endpoint::Endpoint;
use super::fleet_state::FleetState;
use super::health_state::Suspicion;
use super::proofs::CallerHash;

/// A request that a backend has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedRequest {
    pub(crate) model: ModelId,
    pub(crate) caller: CallerHash,
    /// Whether this backend, and whether any other one failed it before.
    pub(crate) repeated: bool,
    pub(crate) failed_elsewhere: bool,
}

// === impl Fleet ===

impl Fleet {
    /// The present moment, if a request that a backend failed may be the cause: the backend has
    /// failed no other since it last answered one, and has served others since `last`, when the
    /// request was last the cause.
    pub(crate) fn failed_alone(
        &self,
        endpoint: &Endpoint,
        request: &FailedRequest,
        last: Option<Time>,
    ) -> Option<Time> {
        let now = self.clock.now();
        let state = self.state();
        let health = &state.backends.get(&endpoint.id)?.health;
        let (proofs, own) = (&endpoint.stats.proofs, u32::from(request.repeated));
        let fails_others = health.fails_others(own) || proofs.fails_others(request.model, own);
        let serves_others =
            |last| proofs.has_answered_since(request.model, last) || health.is_back_since(last);
        (!fails_others && last.is_none_or(serves_others)).then_some(now)
    }

    /// Records that a backend failed a request, and why. Returns whether that counts against it.
    pub(crate) fn failed(&self, endpoint: &Endpoint, request: &FailedRequest, cause: &str) -> bool {
        let proofs = &endpoint.stats.proofs;
        if !request.repeated {
            proofs.failed(request.model);
        }
        let suspicion = Suspicion {
            caller: request.caller,
            others_served_at: match request.failed_elsewhere {
                true => proofs.served_at(),
                false => proofs.served_others_at(request.caller),
            },
            failed_elsewhere: request.failed_elsewhere,
        };
        self.change(|state, now| state.failed(endpoint.id, &suspicion, cause, now))
    }

    /// Takes back the reported failures of a request that caused them itself.
    pub(crate) fn forgive(&self, backends: &[BackendId], model: ModelId) {
        self.change(|state, _| backends.iter().for_each(|&id| state.forgive(id, model)));
    }
}

// === impl FleetState ===

impl FleetState {
    fn failed(&mut self, id: BackendId, suspicion: &Suspicion, cause: &str, now: Time) -> bool {
        let settings = self.health_settings();
        let Some(backend) = self.backends.get_mut(&id) else { return true };
        let counts = backend.health.failed_for(suspicion, cause, &settings, now);
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
        counts
    }

    fn forgive(&mut self, id: BackendId, model: ModelId) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.forgive();
        backend.endpoint.stats.proofs.forgive(model);
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
    }
}
