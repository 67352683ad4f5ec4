//! New backends and new settings; every waiting ask keeps its place.
//!
//! A backend that becomes ready, or stops being so, changes only its flag. When sets of backends or
//! settings change, the queue is rebuilt: every live ask moves to its new flow queue in order of
//! arrival, and each flow queue keeps its lead over virtual time.

use std::collections::BTreeSet;

use super::eligibility::QueueKey;
use super::{Controller, Domain};
use crate::ask::ModelId;
use crate::links::NONE;
use crate::outcome::RequeuePosition;
use crate::queue::asks::Phase;
use crate::queue::fair_queue::FairQueue;
use crate::queue::flow_queue::{FlowQueue, FlowQueues};
use crate::queue::virtual_clock::NEW;
use crate::settings::{Cascade, Order, Settings};
use crate::supply::BackendSupply;
use crate::time::Time;

// === impl Controller ===

impl Controller {
    /// Takes the new list of backends. A backend that is not listed is removed; asks in flight
    /// there are still settled as they end.
    pub fn supply(&mut self, backends: &[BackendSupply], now: Time) {
        let now = self.advance(now);
        let changed = self.supply.update(backends);
        self.fit_prefix_indexes();
        if changed {
            self.rebuild();
        } else {
            if self.supply.has_detours() {
                self.return_from_detours(now);
            }
            self.revise_reserves(now);
        }
        self.dispatch_all(now);
    }

    /// Sets the models that asks may wait for although no backend lists them.
    pub fn expect_models(&mut self, models: impl Iterator<Item = ModelId>, now: Time) {
        let now = self.advance(now);
        if self.supply.expect(models) {
            self.rebuild();
            self.dispatch_all(now);
        }
    }

    /// Lets waiting asks that avoid a backend use all backends of their model again, if no other
    /// one is ready any more.
    fn return_from_detours(&mut self, now: Time) {
        let mut slots = self.waiting_slots();
        slots.sort_by_key(|&slot| self.asks[slot].sequence);
        for slot in slots {
            let pool = self.flow_queues[self.asks[slot].flow_queue].pool;
            let stays = self.supply.is_ready(pool) || self.supply.is_nowhere(pool);
            let home = self.supply.pool_of(self.asks[slot].model_id()).filter(|_| !stays);
            home.into_iter().for_each(|home| self.move_to(slot, home, now));
        }
    }

    /// Lets a waiting ask wait for the backends of another pool, at its place in the queue.
    pub(super) fn move_to(&mut self, slot: u32, pool: u32, now: Time) {
        let FlowQueue { flow, band, pool: before, .. } =
            self.flow_queues[self.asks[slot].flow_queue];
        if before == pool {
            return;
        }
        self.withdraw(slot);
        self.asks[slot].flow_queue = self.flow_queue_for(QueueKey { flow, band, pool });
        self.enqueue(slot, RequeuePosition::Original, now);
    }

    /// Takes new settings. No waiting ask is evicted, even if limits were lowered.
    pub fn configure(&mut self, settings: Settings, now: Time) {
        let now = self.advance(now);
        self.registry.configure(settings.workloads);
        self.flows.configure(settings.policies());
        let was_auto = self.is_auto();
        self.settings = settings;
        self.fit_prefix_indexes();
        self.fit_loaded_models();
        self.rebuild();
        match (was_auto, self.is_auto()) {
            (false, true) => self.recount_auto(),
            (true, false) => self.drop_auto(),
            _ => {}
        }
        self.revise_reserves(now);
        self.dispatch_all(now);
    }

    /// Moves a flow into another class.
    pub(super) fn reclassify(&mut self, flow: u32, class: u32) {
        self.flows.reclassify(flow, class);
        let weight = self.flows.policy(flow).weight;
        self.recount_held(|at| at == flow);
        for flow_queue in self.flow_queues_of(flow) {
            self.deactivate(flow_queue);
            self.change_weight(flow_queue, weight);
            self.weigh(flow_queue);
            self.rejoin(flow_queue);
        }
        // The new class may allow a grant that the old one did not.
        self.dispatch_for(flow, self.clock);
    }

    /// Extends the tables for pools that were added.
    pub(super) fn fit_to_supply(&mut self) {
        self.fair_queues.resize_with(self.supply.pools.len(), Default::default);
        self.reserves.resize_with(self.supply.pools.len(), Default::default);
        for (domain, pools) in self.domains.iter_mut().zip(&self.supply.domains) {
            domain.fit(pools.len());
        }
        let several = self.supply.domains.iter().any(|pools| pools.len() > 1);
        self.hierarchical = several || self.settings.cascade != Cascade::Strict;
    }

