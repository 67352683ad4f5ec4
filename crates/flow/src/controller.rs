//! The controller: the owner of all flow state. Each verb changes the state and returns a value.
//!
//! Each phase of an ask's life has a file: `admit` (offer to queue), `dispatch` (queue to backend),
//! `progress` (at the backend), `complete` (backend to end), `evict` (queue to end, without a
//! grant). `eligibility` decides which flow queues take part in their fair queues, `routing`
//! chooses the backend, `prompts` keeps what backends have cached, `slack` lets an ask go first
//! where its prompt is cached, `reservation` keeps places free, `reconfigure` rebuilds the queue
//! when sets of backends or settings change, `objective` says how long a waiting ask is fresh,
//! `forecast` predicts waits, `demand` says what arrives and what a backend carries, `retry_after`
//! says when a refused client should retry, and `view` reports the state.

mod admit;
mod complete;
mod delays;
mod demand;
mod dispatch;
mod eligibility;
mod evict;
pub(crate) mod forecast;
mod models;
mod objective;
mod progress;
pub(crate) mod prompts;
mod reconfigure;
mod reservation;
pub(crate) mod retry_after;
mod routing;
mod slack;
pub(crate) mod view;
mod warm;

use std::collections::{BTreeMap, VecDeque};

use crate::ask::{BANDS, FlowId, WorkloadId};
use crate::auto_watermark::AskProgress;
use crate::capacity::Capacity;
use crate::counters::Counters;
use crate::demand::DemandMeter;
use crate::drain_rate::DrainRate;
use crate::flows::Flows;
use crate::identity::NAME_MAX;
use crate::outcome::Event;
use crate::queue::asks::Asks;
use crate::queue::fair_queue::FairQueue;
use crate::queue::flow_queue::{FlowQueue, FlowQueues};
use crate::queue::heap::Positions;
use crate::queue::hierarchy::Level;
use crate::queue::timing_wheel::TimingWheel;
use crate::queue::warm_asks::WarmAsks;
use crate::reserve::Reserve;
use crate::route::{RouteChoice, RoutePreference};
use crate::settings::Settings;
use crate::start_time::StartTime;
use crate::supply::Supply;
use crate::time::Time;
use crate::workload::Registry;
use prompts::AskPrompt;

/// The flow of every ask that names none.
const ANONYMOUS: &str = "-";

/// The owner of all flow state. Each verb changes the state and returns a value.
///
/// | verb | meaning |
/// |---|---|
/// | [`Controller::flow`], [`Controller::workload`] | intern a name |
/// | [`Controller::offer`] | a new ask: it is granted, queued or refused |
/// | [`Controller::offer_prompt`] | the same, with its prompt |
/// | [`Controller::started`] | an ask in flight has produced its first token |
/// | [`Controller::streamed`] | its stream has produced this many tokens |
/// | [`Controller::charge`] | its stream has exceeded the estimated cost |
/// | [`Controller::cached`] | its response says how much of the prompt was cached |
/// | [`Controller::settle`] | an ask in flight has ended, with its actual cost |
/// | [`Controller::cancel`] | the client has left; the ask waits or is in flight |
/// | [`Controller::requeue`] | the backend failed the ask, which waits again |
/// | [`Controller::supply`] | the new list of backends |
/// | [`Controller::reading`] | new metrics of a backend's engine |
/// | [`Controller::loaded`] | the models that a backend has loaded |
/// | [`Controller::configure`] | the new settings |
/// | [`Controller::wake`] at [`Controller::next_wake`] | time has passed |
/// | [`Controller::close`] | shutdown: every waiting ask is evicted |
/// | [`Controller::poll_event`] | the fate of a waiting ask: granted or evicted |
///
/// Times may come in any order; the latest time seen counts. `docs/FLOW.md` defines what each verb
/// decides, and why.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) settings: Settings,
    /// The latest time seen. It never runs backwards, even if the caller's clock does.
    pub(crate) clock: Time,
    pub(crate) closed: bool,
    pub(crate) sequence: u64,
    pub(crate) asks: Asks,
    /// Under `auto`, the progress of each ask in flight, by slot.
    pub(crate) progress: Vec<AskProgress>,
    /// The route preferences of the asks that have one, by slot.
    pub(crate) preferences: BTreeMap<u32, RoutePreference>,
    /// When the asks that were re-queued at the back arrived first, by slot.
    pub(crate) first_arrivals: BTreeMap<u32, Time>,
    /// Why each ask in flight went to its backend, by slot, if there was a choice.
    pub(crate) choices: Vec<Option<RouteChoice>>,
    /// The prompts of live asks, by slot, if prefix caches count.
    pub(crate) prompts: Vec<AskPrompt>,
    /// The waiting asks whose prompts are cached, if the order inside a flow gives way to that.
    pub(crate) warm: WarmAsks,
    pub(crate) flows: Flows,
    pub(crate) flow_queues: FlowQueues,
    /// The position of each active flow queue in the heap of its fair queue.
    pub(crate) positions: Positions,
    pub(crate) supply: Supply,
    /// By pool, then by band.
    pub(crate) fair_queues: Vec<[FairQueue; BANDS]>,
    /// The reserved places, by pool.
    pub(crate) reserves: Vec<Reserve>,
    pub(crate) domains: Vec<Domain>,
    /// Whether bands or pools are chosen by weight, so that the levels must be kept.
    pub(crate) hierarchical: bool,
    pub(crate) capacity: Capacity,
    pub(crate) wheel: TimingWheel,
    pub(crate) registry: Registry,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
    /// When asks that wait may go, though nothing else happens.
    pub(crate) look_again: Option<Time>,
}

