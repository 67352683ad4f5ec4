//! Gates: how much batch work may be sent now, and why not more (D02 to D06).
//!
//! A gate is a source that reads how free a system is, and a budget that counts requests against
//! the reading (`flow::budget`). All budgets are behind one short lock, so that a request takes
//! from all of its gates or from none. Sources that take time are read by a task each (`poller`),
//! so that no request waits for a reading. `kinds` has the kinds of gates. `settings` has the
//! settings that all kinds share; it is below the configuration, which includes its tables of keys.

mod error;
mod gate_state;
mod kinds;
mod metrics_server;
mod poller;
mod prometheus;
mod reading;
mod rooms;
mod settings;
mod status;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Time;
use flow::budget::{Budget, Refusal, Share, take_all};
use tokio::sync::Notify;

pub(crate) use self::error::GateError;
use self::gate_state::{GateState, amount};
pub(crate) use self::kinds::GateContext;
use self::kinds::Source;
pub(crate) use self::kinds::gateway::{Fullness, LocalScheduler, start_load};
pub(crate) use self::kinds::redis::REDIS_URL;
pub use self::kinds::{
    AimdGate, BudgetGate, ConstantGate, GateKind, GatewayGate, MetricMeaning, QueryGate, RedisGate,
    SaturationGate, ScrapeGate,
};
pub(crate) use self::metrics_server::HTTP_URL;
use self::reading::Reading;
pub(crate) use self::rooms::Rooms;
pub use self::settings::{Capacity, GateSettings, Unit};
pub(crate) use self::settings::{GATES, read, with_defaults};
pub(crate) use self::status::{GateGauge, GateStatus};
use crate::clock::{Clock, span};

/// All gates of this process.
#[derive(Debug)]
pub(crate) struct Gates {
    clock: Clock,
    settings: Vec<GateSettings>,
    sources: Vec<Source>,
    /// In the same order.
    states: Mutex<Vec<GateState>>,
    /// Notified when a gate may have opened.
    opened: Notify,
    /// Notified when a request was refused: some sources are then read more often.
    refused: Notify,
    /// Notified when a gate was latched, or pauses.
    latched: Notify,
}

/// The gates of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateSet(Arc<[usize]>);

/// A gate whose number several dispatchers may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedGate {
    at: usize,
    /// The names of the groups of dispatchers that share the number.
    pub(crate) groups: Vec<String>,
}

/// The permission to send one request, held until the request ends.
#[derive(Debug)]
pub(crate) struct GatePermit {
    gates: Arc<Gates>,
    set: GateSet,
    size: RequestSize,
    sent: Time,
}

/// The size of a request in the units of budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestSize {
    pub(crate) bytes: u64,
    /// Of the prompt and of the expected output.
    pub(crate) tokens: u64,
}

/// Why a request may not be sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GateClosed {
    /// The gate that refuses it.
    pub(crate) gate: String,
    /// The state of the gate.
    pub(crate) why: String,
}

// === impl Gates ===

impl Gates {
    /// Opens all gates.
    pub(crate) fn new(
        settings: &[GateSettings],
        context: &GateContext,
    ) -> Result<Arc<Self>, GateError> {
        let (mut sources, mut states) = (Vec::new(), Vec::new());
        for gate in settings {
            let failed = |source| GateError::Setup { gate: gate.name.clone(), source };
            gate.check().map_err(failed)?;
            let mut open = gate.kind.as_kind().open(gate, context).map_err(failed)?;
            sources.push(std::mem::replace(&mut open.source, Source::Responses));
            states.push(GateState::new(gate, open).map_err(failed)?);
        }
        Ok(Arc::new(Self {
            clock: context.clock,
            settings: settings.to_vec(),
            sources,
            states: Mutex::new(states),
            opened: Notify::new(),
            refused: Notify::new(),
            latched: Notify::new(),
        }))
    }

    /// The gates with these names.
    pub(crate) fn named(&self, names: &[String]) -> Result<GateSet, GateError> {
        let mut set = Vec::with_capacity(names.len());
        for name in names {
            let at = self.settings.iter().position(|gate| gate.name == *name);
            set.push(at.ok_or_else(|| self.unknown(name))?);
        }
        set.sort_unstable();
        set.dedup();
        Ok(GateSet(set.into()))
    }

    fn unknown(&self, name: &str) -> GateError {
        let known = self.settings.iter().map(|gate| gate.name.clone()).collect();
        GateError::Unknown { gate: name.to_owned(), known }
    }

    /// Whether a gate of the set counts tokens.
    pub(crate) fn counts_tokens(&self, set: &GateSet) -> bool {
        set.0.iter().any(|&at| self.settings[at].unit == Unit::Tokens)
    }

    /// Takes a request from the budgets of all gates in the set, or from none.
    pub(crate) fn try_acquire(
        self: &Arc<Self>,
        set: &GateSet,
        size: RequestSize,
    ) -> Result<GatePermit, GateClosed> {
        let now = self.clock.now();
        let mut states = self.refreshed(set, now);
        let taken = self.take_from(&mut states, set, size, now);
        drop(states);
        match taken {
            Ok(()) => {
                self.latched.notify_one();
                let (gates, set) = (Arc::clone(self), set.clone());
                Ok(GatePermit { gates, set, size, sent: now })
            }
            Err((at, why)) => {
                self.states()[at].has_refused = true;
                self.refused.notify_waiters();
                Err(GateClosed { gate: self.settings[at].name.clone(), why })
            }
        }
    }

