//! The rules of `docs/FLOW.md` a second time, as plainly as possible.
//!
//! Lists and scans only: no heap, no wheel, no links, no fixed width. It returns what the
//! controller must return, except predicted waits. Sets of backends and settings are constant.
//!
//! `caches` has what backends have cached, `waits` who waits for it, `fair` virtual time, `place`
//! the backends, `reserve` the kept places, `sessions` the sessions of a flow queue, `registry` the
//! workloads; `admission` decides which asks may wait, `dispatch` which ask goes; `history` draws
//! the events of a run.

mod admission;
mod caches;
mod dispatch;
mod fair;
pub(super) mod history;
mod place;
mod registry;
mod reserve;
mod sessions;
mod waits;

use crate::ask::{Ask, BANDS, BackendId, Band, COST_MAX, FlowId, ModelId, Usage, WorkloadId};
use crate::counters::Counters;
use crate::outcome::{Eviction, Misuse, Refusal, RequeuePosition, Stage};
use crate::supply::BackendSupply;
use crate::time::{Span, Time};
use crate::{FlowClass, PromptBlocks, Settings, Weight};
use caches::Prompt;
use fair::{Level, VirtualClock};
use place::Places;
pub(super) use registry::Interned;
use registry::Registry;
use sessions::Sessions;

/// A deadline is noticed at the next multiple of this many nanoseconds.
const TICK: u64 = 1 << 20;

/// The result of an offer; asks are numbered in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted { name: usize, backend: BackendId },
    Queued { name: usize },
    Refused(Refusal),
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Granted { name: usize, backend: BackendId, waited: Span },
    Evicted { name: usize, reason: Eviction },
}

pub(super) struct Flow {
    pub(super) name: String,
    pub(super) class: u32,
    pub(super) id: FlowId,
    pub(super) known: bool,
    /// When it was last preempted in each band; 0 is never.
    preempted: [u64; BANDS],
}

struct FlowQueue {
    flow: usize,
    pool: usize,
    band: Band,
    weight: Weight,
    /// `None` while it is new to its fair queue.
    tag: Option<i128>,
    /// How often it became active.
    period: u64,
    moved: u64,
    takes_part: bool,
    /// Whether it held more than its share when its last ask was sent or left its place.
    over_share: bool,
    /// When an ask of it was last admitted.
    last_seen: Option<Time>,
    /// When its first ask was admitted.
    used_since: Option<u64>,
    /// The turns of the asks that went before others.
    passed_by: Vec<(Time, u64)>,
}

/// The asks that wait in one fair queue.
struct Overload {
    /// Since when asks have waited, short gaps aside.
    since: Time,
    /// When no ask waited last.
    emptied: Time,
    /// The share of the latest grants that went to fresh asks.
    fresh_share: f32,
    /// The asks that bypassed the queue since no ask waited last; before the first ask, enough to
    /// end an overload.
    at_once: u32,
}

impl Default for Overload {
    fn default() -> Self {
        Self { since: Time::ZERO, emptied: Time::ZERO, fresh_share: 0.0, at_once: 16 }
    }
}

pub(super) struct Record {
    pub(super) name: usize,
    pub(super) waits: bool,
    pub(super) model: ModelId,
    /// Where it is in flight.
    pub(super) backend: Option<usize>,
    pub(super) deadline: Time,
    /// When it wants its first token; its arrival, if it is always fresh.
    wanted_by: Time,
    /// When it can no longer make its objective.
    fresh_until: Time,
    flow_queue: usize,
    cost: u32,
    estimate: u32,
    tokens: u64,
    criticality: u8,
    workload: Option<usize>,
    /// Whether the client's own deadline is the one that counts.
    is_clients: bool,
    sequence: u64,
    arrival: Time,
    /// When it went to its backend.
    sent: Time,
    /// The active weights of its fair queue when it was granted.
    units: u64,
    /// The period of its flow queue in which it was charged.
    period: u64,
    session: u32,
    prompt: Prompt,
    /// The period of its session in which it was charged.
    session_period: Option<u64>,
}

/// The levels of one domain: over its bands, and in each band over its pools.
#[derive(Default)]
struct Levels {
    bands: Level,
    pools: [Level; BANDS],
}

