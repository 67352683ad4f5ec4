//! The model servers: which there are, what they serve, how they are.
//!
//! Requests see an immutable [`Roster`]; nothing on their way takes a lock here. The fleet's own
//! task watches the servers, replaces the roster and tells the scheduler what there is.
//!
//! There are two locks, the fleet's and the scheduler's, and they are never held together: what is to
//! be told is made under the first, numbered, and told under the second, where an older number than
//! the last is dropped. So it does not matter who calls whom, and nothing can lock up.

mod backend_state;
mod catalogue;
mod discovery;
mod endpoints_file;
mod engine_metrics;
mod fleet_state;
mod health;
mod model_ids;
mod model_list;
mod passive_stats;
mod probe;
mod roster;
mod scrape;
mod self_detection;
mod status;
mod subset;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use catalogue::ModelEntry;
pub(crate) use roster::{Lookup, Roster, Upstream};
pub(crate) use self_detection::GatewayIdentity;
pub(crate) use status::BackendStatus;
pub(crate) use subset::{EndpointAddress, SUBSET_ADDRESSES_MAX};

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::{ModelId, Time};
use tokio::sync::{Notify, Semaphore, watch as broadcast};

use crate::clock::Clock;
use crate::config::resolved::FleetSettings;
use crate::scheduler::Scheduler;
use fleet_state::{FleetState, FleetUpdate};
use subset::Subset;

/// Checks and scrapes that may be under way at once.
const PROBES_MAX: usize = 64;

/// How one attempt at a backend went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It began an answer that is no fault of its own.
    Answered,
    /// It is not there: the connection was refused.
    Refused,
    /// It failed before the first byte of an answer: reset, timeout, 5xx.
    Failed,
    /// It said that it is full (429, 503), perhaps until when.
    Full(Option<Duration>),
}

/// All model servers.
#[derive(Debug)]
pub(crate) struct Fleet {
    clock: Clock,
    scheduler: Arc<Scheduler>,
    roster: ArcSwap<Roster>,
    state: Mutex<FleetState>,
    /// The number of what was last told; only touched under the scheduler's lock.
    published: AtomicU64,
    /// Counts how often the set of known models has changed.
    models_changed: broadcast::Sender<u64>,
    /// Tells the watching task that there is something to look at.
    changed: Notify,
    probes: Semaphore,
}

// === impl Fleet ===

impl Fleet {
    /// A fleet of which nothing is known but its settings. [`Fleet::watch`] brings it to life.
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
            probes: Semaphore::new(PROBES_MAX),
        };
        fleet.configure(settings);
        Arc::new(fleet)
    }

    /// The settings are now these. A backend with the same name and URL stays who it is; one that
    /// is named no more gets nothing new, and ends what it has.
    pub(crate) fn configure(&self, settings: &FleetSettings) {
        self.change(|state, now| state.configure(settings, now));
    }

    /// What there is now.
    pub(crate) fn roster(&self) -> arc_swap::Guard<Arc<Roster>> {
        self.roster.load()
    }

    /// The number that a model has where only some spots may serve it; nothing where none does.
    pub(crate) fn subset_model(
        &self,
        model: ModelId,
        addresses: &BTreeSet<EndpointAddress>,
    ) -> Option<ModelId> {
        let roster = self.roster.load();
        let subset = Subset::of(model, addresses, roster.backends.values())?;
        if let Some(&known) = roster.subsets.get(&subset) {
            return Some(known);
        }
        self.change(|state, now| state.request_subset(subset.clone(), now));
        self.roster.load().subsets.get(&subset).copied()
    }

    /// Changes whenever other models are known: who waits for one should look again.
    pub(crate) fn models_changed(&self) -> broadcast::Receiver<u64> {
        self.models_changed.subscribe()
    }

    /// Takes note of how an attempt went. `Answered` is the common case and costs next to nothing.
    pub(crate) fn report(&self, upstream: &Upstream, attempt: Attempt) {
        if attempt == Attempt::Answered && !upstream.stats.has_failures() {
            return;
        }
        self.change(|state, now| state.report(upstream.id, attempt, now));
    }

    /// All backends as a person is shown them.
    pub(crate) fn statuses(&self) -> Vec<BackendStatus> {
        let now = self.clock.now();
        self.state().statuses(now)
    }

    /// Changes the fleet's state, and tells whatever follows. Both under one lock: whoever changed
    /// something must find it told, not on its way in other hands.
    fn change<T>(&self, act: impl FnOnce(&mut FleetState, Time) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state();
        let outcome = act(&mut state, now);
        let update = state.take_update(now);
        drop(state);
        update.into_iter().for_each(|update| self.publish(update));
        // What changes next by time alone may be another moment now.
        self.changed.notify_one();
        outcome
    }

    /// Tells what follows from the fleet's state, if anything is new.
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
            // Whoever is granted a backend must find it.
            let was = self.roster.swap(roster);
            controller.supply(&supply, now);
            Some(was)
        });
        // Freeing it takes a while, which the scheduler need not wait for.
        drop(was);
        if models_changed {
            self.models_changed.send_modify(|count| *count += 1);
        }
    }

    fn state(&self) -> MutexGuard<'_, FleetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
