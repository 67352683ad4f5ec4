//! The controller: one owner of all flow state, driven by verbs, answering with values.
//!
//! Each phase of an ask's life has a file: `admit` (offer to queue), `dispatch` (queue to backend),
//! `progress` (at the backend), `complete` (backend to end), `remove` (queue to nowhere). `turn`
//! lets claims take part in their rounds or not, `routing` weighs backends, `reshape` rebuilds the
//! queue when sets of backends or settings change, `forecast` predicts waits, and `view` shows what
//! is there.

mod admit;
mod complete;
mod dispatch;
mod eligibility;
mod evict;
pub(crate) mod forecast;
mod progress;
mod reconfigure;
mod routing;
pub(crate) mod view;

use std::collections::{BTreeMap, VecDeque};

use crate::ask::{BANDS, FlowId, WorkloadId};
use crate::auto::AskProgress;
use crate::capacity::Capacity;
use crate::counters::Counters;
use crate::drain_rate::DrainRate;
use crate::flows::Flows;
use crate::identity::NAME_MAX;
use crate::outcome::Event;
use crate::queue::asks::Asks;
use crate::queue::fair_queue::FairQueue;
use crate::queue::flow_queue::FlowQueues;
use crate::queue::heap::Positions;
use crate::queue::hierarchy::Level;
use crate::queue::timing_wheel::TimingWheel;
use crate::route::{RouteChoice, RoutePreference};
use crate::settings::Settings;
use crate::supply::Supply;
use crate::time::Time;
use crate::workload::Registry;

/// The flow of every ask that names none.
const ANONYMOUS: &str = "-";

/// One owner of all flow state, driven by verbs, answering with values.
///
/// | verb | meaning |
/// |---|---|
/// | [`Controller::flow`], [`Controller::workload`] | intern a name |
/// | [`Controller::offer`] | here is an ask: granted, queued or refused |
/// | [`Controller::started`] | a grant has shown its first token |
/// | [`Controller::streamed`] | its stream has come this far |
/// | [`Controller::charge`] | a stream has passed its estimate |
/// | [`Controller::settle`] | a grant has ended, and this is what it cost |
/// | [`Controller::cancel`] | the client has gone, wherever its ask stands |
/// | [`Controller::requeue`] | the backend failed before it did anything |
/// | [`Controller::supply`] | the backends are now these |
/// | [`Controller::reading`] | a backend's engine says how it is |
/// | [`Controller::configure`] | the settings are now these |
/// | [`Controller::wake`] at [`Controller::next_wake`] | time has passed |
/// | [`Controller::close`] | shut down: nobody waits any more |
/// | [`Controller::poll_event`] | what became of those who waited |
///
/// Times may come in any order; the latest seen counts. What each verb decides, and why, is defined
/// in `docs/FLOW.md`.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) settings: Settings,
    /// The latest time seen. It never runs backwards, whatever the caller's clock does.
    pub(crate) clock: Time,
    pub(crate) closed: bool,
    pub(crate) sequence: u64,
    pub(crate) asks: Asks,
    /// Under `auto`, what it counts of each ask in flight, by slot.
    pub(crate) progress: Vec<AskProgress>,
    /// What asks wish of their backends, by slot, of those that do.
    pub(crate) preferences: BTreeMap<u32, RoutePreference>,
    /// Why each ask in flight is where it is, by slot, where there was a choice.
    pub(crate) choices: Vec<Option<RouteChoice>>,
    pub(crate) flows: Flows,
    pub(crate) flow_queues: FlowQueues,
    /// Where each claim that takes part stands in its round's heap.
    pub(crate) positions: Positions,
    pub(crate) supply: Supply,
    /// By pool, then by band.
    pub(crate) fair_queues: Vec<[FairQueue; BANDS]>,
    pub(crate) domains: Vec<Domain>,
    /// Whether anything is to be chosen between bands or pools by weight.
    pub(crate) hierarchical: bool,
    pub(crate) capacity: Capacity,
    pub(crate) wheel: TimingWheel,
    pub(crate) registry: Registry,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
}

/// What is kept for each domain besides its rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domain {
    pub(crate) waiting: u32,
    pub(crate) bands: Level,
    /// For each band, the level that chooses among the domain's pools.
    pub(crate) pools: [Level; BANDS],
    pub(crate) drain_rate: DrainRate,
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
            choices: Vec::new(),
            flow_queues: FlowQueues::default(),
            positions: Positions::new(),
            supply: Supply::default(),
            fair_queues: Vec::new(),
            domains: Vec::new(),
            hierarchical: false,
            capacity: Capacity::default(),
            wheel: TimingWheel::default(),
            counters: Counters::default(),
            events: VecDeque::new(),
        }
    }

    /// The flow with this name, in the class with this number (0 is the default class).
    ///
    /// The id stays good while the flow has asks alive, and after that until it is forgotten for
    /// one of `idle_flows_max` others.
    pub fn flow(&mut self, name: &str, class: u32) -> FlowId {
        let name = if name.is_empty() { ANONYMOUS } else { cut(name) };
        if let Some(slot) = self.flows.find(name) {
            if self.flows[slot].class != class {
                self.reclassify(slot, class);
            }
            return self.flows.id(slot);
        }
        // Each flow with something alive has an ask alive. The newcomer is not up for choice.
        let keep = self.settings.idle_flows_max as usize + self.asks.alive();
        while let Some(idle) = self.flows.surplus(keep.saturating_sub(1)) {
            self.forget_flow(idle);
        }
        let slot = self.flows.insert(name, class);
        self.flows.id(slot)
    }

    /// The workload with this name; an empty name is one of many generated ones.
    pub fn workload(&mut self, name: &str, now: Time) -> WorkloadId {
        let now = self.advance(now);
        if name.is_empty() {
            return WorkloadId::GENERATED;
        }
        self.registry.intern(cut(name), now)
    }

    /// What became of an ask that waited. Call until there is none, after every other verb.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Controller::wake`] must be called next, if nothing else happens before. It may have
    /// nothing to do then: far deadlines are approached in a few steps.
    pub fn next_wake(&self) -> Option<Time> {
        self.wheel.next_wake()
    }

    /// Takes note of the time: time that stands still or jumps back is the latest time again.
    fn advance(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
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
        for flow_queue in self.flow_queues_of(flow) {
            self.flow_queues.remove(flow_queue);
        }
        self.capacity.rankings.iter_mut().for_each(|ranking| ranking.forget(flow));
        self.flows.remove(flow);
    }
}

/// A name as far as it is kept: what clients send is bounded.
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
        }
        self.waiting += 1;
    }

    pub(crate) fn stopped_waiting(&mut self) {
        self.waiting -= 1;
    }

    /// Lets the levels forget old service where nothing waits.
    pub(crate) fn rest(&mut self) {
        if self.waiting == 0 {
            self.bands.idle();
            self.pools.iter_mut().for_each(Level::idle);
        }
    }
}