pub(super) struct Reference {
    pub(super) flows: Vec<Flow>,
    pub(super) asks: Vec<Record>,
    pub(super) counters: Counters,
    pub(super) outcomes: Vec<Outcome>,
    /// The prompt of the next ask that is offered, and its tokens.
    pub(super) offered: (PromptBlocks, u64),
    settings: Settings,
    clock: Time,
    closed: bool,
    flow_queues: Vec<FlowQueue>,
    places: Places,
    /// By pool, then by band.
    fair_queues: Vec<[VirtualClock; BANDS]>,
    /// By pool, then by band.
    overloads: Vec<[Overload; BANDS]>,
    /// By pool, then by band: since when all asks that could go have waited for a cache.
    held_since: Vec<[Option<Time>; BANDS]>,
    /// When asks that wait may go, though nothing else happens.
    look_again: Option<Time>,
    /// By pool.
    logs: Vec<reserve::PoolLog>,
    levels: Vec<Levels>,
    sessions: Sessions,
    registry: Registry,
    /// Counts everything whose order matters.
    sequence: u64,
    names: usize,
}

// === impl Reference ===

impl Reference {
    pub(super) fn new(settings: Settings, supply: &[BackendSupply]) -> Self {
        let mut reference = Self {
            offered: (PromptBlocks::UNKNOWN, 0),
            flows: Vec::new(),
            asks: Vec::new(),
            counters: Counters::default(),
            outcomes: Vec::new(),
            registry: Registry::new(settings.workloads),
            settings,
            clock: Time::ZERO,
            closed: false,
            flow_queues: Vec::new(),
            places: Places::new(supply),
            fair_queues: Vec::new(),
            overloads: Vec::new(),
            held_since: Vec::new(),
            look_again: None,
            logs: Vec::new(),
            levels: Vec::new(),
            sessions: Sessions::default(),
            sequence: 0,
            names: 0,
        };
        reference.levels.resize_with(reference.places.domains.len(), Levels::default);
        reference.fit();
        reference.revise_all();
        reference
    }

