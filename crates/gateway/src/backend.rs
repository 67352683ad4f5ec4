//! The model servers: their configuration, their health and their models.
//!
//! Requests read an immutable [`Roster`] and take no lock here. The fleet's own task watches the
//! backends, replaces the roster and reports the backends to the scheduler.
//!
//! There are two locks, the fleet's and the scheduler's. No thread holds both. An update is made
//! under the first lock, which gives it a number, and published under the second, which drops an
//! update whose number is older than the last one. So the order of callers does not matter, and no
//! deadlock is possible.

mod backend_state;
mod blame;
mod bounded_get;
mod catalogue;
mod discovery;
mod drain;
mod endpoint;
mod endpoints_file;
mod engine_metrics;
mod fleet_state;
mod health_check;
mod health_state;
mod list_wait;
mod loaded_models;
mod model_ids;
mod model_list;
mod passive_stats;
mod proofs;
mod recent_times;
mod recognition;
mod roster;
mod scrape;
mod self_detection;
mod status;
mod subset;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use blame::FailedRequest;
pub(crate) use catalogue::ModelEntry;
pub(crate) use discovery::{PORTS as LOCAL_PORTS, look};
pub(crate) use endpoint::{Endpoint, EndpointError, EndpointUse};
pub(crate) use endpoints_file::listed_endpoints;
pub(crate) use health_state::{NO_ADDRESS, OWN_GATEWAY};
pub(crate) use passive_stats::BegunRequest;
pub(crate) use proofs::CallerHash;
pub(crate) use recent_times::{RecentTime, RecentTimes};
pub(crate) use roster::{Lookup, Roster};
pub(crate) use self_detection::GatewayIdentity;
pub(crate) use status::{BackendStatus, StateWord};
pub(crate) use subset::{EndpointAddress, SUBSET_ADDRESSES_MAX, SubsetModel};

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::{BackendId, ModelId, Time};
use http::StatusCode;
use tokio::sync::{Notify, Semaphore, watch as broadcast};

use crate::clock::Clock;
use crate::config::settings::{BackendSpec, FleetSettings};
use crate::process_limits::OpenFiles;
use crate::scheduler::Scheduler;
use fleet_state::{FleetState, FleetUpdate};
use subset::Subset;

/// The outcome of one attempt at a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The backend began a response that is not a failure of the backend.
    Answered,
    /// The backend refused the connection.
    Refused,
    /// The attempt failed before the first byte of a response: reset, timeout, 5xx.
    Failed,
    /// The backend begins no response to any request, far beyond its usual time.
    Silent,
    /// The attempt was in flight when another one found the backend silent.
    Withdrawn,
    /// The gateway itself could not connect: it may open no further file.
    NotSent,
    /// The backend reported that it is full (429, 503), with its `Retry-After` if it sent one.
    Full(Option<Duration>),
}

/// All model servers.
#[derive(Debug)]
pub(crate) struct Fleet {
    clock: Clock,
    scheduler: Arc<Scheduler>,
    roster: ArcSwap<Roster>,
    state: Mutex<FleetState>,
    /// The number of the update that was published last. It is used only under the scheduler's
    /// lock.
    published: AtomicU64,
    /// Counts the changes of the set of known models.
    models_changed: broadcast::Sender<u64>,
    /// Wakes the watching task after a change.
    changed: Notify,
    probes: Semaphore,
}

// === impl Fleet ===

impl Fleet {
    /// Creates a fleet from its settings. [`Fleet::watch`] starts the health checks.
    pub(crate) fn new(
        settings: &FleetSettings,
        scheduler: Arc<Scheduler>,
        clock: Clock,
    ) -> Arc<Self> {
        let fleet = Self {
            clock,
            scheduler,
            roster: ArcSwap::default(),
            state: Mutex::default(),
            published: AtomicU64::new(0),
            models_changed: broadcast::Sender::new(0),
            changed: Notify::new(),
            probes: Semaphore::new(OpenFiles::now().probes()),
        };
        fleet.configure(settings);
        Arc::new(fleet)
    }

    /// Applies new settings. A backend with the same name and URL keeps its state. A backend that
    /// is no longer configured gets no new requests and finishes those that it has.
    pub(crate) fn configure(&self, settings: &FleetSettings) {
        self.change(|state, now| state.configure(settings, now));
    }

    /// Replaces the backends that a cluster has; `None` if it has no pool.
    pub(crate) fn set_cluster(&self, specs: Option<Vec<BackendSpec>>) {
        tracing::info!(endpoints = specs.iter().flatten().count(), "endpoints of the cluster");
        self.change(|state, now| state.set_cluster(specs, now));
    }

    /// The present roster.
    pub(crate) fn roster(&self) -> arc_swap::Guard<Arc<Roster>> {
        self.roster.load()
    }