    fn rebuild(&mut self) {
        let demands = self.kept_demands();
        self.relocate_backends();
        let alive: BTreeSet<ModelId> =
            self.asks.slots().map(|slot| self.asks[slot].model_id()).collect();
        self.supply.rebuild_pools(&alive);
        let mut flow_queues = std::mem::take(&mut self.flow_queues);
        self.warm.clear();
        self.positions.clear();
        let fair_queues = std::mem::take(&mut self.fair_queues);
        self.reserves.clear();
        self.domains = vec![Domain::default(); self.supply.domains.len()];
        self.fit_to_supply();
        self.restore_demands(&demands);
        for flow in self.flows.slots().collect::<Vec<_>>() {
            self.flows[flow].first_flow_queue = NONE;
        }
        self.capacity.sessions.clear();
        self.reassign_asks(&mut flow_queues, &fair_queues);
        self.recount_held(|_| true);
        for flow_queue in self.flow_queues.ids().collect::<Vec<_>>() {
            self.resume(flow_queue);
        }
        self.revise_reserves(self.clock);
        for flow_queue in self.flow_queues.ids().collect::<Vec<_>>() {
            self.weigh(flow_queue);
        }
    }

    /// Updates the places of backends that have moved in the supply, and recounts their stock. The
    /// pools are recounted when they are rebuilt.
    fn relocate_backends(&mut self) {
        let moved = self.supply.compact();
        self.supply.backends.iter_mut().for_each(|backend| backend.stock = 0);
        for slot in self.asks.slots().collect::<Vec<_>>() {
            let record = &mut self.asks[slot];
            if record.phase == Phase::InFlight {
                record.backend = moved[record.backend as usize];
                let stock = record.stock(self.settings.stock);
                self.supply.backends[record.backend as usize].stock += stock;
            }
        }
    }

    /// Moves every live ask to its new flow queue.
    fn reassign_asks(
        &mut self,
        flow_queues: &mut FlowQueues,
        fair_queues: &[[FairQueue; crate::BANDS]],
    ) {
        let mut slots: Vec<u32> = self.asks.slots().collect();
        slots.sort_by_key(|&slot| self.asks[slot].sequence);
        for slot in slots {
            let old = &mut flow_queues[self.asks[slot].flow_queue];
            let passed_by = std::mem::take(&mut old.passed_by);
            let FlowQueue { tag, flow, pool, band, .. } = *old;
            let was = &fair_queues[pool as usize][band.index()].clock;
            let Some(pool) = self.supply.pool_of(self.asks[slot].model_id()) else { continue };
            let at = self.flow_queue_for(QueueKey { flow, band, pool });
            self.asks[slot].flow_queue = at;
            self.flow_queues[at].passed_by.join(passed_by);
            let now = self.fair_queues[pool as usize][band.index()].clock.now();
            if tag != NEW {
                let tag = now.saturating_add(tag).saturating_sub(was.now()).max(NEW + 1);
                self.flow_queues[at].tag = self.flow_queues[at].tag.max(tag);
            }
            // The levels are new and have no charges of the asks in flight.
            self.asks[slot].units = 0;
            self.asks[slot].period = 1;
            self.asks[slot].session_period = 0;
            match self.asks[slot].phase {
                Phase::Waiting => self.enqueue_again(slot, at),
                _ => self.place_taken(at),
            }
        }
    }

    fn enqueue_again(&mut self, slot: u32, at: u32) {
        let cost = u64::from(self.asks[slot].cost);
        let (now, flow_queue) = (self.clock, &mut self.flow_queues[at]);
        flow_queue.ordered.insert(slot, RequeuePosition::Back, &mut self.asks);
        flow_queue.waiting += 1;
        flow_queue.cost_waiting += cost;
        let (flow, pool, band) = (flow_queue.flow, flow_queue.pool, flow_queue.band.index());
        let after = self.settings.overload_after;
        self.fair_queues[pool as usize][band].began_waiting(cost, after, now);
        self.domain_of(pool).began_waiting(now);
        if self.settings.order == Order::Session {
            self.capacity.session_joins(flow, band, self.asks[slot].session);
        }
        self.watch_prompt(slot);
    }

    /// Recounts the asks in flight of limited flows at each backend.
    fn recount_held(&mut self, of: impl Fn(u32) -> bool) {
        self.flows.release_all(&of);
        for slot in self.asks.slots().collect::<Vec<_>>() {
            let record = &self.asks[slot];
            let flow = self.flow_queues[record.flow_queue].flow;
            let limited = self.flows.is_limited_per_backend(flow);
            if record.phase == Phase::InFlight && limited && of(flow) {
                self.flows.hold(flow, record.backend);
            }
        }
    }
}
