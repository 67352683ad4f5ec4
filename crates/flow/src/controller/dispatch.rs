//! Queue to backend: chooses the next ask and its backend in one step.

use super::Controller;
use super::eligibility::QueueKey;
use super::routing::Route;
use super::slack::{Next, NextAsk};
use crate::ask::{BANDS, Band};
use crate::outcome::{Event, Eviction};
use crate::queue::asks::Phase;
use crate::queue::flow_queue::FlowQueue;
use crate::queue::hierarchy::{charge_by_sum, charge_by_weight};
use crate::queue::ordered_asks::OrderContext;
use crate::queue::virtual_clock::NEW;
use crate::settings::{Cascade, Room};
use crate::supply::Pool;
use crate::time::Time;

/// A fair queue: its pool and its band.
type FairQueueAt = (u32, usize);

/// Whether a flow queue was charged the whole cost of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    Full,
    /// It went ahead of a flow queue with a lesser tag, which places are kept from.
    Partial,
}

// === impl Controller ===

impl Controller {
    /// Grants every ask that can go in a domain.
    pub(super) fn dispatch(&mut self, domain: u32, now: Time) {
        let mut held = Vec::new();
        while let Some(turn) = self.next_flow_queue(domain, &held) {
            let NextAsk { flow_queue, slot, overtaken } = match self.next_ask(turn, now) {
                Next::Goes(next) => next,
                Next::Held => {
                    held.push(self.fair_queue_at(turn));
                    continue;
                }
                Next::Waits => return,
            };
            if self.asks[slot].deadline <= now {
                self.expire(slot, now);
                continue;
            }
            let late = self.asks[slot].late;
            if late && self.overload_lasts(flow_queue, now) {
                self.evict(slot, Eviction::TooLate, now);
                continue;
            }
            let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
            let room = self.settings.bounds.to_dequeue();
            let input = || self.route_input_of(slot);
            let asker = (flow, self.asks[slot].model_id());
            let Some(route) = &self.choose_backend(asker, pool, room, input) else { return };
            let waited = now.since(self.asks[slot].arrival);
            self.fair_queue_of(flow_queue).overload.granted(late);
            self.flow_queues[flow_queue].ordered.charge_session(slot, &mut self.asks);
            self.dequeue(slot);
            self.counters.granted += 1;
            self.grant(slot, route, overtaken);
            self.events.push_back(Event::Granted {
                ticket: self.asks.ticket(slot),
                backend: self.supply.backends[route.backend as usize].id,
                waited,
            });
        }
    }

    pub(super) fn dispatch_all(&mut self, now: Time) {
        for domain in 0..self.domains.len() as u32 {
            self.dispatch(domain, now);
        }
    }

    fn fair_queue_at(&self, flow_queue: u32) -> FairQueueAt {
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        (pool, band.index())
    }

    pub(super) fn first_ask_of(&mut self, flow_queue: u32, now: Time) -> Option<u32> {
        let context =
            OrderContext { now, weights: &self.settings.urgency, registry: &mut self.registry };
        self.flow_queues[flow_queue].ordered.first(context, &mut self.asks)
    }

    /// The flow queue whose turn it is, among those whose backends have room below the lower bound
    /// and whose fair queue is not held.
    fn next_flow_queue(&mut self, domain: u32, held: &[FairQueueAt]) -> Option<u32> {
        // A backend that no longer serves any model is in no domain.
        if self.domains.get(domain as usize).is_none_or(|domain| domain.waiting == 0) {
            return None;
        }
        let room = self.settings.bounds.to_dequeue();
        if !self.hierarchical {
            return self.first_in_pool(self.supply.domains[domain as usize][0], room, held);
        }
        self.next_by_level(domain, room, held)
    }

    /// The same, if bands or pools are chosen by weight.
    #[inline(never)]
    fn next_by_level(&mut self, domain: u32, room: Room, held: &[FairQueueAt]) -> Option<u32> {
        let band = match self.settings.cascade {
            Cascade::Strict => {
                let mut bands = Band::DESCENDING.into_iter();
                bands.find(|band| self.band_could_go(domain, band.index(), room, held))?.index()
            }
            Cascade::Weighted(_) => {
                let mut level = std::mem::take(&mut self.domains[domain as usize].bands);
                let chosen = level.choose(|band| self.band_could_go(domain, band, room, held));
                self.domains[domain as usize].bands = level;
                chosen?
            }
        };
        let pool = self.next_pool(domain, band, room, held)?;
        self.pool_first((pool, band), room, held)
    }

