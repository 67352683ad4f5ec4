//! Whether a failure is the fault of the request or of the backend.
//!
//! A backend that has failed others since it last answered is at fault. One that has failed this
//! request alone may still be: there is no proof before it has answered a request that was sent
//! after the failure. A health check is no such proof, because a server may pass its checks and
//! fail every request. A server that was down and is back counts as proof: a request that fails
//! there again may be what ends it.

use flow::{BackendId, Time};

use super::Fleet;
use super::endpoint::Endpoint;
use super::fleet_state::FleetState;

// === impl Fleet ===

impl Fleet {
    /// The present moment, if a request that a backend failed may be the cause: the backend has
    /// failed no other since it last answered one, and has served others since `last`, when the
    /// request was last the cause. `repeated` says whether the backend failed it before.
    pub(crate) fn failed_alone(
        &self,
        endpoint: &Endpoint,
        repeated: bool,
        last: Option<Time>,
    ) -> Option<Time> {
        let now = self.clock.now();
        let state = self.state();
        let health = &state.backends.get(&endpoint.id)?.health;
        let serves_others =
            |last| endpoint.stats.has_answered_since(last) || health.is_back_since(last);
        let alone = !health.fails_others(u32::from(repeated)) && last.is_none_or(serves_others);
        alone.then_some(now)
    }

    /// Takes back the reported failures of a request that caused them itself.
    pub(crate) fn forgive(&self, backends: &[BackendId]) {
        self.change(|state, _| backends.iter().for_each(|&id| state.forgive(id)));
    }
}

// === impl FleetState ===

impl FleetState {
    fn forgive(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.forgive();
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
    }
}