/// The state of one domain besides its fair queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domain {
    pub(crate) waiting: u32,
    pub(crate) bands: Level,
    /// For each band, the level that chooses among the domain's pools.
    pub(crate) pools: [Level; BANDS],
    pub(crate) drain_rate: DrainRate,
    pub(crate) demand: DemandMeter,
    /// The time to first token of its backends.
    pub(crate) start_time: StartTime,
}

// === impl Controller ===

impl Controller {
    /// A controller with no backends yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            registry: Registry::new(settings.workloads),
            flows: Flows::new(settings.policies()),
            settings,
            clock: Time::ZERO,
            closed: false,
            sequence: 0,
            asks: Asks::default(),
            progress: Vec::new(),
            preferences: BTreeMap::new(),
            first_arrivals: BTreeMap::new(),
            choices: Vec::new(),
            prompts: Vec::new(),
            warm: WarmAsks::default(),
            flow_queues: FlowQueues::default(),
            positions: Positions::new(),
            supply: Supply::default(),
            fair_queues: Vec::new(),
            reserves: Vec::new(),
            domains: Vec::new(),
            hierarchical: false,
            capacity: Capacity::default(),
            wheel: TimingWheel::default(),
            counters: Counters::default(),
            events: VecDeque::new(),
            look_again: None,
        }
    }

    /// The flow with this name, in the class with this number (0 is the default class).
    ///
    /// The id is valid while the flow has live asks. After that it is valid until the flow is
    /// forgotten in favour of one of `idle_flows_max` others.
    pub fn flow(&mut self, name: &str, class: u32) -> FlowId {
        let name = if name.is_empty() { ANONYMOUS } else { cut(name) };
        if let Some(slot) = self.flows.find(name) {
            if self.flows[slot].class != class {
                self.reclassify(slot, class);
            }
            return self.flows.id(slot);
        }
        // Every flow that is not idle has a live ask. The new flow cannot be forgotten itself.
        let keep = self.settings.idle_flows_max as usize + self.asks.alive();
        while let Some(idle) = self.flows.surplus(keep.saturating_sub(1)) {
            self.forget_flow(idle);
        }
        let slot = self.flows.insert(name, class);
        self.flows.id(slot)
    }

    /// The workload with this name; an empty name stands for a generated id.
    pub fn workload(&mut self, name: &str, now: Time) -> WorkloadId {
        let now = self.advance(now);
        if name.is_empty() {
            return WorkloadId::GENERATED;
        }
        self.registry.intern(cut(name), now)
    }

    /// The fate of an ask that waited. Call this after every other verb, until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Controller::wake`] must be called next, if no other verb is called before. It may
    /// have nothing to do then: far deadlines are reached in a few steps.
    pub fn next_wake(&self) -> Option<Time> {
        self.wheel.next_wake().into_iter().chain(self.look_again).min()
    }

    /// Advances the clock. A time that stands still or jumps back counts as the latest time.
    fn advance(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
        if self.look_again.take_if(|at| *at <= self.clock).is_some() {
            self.dispatch_all(self.clock);
        }
        self.clock
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn domain_of(&mut self, pool: u32) -> &mut Domain {
        let domain = self.supply.pools[pool as usize].domain;
        &mut self.domains[domain as usize]
    }

    fn forget_flow(&mut self, flow: u32) {
        for at in self.flow_queues_of(flow) {
            let FlowQueue { pool, band, weight, last_seen, .. } = self.flow_queues[at];
            self.reserves[pool as usize].forget(band.index(), weight.units, last_seen);
            self.flow_queues.remove(at);
        }
        self.capacity.rankings.iter_mut().for_each(|ranking| ranking.forget(flow));
        self.flows.remove(flow);
    }
}

/// A name, cut to the longest allowed length: clients may send any length.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_MAX)]
}

// === impl Domain ===

impl Domain {
    pub(crate) fn fit(&mut self, pools: usize) {
        self.bands.resize(BANDS);
        self.pools.iter_mut().for_each(|level| level.resize(pools));
    }

    pub(crate) fn began_waiting(&mut self, now: Time) {
        if self.waiting == 0 {
            self.drain_rate.start(now);
            self.demand.start();
        }
        self.waiting += 1;
    }

    pub(crate) fn stopped_waiting(&mut self) {
        self.waiting -= 1;
    }

    /// Lets the levels forget old service if no ask waits.
    pub(crate) fn rest(&mut self) {
        if self.waiting == 0 {
            self.bands.idle();
            self.pools.iter_mut().for_each(Level::idle);
        }
    }
}