    /// Takes from all gates of a set, or returns the gate that refuses and its state.
    fn take_from(
        &self,
        states: &mut [GateState],
        set: &GateSet,
        size: RequestSize,
        now: Time,
    ) -> Result<(), (usize, String)> {
        let held_back = |&at: &usize| states[at].held_back(now).map(|why| (at, why));
        if let Some(closed) = set.0.iter().find_map(held_back) {
            return Err(closed);
        }
        let ours = states.iter_mut().enumerate().filter(|(at, _)| set.0.contains(at));
        let mut budgets: Vec<(&mut Budget, u64)> =
            ours.map(|(at, state)| (&mut state.budget, self.amount(at, size))).collect();
        take_all(&mut budgets, now).map_err(|(place, why)| {
            let at = set.0[place];
            (at, states[at].describe(&self.settings[at], why))
        })?;
        set.0.iter().for_each(|&at| states[at].begins(now));
        Ok(())
    }

    /// The gates whose numbers other dispatchers may use too, with the groups of dispatchers that
    /// share each number. A gate that measures a system is shared by all that read this system. A
    /// number that only a configuration or an operator states is for the queues behind the gate.
    pub(crate) fn groups(&self, queues: &[(&str, &GateSet)]) -> Vec<SharedGate> {
        let states = self.states();
        let group = |at: usize| {
            let name = &self.settings[at].name;
            let users = queues.iter().filter(|(_, set)| set.0.contains(&at));
            let users = users.map(|(queue, _)| format!("{name}:{queue}")).collect::<Vec<_>>();
            match states[at].measured_system() {
                Some(system) if !users.is_empty() => vec![system],
                _ => users,
            }
        };
        let shared = (0..states.len()).filter(|&at| self.sources[at].is_shared());
        let all = shared.map(|at| SharedGate { at, groups: group(at) });
        all.filter(|gate| !gate.groups.is_empty()).collect()
    }

    /// Sets the share of this dispatcher in a gate's number, among `of` dispatchers.
    pub(crate) fn share(&self, gate: &SharedGate, rank: u32, of: u32) {
        self.states()[gate.at].budget.share(Share::new(rank, of));
        self.open();
    }

    /// The values of all gates for the metrics.
    pub(crate) fn gauges(&self) -> Vec<GateGauge> {
        self.status().iter().map(GateStatus::gauge).collect()
    }

    /// The status of all gates.
    pub(crate) fn status(&self) -> Vec<GateStatus> {
        let now = self.clock.now();
        let states = self.refreshed(&GateSet((0..self.settings.len()).collect()), now);
        let all = self.settings.iter().zip(states.iter());
        all.map(|(settings, state)| state.status(settings, now)).collect()
    }

    /// Resolves when a gate may have opened since the last call: after a reading, the end of a
    /// latch or the end of a request. It may resolve for no reason.
    pub(crate) async fn changed(&self) {
        self.opened.notified().await;
    }

    fn states(&self) -> MutexGuard<'_, Vec<GateState>> {
        // A panic under the lock is a fault of one request; budgets check their own arguments.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states of all gates. Those of the set are up to date, if their source takes no time.
    fn refreshed(&self, set: &GateSet, now: Time) -> MutexGuard<'_, Vec<GateState>> {
        let mut states = self.states();
        set.0.iter().for_each(|&at| self.refresh(at, &mut states[at], now));
        states
    }

    fn refresh(&self, at: usize, state: &mut GateState, now: Time) {
        match &self.sources[at] {
            Source::Fixed { free, capacity } => {
                state.accept(Reading::instant(*free, *capacity, now));
            }
            Source::Responses => state.read_window(now),
            Source::Local(local) => {
                let Some(start_limiter) = &mut state.start_limiter else { return };
                match local.start_load() {
                    Some(seen) => start_limiter.observe(seen, now),
                    None => start_limiter.reset(),
                }
            }
            Source::Polled(_) => {}
        }
    }

    fn amount(&self, at: usize, size: RequestSize) -> u64 {
        amount(self.settings[at].unit, size)
    }
}

// === impl GateSet ===

impl GateSet {
    /// Whether a request through one of the sets may take what the other one needs.
    pub(crate) fn shares(&self, other: &Self) -> bool {
        self.0.iter().any(|at| other.0.contains(at))
    }
}

// === impl GatePermit ===

impl GatePermit {
    /// Records that the target was overloaded, perhaps with a delay before a retry.
    pub(crate) fn congested(&self, retry_after: Option<Duration>) {
        let now = self.gates.clock.now();
        let mut states = self.gates.states();
        for &at in &*self.set.0 {
            let (size, retry_after) = (self.gates.amount(at, self.size), retry_after.map(span));
            states[at].congested(Refusal { size, sent: self.sent, retry_after }, now);
        }
        drop(states);
        self.gates.latched.notify_one();
    }

    /// Records the prompt tokens of the request, which is being sent.
    pub(crate) fn prompt_size(&self, tokens: u64) {
        let now = self.gates.clock.now();
        let mut states = self.gates.states();
        self.set.0.iter().for_each(|&at| states[at].prompt_size(tokens, now));
        drop(states);
        self.gates.latched.notify_one();
    }

    /// Records a good response.
    pub(crate) fn succeeded(&self) {
        let mut states = self.gates.states();
        self.set.0.iter().for_each(|&at| states[at].succeeded());
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        let now = self.gates.clock.now();
        let mut states = self.gates.states();
        for &at in &*self.set.0 {
            states[at].budget.ended(self.gates.amount(at, self.size), now);
        }
        drop(states);
        self.gates.open();
    }
}

// === impl GateClosed ===

impl std::fmt::Display for GateClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "gate {:?} is {}", self.gate, self.why)
    }
}
