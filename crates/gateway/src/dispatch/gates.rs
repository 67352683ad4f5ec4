//! The gates: how much batch work may go now, and why not more (D02 to D06).
//!
//! Each gate is a source that says how free a system is and a budget that counts it out
//! (`flow::budget`). All budgets are behind one short lock, so that a request takes from all of its
//! gates or from none. Sources that take time are read by a task each; nobody waits for them.

mod fetch;
mod gate_state;
mod local_load;
mod poller;
mod prometheus;
mod promql;
mod reading;
mod redis;
mod scrape;
mod source;
mod status;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Time;
use flow::budget::{Budget, Share, take_all};
use tokio::sync::Notify;

use crate::clock::{Clock, span};
use crate::config::resolved::dispatch::Gate as GateSettings;
use crate::observe::dispatch::GateGauge;
use crate::state::State;
use crate::upstream::client::Client;

use gate_state::GateState;
use source::{GateContext, Source};

pub(crate) use status::GateStatus;

/// All gates of this process.
#[derive(Debug)]
pub(crate) struct Gates {
    clock: Clock,
    settings: Vec<GateSettings>,
    sources: Vec<Source>,
    /// In the same order.
    states: Mutex<Vec<GateState>>,
    /// Something may have opened.
    opened: Notify,
    /// Somebody was turned away: whoever looks more often then hears it.
    refused: Notify,
    /// A gate was latched, or rests.
    latched: Notify,
}

/// The gates of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateSet(Arc<[usize]>);

/// Leave for one request, for as long as it lives.
#[derive(Debug)]
pub(crate) struct GatePermit {
    gates: Arc<Gates>,
    set: GateSet,
    bytes: u64,
    sent: Time,
}

/// Why nothing may go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closed {
    /// The gate that does not let it.
    pub(crate) gate: String,
    /// In words.
    pub(crate) why: String,
}

// === impl Gates ===

impl Gates {
    /// Makes them all. What is wrong with one is said with its name.
    pub(crate) fn new(
        settings: &[GateSettings],
        local: Option<Arc<State>>,
        clock: Clock,
        client: Arc<Client>,
    ) -> Result<Arc<Self>, String> {
        let parts = GateContext { local, clock, client };
        let (mut sources, mut states) = (Vec::new(), Vec::new());
        for settings in settings {
            let made = source::made(settings, &parts);
            let (source, gate) = made.map_err(|why| format!("gate {:?}: {why}", settings.name))?;
            sources.push(source);
            states.push(gate);
        }
        Ok(Arc::new(Self {
            clock,
            settings: settings.to_vec(),
            sources,
            states: Mutex::new(states),
            opened: Notify::new(),
            refused: Notify::new(),
            latched: Notify::new(),
        }))
    }