    fn fit(&mut self) {
        self.fair_queues.resize_with(self.places.pools.len(), Default::default);
        self.overloads.resize_with(self.places.pools.len(), Default::default);
        self.held_since.resize_with(self.places.pools.len(), Default::default);
        self.logs.resize_with(self.places.pools.len(), Default::default);
        for (levels, pools) in self.levels.iter_mut().zip(&self.places.domains) {
            levels.bands.resize(BANDS);
            levels.pools.iter_mut().for_each(|level| level.resize(pools.len()));
        }
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.clock = self.clock.max(now);
        if self.look_again.take_if(|at| *at <= self.clock).is_some() {
            self.dispatch_all();
        }
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The place of the flow with this name, if it is remembered.
    pub(super) fn find_flow(&self, name: &str) -> Option<usize> {
        self.flows.iter().position(|flow| flow.known && flow.name == name)
    }

    /// A flow that was not remembered, under the id that the controller gave it.
    pub(super) fn add_flow(&mut self, name: &str, class: u32, id: FlowId) {
        let (name, preempted) = (name.to_string(), [0; BANDS]);
        self.flows.push(Flow { name, class, id, known: true, preempted });
    }

    /// Forgets a flow that the controller has chosen; returns whether it may be forgotten.
    pub(super) fn forget_flow(&mut self, flow: usize) -> bool {
        self.flows[flow].known = false;
        self.asks.iter().all(|ask| self.flow_of(ask) != flow)
    }

    /// The class of a flow; a number without one means the default.
    fn class_of(&self, flow: usize) -> FlowClass {
        let further = (self.flows[flow].class as usize).checked_sub(1);
        let class = further.and_then(|at| self.settings.classes.get(at));
        *class.unwrap_or(&self.settings.default_class)
    }

    pub(super) fn reclassify(&mut self, flow: usize, class: u32) {
        self.flows[flow].class = class;
        let weight = self.class_of(flow).weight;
        for at in self.flow_queues_of(flow) {
            if self.flow_queues[at].takes_part {
                self.leave(at);
            }
            self.flow_queues[at].weight = weight;
            self.flow_queues[at].last_seen = None;
            self.weigh(at);
        }
        self.reconsider(flow);
        self.drain_flow(flow);
    }

    pub(super) fn workload(&mut self, name: &str, now: Time) -> Interned {
        self.advance(now);
        self.registry.intern(name, self.clock)
    }

    pub(super) fn add_workload(&mut self, name: &str, id: WorkloadId) {
        self.registry.add(name, id, self.clock);
    }

    /// Takes an ask. A refusal that depends on a predicted wait follows the one that was `seen`.
    pub(super) fn offer(&mut self, ask: &Ask, now: Time, seen: Option<Refusal>) -> Answer {
        self.advance(now);
        self.counters.offered += 1;
        let answer = self.consider(ask, seen).unwrap_or_else(Answer::Refused);
        if let Answer::Refused(reason) = answer {
            self.counters.refused += 1;
            match reason {
                Refusal::FlowFull => self.counters.refused_flow_full += 1,
                Refusal::TooManyFlows => self.counters.refused_too_many_flows += 1,
                Refusal::QueueFull => self.counters.refused_queue_full += 1,
                _ => {}
            }
        }
        self.dispatch_all();
        answer
    }

    pub(super) fn charge(&mut self, name: usize, cost: u64, now: Time) -> Result<(), Misuse> {
        self.advance(now);
        let at = self.find_in_flight(name)?;
        let charged = self.asks[at].cost;
        self.recharge(at, charged.max(cost.min(COST_MAX) as u32));
        Ok(())
    }

    pub(super) fn settle(&mut self, name: usize, usage: Usage, now: Time) -> Result<(), Misuse> {
        self.advance(now);
        let at = self.find_in_flight(name)?;
        match usage {
            Usage::Cost(cost) => self.recharge(at, cost.min(COST_MAX) as u32),
            Usage::Unknown | Usage::Failed => self.take_refund_back(at),
        }
        if !matches!(usage, Usage::Cost(0) | Usage::Failed) {
            let backend = self.asks[at].backend.expect("it is in flight");
            self.places.backends[backend].changes(true, self.clock);
        }
        self.finish(at);
        Ok(())
    }

    pub(super) fn cancel(&mut self, name: usize, now: Time) -> Result<Stage, Misuse> {
        self.advance(now);
        let at = self.find(name).ok_or(Misuse::UnknownTicket)?;
        if self.asks[at].waits {
            self.counters.cancelled_waiting += 1;
            self.withdraw(at);
            return Ok(Stage::Waiting);
        }
        self.take_refund_back(at);
        self.finish(at);
        Ok(Stage::InFlight)
    }

    pub(super) fn requeue(
        &mut self,
        name: usize,
        place: RequeuePosition,
        now: Time,
    ) -> Result<(), Misuse> {
        self.advance(now);
        let at = self.find_in_flight(name)?;
        if self.clock.since(self.asks[at].sent) < Span::from_millis(250) {
            self.recharge(at, 0);
        } else {
            self.take_refund_back(at);
        }
        let failed = self.asks[at].backend.expect("it is in flight");
        self.prompt_left(at, failed, true);
        let (flow, backend) = self.release(at);
        self.counters.requeued += 1;
        let FlowQueue { band, pool: waited, .. } = self.flow_queues[self.asks[at].flow_queue];
        let home = self.places.pool_of(self.asks[at].model).expect("backends stay");
        let mut detour = |from| self.places.detour(from, backend);
        let pool = match place {
            RequeuePosition::Back => detour(waited).or_else(|| detour(home)).unwrap_or(home),
            RequeuePosition::Original => home,
        };
        self.fit();
        let flow_queue = self.flow_queue_for(flow, pool, band);
        let sequence = self.next();
        let clock = self.clock;
        let objective = self.objective_of(flow, band);
        let ask = &mut self.asks[at];
        ask.flow_queue = flow_queue;
        ask.cost = ask.estimate;
        ask.fresh_until = Time::NEVER;
        ask.wanted_by = ask.arrival;
        if place == RequeuePosition::Back {
            ask.sequence = sequence;
            ask.arrival = clock;
            ask.wanted_by = clock.after(objective.unwrap_or(Span::ZERO));
        }
        self.enqueue(at);
        if self.closed {
            self.shut_out(at);
        }
        self.drain_from(flow, backend);
        Ok(())
    }

    pub(super) fn ready(&mut self, backend: BackendId, ready: bool) {
        let known = self.places.backends.iter_mut().find(|known| known.id == backend);
        let known = known.expect("backends stay");
        if ready && !std::mem::replace(&mut known.ready, ready) {
            known.cache.clear();
        }
        known.ready = ready;
    }

    /// Readiness has changed, of as many backends as it may.
    pub(super) fn supplied(&mut self, now: Time) {
        self.advance(now);
        self.return_from_detours();
        self.revise_all();
        self.dispatch_all();
    }

    /// Asks that wait only for backends of which none is ready wait for all of their model.
    fn return_from_detours(&mut self) {
        let mut names: Vec<_> =
            self.waiting().map(|at| (self.asks[at].sequence, self.asks[at].name)).collect();
        names.sort_unstable();
        for (_, name) in names {
            let at = self.find(name).expect("it waits");
            let FlowQueue { flow, pool, band, .. } = self.flow_queues[self.asks[at].flow_queue];
            let home = self.places.pool_of(self.asks[at].model).expect("backends stay");
            if home == pool || self.places.is_ready(pool) {
                continue;
            }
            self.stop_waiting(at);
            self.asks[at].flow_queue = self.flow_queue_for(flow, home, band);
            self.enqueue(at);
        }
    }

    /// Evictions at one wake have no order of their own, so they follow the one that was seen.
    pub(super) fn wake(&mut self, now: Time, seen: &[Outcome]) {
        self.advance(now);
        for outcome in seen {
            let Outcome::Evicted { name, .. } = *outcome else { continue };
            if let Some(at) = self.find(name).filter(|&at| self.is_overdue(at)) {
                self.expire(at);
            }
        }
        let missed = self.waiting().find(|&at| self.is_overdue(at));
        if let Some(at) = missed {
            self.expire(at);
        }
    }

    fn is_overdue(&self, at: usize) -> bool {
        self.asks[at].waits && self.due(at) <= self.clock.nanos() / TICK
    }

    /// The tick at which an ask's deadline is noticed.
    fn due(&self, at: usize) -> u64 {
        self.asks[at].deadline.nanos() / TICK + 1
    }

    /// The latest moment at which the controller may want to be woken.
    pub(super) fn next_wake(&self) -> Option<u64> {
        let due = self.waiting().map(|at| self.due(at)).min();
        let due = due.map(|tick| tick.saturating_mul(TICK).max(self.clock.nanos()));
        due.into_iter().chain(self.look_again.map(Time::nanos)).min()
    }

    pub(super) fn close(&mut self, now: Time) {
        self.advance(now);
        self.closed = true;
        while let Some(at) = self.waiting().min_by_key(|&at| self.asks[at].sequence) {
            self.shut_out(at);
        }
    }

    fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.asks.len()).filter(|&at| self.asks[at].waits)
    }

    fn find(&self, name: usize) -> Option<usize> {
        self.asks.iter().position(|ask| ask.name == name)
    }

    fn find_in_flight(&self, name: usize) -> Result<usize, Misuse> {
        let at = self.find(name).ok_or(Misuse::UnknownTicket)?;
        self.asks[at].backend.map(|_| at).ok_or(Misuse::NotInFlight)
    }

    pub(super) fn band_of(&self, ask: &Record) -> Band {
        self.flow_queues[ask.flow_queue].band
    }

    pub(super) fn flow_of(&self, ask: &Record) -> usize {
        self.flow_queues[ask.flow_queue].flow
    }

    pub(super) fn backends(&self) -> &[place::Backend] {
        &self.places.backends
    }

    pub(super) fn workloads(&mut self, now: Time) -> Vec<(&registry::Entry, u32)> {
        self.advance(now);
        let mut used: Vec<_> = self.registry.used(self.clock).collect();
        used.sort_by(|one, other| one.0.name.cmp(&other.0.name));
        used
    }
}