    /// The subset of `model` that only the backends at `addresses` serve. `None` if no backend is
    /// at these addresses, unless requests may wait for a backend of the model.
    pub(crate) fn subset_model(
        &self,
        model: ModelId,
        addresses: &BTreeSet<EndpointAddress>,
    ) -> Option<SubsetModel> {
        let roster = self.roster.load();
        let subset = Subset::of(model, addresses, roster.backends.values());
        if let Some(id) = subset.and_then(|subset| self.subset_id(subset)) {
            return Some(SubsetModel { id, present: true });
        }
        let held = roster.held().any(|id| id == model);
        let subset = Subset::awaiting(model, addresses).filter(|_| held)?;
        Some(SubsetModel { id: self.subset_id(subset)?, present: false })
    }

    /// The id of the subset of `model` that only this backend serves; `None` if there are too many
    /// subsets.
    pub(crate) fn pinned_model(&self, model: ModelId, backend: BackendId) -> Option<ModelId> {
        self.subset_id(Subset::only(model, backend))
    }

    fn subset_id(&self, subset: Subset) -> Option<ModelId> {
        if let Some(&known) = self.roster.load().subsets.get(&subset) {
            return Some(known);
        }
        self.change(|state, now| state.request_subset(subset.clone(), now));
        self.roster.load().subsets.get(&subset).copied()
    }

    /// Changes whenever the set of known models changes. A request that waits for an unknown model
    /// then looks it up again.
    pub(crate) fn models_changed(&self) -> broadcast::Receiver<u64> {
        self.models_changed.subscribe()
    }

    /// Records that a backend answered a request. Takes no lock in the common case.
    pub(crate) fn answered(&self, endpoint: &Endpoint, request: BegunRequest) {
        endpoint.stats.proofs.answered(request);
        if endpoint.stats.has_failures() {
            self.change(|state, now| state.answered(endpoint.id, request.sent, now));
        }
    }

    /// Looks at the status of a response: a backend that answers 403 may refuse every request.
    pub(crate) fn note_status(&self, endpoint: &Endpoint, status: StatusCode) {
        if status == StatusCode::FORBIDDEN {
            self.change(|state, now| state.refused_request(endpoint.id, now));
        }
    }

    /// Records the outcome of an attempt, and why it failed.
    pub(crate) fn report(&self, endpoint: &Endpoint, attempt: Attempt, cause: &str) {
        self.change(|state, now| state.report(endpoint.id, attempt, cause, now));
    }

    /// Records that a response broke off after it had begun, and why.
    pub(crate) fn broke_off(&self, endpoint: &Endpoint, cause: String) {
        self.change(|state, now| state.broke_off(endpoint.id, cause, now));
    }

    /// Records the end of a whole response. Takes no lock in the common case.
    pub(crate) fn completed(&self, endpoint: &Endpoint) {
        if endpoint.stats.has_breaks() {
            self.change(|state, _| state.completed(endpoint.id));
        }
    }

    /// When a backend that has failed may be tried again, if it has to be.
    pub(crate) fn next_trial(&self, endpoint: &Endpoint) -> Option<Time> {
        self.state().backends.get(&endpoint.id)?.health.next_trial()
    }

    /// The status of all backends, for the admin pages.
    pub(crate) fn statuses(&self) -> Vec<BackendStatus> {
        let now = self.clock.now();
        self.state().statuses(now)
    }

    /// Changes the state of the fleet and publishes the result before it returns. The caller must
    /// find its change published, so no other thread may publish it later.
    fn change<T>(&self, act: impl FnOnce(&mut FleetState, Time) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state();
        let outcome = act(&mut state, now);
        let update = state.take_update(now);
        drop(state);
        update.into_iter().for_each(|update| self.publish(update));
        // The next change by time alone may be at another moment now.
        self.changed.notify_one();
        outcome
    }

    /// Publishes the state of the fleet if it has changed.
    fn publish_changes(&self) {
        let now = self.clock.now();
        let update = self.state().take_update(now);
        update.into_iter().for_each(|update| self.publish(update));
    }

    fn publish(&self, update: FleetUpdate) {
        let FleetUpdate { generation, supply, roster, models_changed } = update;
        let was = self.scheduler.with(|controller, now| {
            if self.published.fetch_max(generation, Ordering::Relaxed) >= generation {
                return None;
            }
            // A request that is granted a backend must find it in the roster.
            let was = self.roster.swap(Arc::clone(&roster));
            controller.expect_models(roster.awaited(), now);
            controller.supply(&supply, now);
            Some(was)
        });
        // Dropping the old roster takes a while; the scheduler's lock is already free.
        drop(was);
        if models_changed {
            self.models_changed.send_modify(|count| *count += 1);
        }
    }

    fn state(&self) -> MutexGuard<'_, FleetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