    /// The gates with these names, all of which must let a request go.
    pub(crate) fn named(&self, names: &[String]) -> Result<GateSet, String> {
        let mut set = Vec::with_capacity(names.len());
        for name in names {
            let at = self.settings.iter().position(|settings| settings.name == *name);
            set.push(at.ok_or_else(|| self.unknown(name))?);
        }
        set.sort_unstable();
        set.dedup();
        Ok(GateSet(set.into()))
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> =
            self.settings.iter().map(|settings| settings.name.as_str()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        format!("there is no gate {name:?}; there are: {known}")
    }

    /// How many requests may go now. Where sizes count, 1 if something may go.
    pub(crate) fn room(&self, set: &GateSet) -> u64 {
        let now = self.clock.now();
        let mut states = self.refreshed(set, now);
        let left = |&at: &usize| {
            let room = states[at].room(now);
            states[at].wanted |= room == 0;
            if self.counts_sizes(at) { room.min(1) } else { room }
        };
        let room = set.0.iter().map(left).min().unwrap_or(u64::MAX);
        drop(states);
        if room == 0 {
            self.refused.notify_waiters();
        }
        room
    }

    /// Lets one request of so many bytes go, if all of its gates do.
    pub(crate) fn take(self: &Arc<Self>, set: &GateSet, bytes: u64) -> Result<GatePermit, Closed> {
        let now = self.clock.now();
        let mut states = self.refreshed(set, now);
        let taken = self.take_from(&mut states, set, bytes, now);
        drop(states);
        match taken {
            Ok(()) => {
                self.latched.notify_one();
                let (gates, set) = (Arc::clone(self), set.clone());
                Ok(GatePermit { gates, set, bytes, sent: now })
            }
            Err((at, why)) => {
                self.states()[at].wanted = true;
                self.refused.notify_waiters();
                Err(Closed { gate: self.settings[at].name.clone(), why })
            }
        }
    }

    /// Takes from all of a way's gates, or says which one does not let it and why.
    fn take_from(
        &self,
        states: &mut [GateState],
        set: &GateSet,
        bytes: u64,
        now: Time,
    ) -> Result<(), (usize, String)> {
        let held_back = |&at: &usize| states[at].held_back(now).map(|why| (at, why));
        if let Some(closed) = set.0.iter().find_map(held_back) {
            return Err(closed);
        }
        let ours = states.iter_mut().enumerate().filter(|(at, _)| set.0.contains(at));
        let mut budgets: Vec<(&mut Budget, u64)> =
            ours.map(|(at, gate)| (&mut gate.budget, self.size(at, bytes))).collect();
        take_all(&mut budgets, now).map_err(|(place, why)| {
            let at = set.0[place];
            (at, states[at].describe(&self.settings[at], why))
        })?;
        set.0.iter().for_each(|&at| states[at].begins(now));
        Ok(())
    }

    /// What those call themselves together who look at the same systems: gates of the same names.
    pub(crate) fn group(&self) -> String {
        let names: Vec<&str> =
            self.settings.iter().map(|settings| settings.name.as_str()).collect();
        names.join(",")
    }

    /// From now on this dispatcher is one of so many that look at the same systems. What it sees
    /// from inside, and the answers to its own requests, are its alone.
    pub(crate) fn share(&self, rank: u32, of: u32) {
        let share = Share::new(rank, of);
        for (gate, source) in self.states().iter_mut().zip(&self.sources) {
            if matches!(source, Source::Constant(..) | Source::Remote(_)) {
                gate.budget.share(share);
            }
        }
        self.open();
    }

    /// How each gate stands, for the metrics.
    pub(crate) fn gauges(&self) -> Vec<GateGauge> {
        self.status().iter().map(GateStatus::gauge).collect()
    }

    /// What every gate sees and makes of it.
    pub(crate) fn status(&self) -> Vec<GateStatus> {
        let now = self.clock.now();
        let states = self.refreshed(&GateSet((0..self.settings.len()).collect()), now);
        self.settings
            .iter()
            .zip(states.iter())
            .map(|(settings, gate)| gate.status(settings, now))
            .collect()
    }

    /// Resolves when something may have opened since it was last asked: a reading, the end of a
    /// latch, the end of a request. It may resolve for no reason.
    pub(crate) async fn changed(&self) {
        self.opened.notified().await;
    }

    fn states(&self) -> MutexGuard<'_, Vec<GateState>> {
        // A panic under the lock is a fault of one request; budgets check their own arguments.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The books, with those up to date that need no look.
    fn refreshed(&self, set: &GateSet, now: Time) -> MutexGuard<'_, Vec<GateState>> {
        let mut states = self.states();
        set.0.iter().for_each(|&at| self.refresh(at, &mut states[at], now));
        states
    }

    fn refresh(&self, at: usize, gate: &mut GateState, now: Time) {
        match &self.sources[at] {
            Source::Constant(free, system) => gate.accept(source::steady(*free, *system, now)),
            Source::Answers => gate.read_window(now),
            Source::LocalLoad(local) => {
                let Some(start_limiter) = &mut gate.start_limiter else { return };
                match local.start_load() {
                    Some(seen) => start_limiter.observe(seen, now),
                    None => start_limiter.reset(),
                }
            }
            Source::Remote(_) => {}
        }
    }

    fn counts_sizes(&self, at: usize) -> bool {
        gate_state::size(self.settings[at].unit, u64::MAX) > 1
    }

    fn size(&self, at: usize, bytes: u64) -> u64 {
        gate_state::size(self.settings[at].unit, bytes)
    }
}

// === impl GatePermit ===

impl GatePermit {
    /// The gateway said that it is full, perhaps until when.
    pub(crate) fn congested(&self, retry_after: Option<Duration>) {
        let now = self.gates.clock.now();
        let mut states = self.gates.states();
        for &at in &*self.set.0 {
            states[at].congested(self.sent, retry_after.map(span), now);
        }
        drop(states);
        self.gates.latched.notify_one();
    }

    /// It is sent, with a prompt of so many tokens.
    pub(crate) fn prompt_size(&self, prompt: u64) {
        let now = self.gates.clock.now();
        let mut states = self.gates.states();
        self.set.0.iter().for_each(|&at| states[at].prompt_size(prompt, now));
        drop(states);
        self.gates.latched.notify_one();
    }

    /// The gateway answered well.
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
            states[at].budget.ended(self.gates.size(at, self.bytes), now);
        }
        drop(states);
        self.gates.open();
    }
}

// === impl Closed ===

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "gate {:?} is {}", self.gate, self.why)
    }
}