    fn next_pool(
        &mut self,
        domain: u32,
        band: usize,
        room: Room,
        held: &[FairQueueAt],
    ) -> Option<u32> {
        let pools = &self.supply.domains[domain as usize];
        let mut level = std::mem::take(&mut self.domains[domain as usize].pools[band]);
        let chosen = level.choose(|at| self.pool_first((pools[at], band), room, held).is_some());
        let pool = chosen.map(|at| pools[at]);
        self.domains[domain as usize].pools[band] = level;
        pool
    }

    pub(crate) fn any_could_go(&self, domain: u32, room: Room) -> bool {
        let pools = &self.supply.domains[domain as usize];
        pools.iter().any(|&pool| self.first_in_pool(pool, room, &[]).is_some())
    }

    /// Whether a waiting ask goes before a new one, which then may not bypass the queue. Another
    /// fair queue in which every ask that could leave the queue waits for a cache is passed over.
    pub(super) fn any_goes_before(&self, new: QueueKey, domain: u32, room: Room) -> bool {
        let pools = &self.supply.domains[domain as usize];
        let dequeue = self.settings.bounds.to_dequeue();
        let is_held = |&(pool, band): &FairQueueAt| {
            (pool, band) != (new.pool, new.band.index())
                && self.fair_queues[pool as usize][band].held_since.is_some()
                && self.pool_first((pool, band), dequeue, &[]).is_some()
        };
        let all = pools.iter().flat_map(|&pool| (0..BANDS).map(move |band| (pool, band)));
        let held: Vec<FairQueueAt> = all.filter(is_held).collect();
        pools.iter().any(|&pool| self.first_in_pool(pool, room, &held).is_some())
    }

    /// The flow queue whose turn it is in a pool, the highest band first.
    #[inline]
    fn first_in_pool(&self, pool: u32, room: Room, held: &[FairQueueAt]) -> Option<u32> {
        if !self.supply.is_open(pool, room) {
            return None;
        }
        self.first_in_open_pool(pool, room, held)
    }

    #[inline(never)]
    fn first_in_open_pool(&self, pool: u32, room: Room, held: &[FairQueueAt]) -> Option<u32> {
        let has_room = |backend| self.supply.has_room(backend, room);
        let free = self.free_places(pool, room);
        let bands = self.fair_queues[pool as usize].iter().enumerate().rev();
        bands.filter(|(_, fair_queue)| !fair_queue.is_idle()).find_map(|(band, fair_queue)| {
            let reach = self.reach(pool, band, free).filter(|_| !held.contains(&(pool, band)))?;
            fair_queue.first(reach, has_room)
        })
    }

    pub(crate) fn band_could_go(
        &self,
        domain: u32,
        band: usize,
        room: Room,
        held: &[FairQueueAt],
    ) -> bool {
        let pools = &self.supply.domains[domain as usize];
        pools.iter().any(|&pool| self.pool_first((pool, band), room, held).is_some())
    }

    fn pool_first(&self, at: FairQueueAt, room: Room, held: &[FairQueueAt]) -> Option<u32> {
        let (pool, band) = at;
        let fair_queue = &self.fair_queues[pool as usize][band];
        if fair_queue.is_idle() || held.contains(&at) || !self.supply.is_open(pool, room) {
            return None;
        }
        let reach = self.reach(pool, band, self.free_places(pool, room))?;
        fair_queue.first(reach, |backend| self.supply.has_room(backend, room))
    }

    /// Sends an ask that is not in the queue to a backend, and charges its flow. `overtaken` is the
    /// tag of the flow queue whose turn it was, if another one goes for its cached prompt.
    pub(super) fn grant(&mut self, slot: u32, route: &Route, overtaken: Option<u64>) {
        self.explain(slot, route);
        let backend = route.backend;
        let ask = &mut self.asks[slot];
        let (at, cost, stock) = (ask.flow_queue, ask.cost, ask.stock(self.settings.stock));
        let FlowQueue { flow, band, period, active, .. } = self.flow_queues[at];
        ask.phase = Phase::InFlight;
        ask.on_trial = self.supply.is_on_trial(backend);
        ask.backend = backend;
        ask.granted = self.clock;
        ask.period = period;
        if !active {
            self.note_spare_room(at, backend);
        }
        self.supply.take(backend, band.index(), stock, self.clock);
        self.use_model(slot);
        self.send_prompt(slot);
        if self.is_auto() {
            self.count_grant(slot);
        }
        let counts = &mut self.flows[flow];
        counts.in_flight += 1;
        let limited = counts.limited;
        if self.hierarchical {
            self.serve_levels(slot);
        }
        if self.charge_flow_queue(at, cost, overtaken, limited) == Charge::Partial {
            // A refund would return more than was charged.
            self.asks[slot].period = self.asks[slot].period.wrapping_sub(1);
        }
        self.place_taken(at);
        if limited {
            self.limits_after_grant(flow, backend);
        }
        if !self.settings.charge_cached {
            self.refund_cached(slot);
        }
    }

    /// Before the grant of an ask that did not wait: notes whether it finds spare room. If many do,
    /// an overload has ended.
    fn note_spare_room(&mut self, at: u32, backend: u32) {
        if self.supply.has_spare_room(backend, self.settings.bounds.to_bypass()) {
            self.fair_queue_of(at).overload.granted_at_once();
        }
    }

    fn charge_flow_queue(
        &mut self,
        at: u32,
        cost: u32,
        overtaken: Option<u64>,
        limited: bool,
    ) -> Charge {
        let flow_queue = &mut self.flow_queues[at];
        let fair_queue = &mut self.fair_queues[flow_queue.pool as usize][flow_queue.band.index()];
        let bypassed = !flow_queue.active;
        if bypassed {
            flow_queue.tag = fair_queue.clock.join(flow_queue.tag, flow_queue.weight, cost);
        }
        if limited && self.flows.is_limited_per_backend(flow_queue.flow) {
            // Its backends may have been full while other flows went: that earns no credit.
            flow_queue.tag = flow_queue.tag.max(fair_queue.clock.now());
        }
        let held_back = fair_queue.least_over_share().filter(|&least| least < flow_queue.tag);
        let charge = match (held_back, overtaken) {
            (_, Some(least)) => {
                let FlowQueue { tag, weight, .. } = *flow_queue;
                flow_queue.tag = fair_queue.clock.serve_within(least, tag, weight, cost);
                Charge::Full
            }
            (None, None) => {
                flow_queue.tag = fair_queue.clock.serve(flow_queue.tag, flow_queue.weight, cost);
                Charge::Full
            }
            (Some(least), None) => {
                let FlowQueue { tag, weight, .. } = *flow_queue;
                flow_queue.tag = fair_queue.clock.serve_ahead(least, tag, weight, cost);
                Charge::Partial
            }
        };
        if !bypassed && flow_queue.waiting == 0 {
            self.deactivate(at);
            return charge;
        }
        if bypassed {
            fair_queue.clock.leave(flow_queue.weight);
        } else {
            flow_queue.tie_break = fair_queue.next_tie_break();
            let order = flow_queue.service_order(at);
            fair_queue.moved(order, flow_queue.over_share, &mut self.positions);
        }
        if fair_queue.clock.has_run_far() {
            self.rebase(at);
        }
        charge
    }

    /// Lowers the tags of a fair queue before they grow too large.
    #[cold]
    pub(super) fn rebase(&mut self, at: u32) {
        let FlowQueue { pool, band, .. } = self.flow_queues[at];
        let fair_queue = &mut self.fair_queues[pool as usize][band.index()];
        let shift = fair_queue.clock.rebase();
        fair_queue.shift(shift);
        for flow_queue in self.flow_queues.iter_mut() {
            if flow_queue.pool == pool && flow_queue.band == band {
                // A tag that is not new must not become the tag of a new flow.
                flow_queue.tag =
                    flow_queue.tag.saturating_sub(shift).max(flow_queue.tag.min(NEW + 1));
            }
        }
    }

    /// Serves and charges the levels above a fair queue for one of its asks.
    fn serve_levels(&mut self, slot: u32) {
        let FlowQueue { pool, band, weight, active, .. } =
            self.flow_queues[self.asks[slot].flow_queue];
        let Pool { place, domain, .. } = self.supply.pools[pool as usize];
        let own = if active { 0 } else { u64::from(weight.units) };
        let units = self.fair_queues[pool as usize][band.index()].clock.weight() + own;
        let pools = self.supply.domains[domain as usize].len();
        // A single pool needs no charge.
        self.asks[slot].units = if pools > 1 { units } else { 0 };
        let domain = &mut self.domains[domain as usize];
        domain.pools[band.index()].serve(place as usize, active);
        domain.bands.serve(band.index(), active);
        self.charge_levels(slot, 0, self.asks[slot].cost);
        self.domain_of(pool).rest();
    }

    /// Replaces the charge of an ask at the levels above its fair queue.
    pub(super) fn charge_levels(&mut self, slot: u32, was: u32, cost: u32) {
        let FlowQueue { pool, band, .. } = self.flow_queues[self.asks[slot].flow_queue];
        let Pool { place, domain, .. } = self.supply.pools[pool as usize];
        let units = self.asks[slot].units;
        let domain = &mut self.domains[domain as usize];
        if units > 0 {
            let by_sum = charge_by_sum(cost, units) - charge_by_sum(was, units);
            domain.pools[band.index()].charge(place as usize, by_sum);
        }
        if let Cascade::Weighted(weights) = &self.settings.cascade {
            let weight = weights[band.index()];
            let by_weight = charge_by_weight(cost, weight) - charge_by_weight(was, weight);
            domain.bands.charge(band.index(), by_weight);
        }
    }
}
