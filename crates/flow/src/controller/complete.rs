//! Backend to end: true-up, release and re-queueing.

use super::Controller;
use super::eligibility::QueueKey;
use crate::ask::{BackendId, COST_MAX, NO_WORK, Ticket, Usage};
use crate::outcome::{Eviction, Misuse, RequeuePosition, Stage};
use crate::queue::asks::{AskRecord, Phase};
use crate::supply::DETOURS_MAX;
use crate::time::Time;

/// The change of an ask's charge.
struct Recharge {
    pool: u32,
    difference: i64,
}

// === impl Controller ===

impl Controller {
    /// A stream has cost this much so far. Cost beyond the estimate is charged at once.
    pub fn charge(&mut self, ticket: Ticket, cost: u64, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let charged = self.asks[slot].cost;
        self.true_up(slot, charged.max(cost.min(COST_MAX) as u32), now);
        Ok(())
    }

    /// An ask in flight has ended, with this usage. Frees its place and grants the next ask.
    pub fn settle(&mut self, ticket: Ticket, usage: Usage, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let cost = match usage {
            Usage::Cost(cost) => cost.min(COST_MAX) as u32,
            Usage::Unknown | Usage::Failed => self.unconfirmed_cost(slot),
        };
        self.true_up(slot, cost, now);
        // A backend that fails asks at once would seem to be fast.
        let is_served = !matches!(usage, Usage::Cost(0) | Usage::Failed);
        if is_served {
            let at = &mut self.supply.backends[self.asks[slot].backend as usize];
            at.turnover.ended(at.in_flight_total(), now);
            let granted = self.asks[slot].granted;
            // No first token was seen.
            if granted != Time::NEVER {
                at.latency.whole.learn(now.since(granted), now);
            }
        }
        self.finish(slot, is_served, now);
        Ok(())
    }

    /// The client has left, or the ask cannot be sent: ends it, waiting or in flight. An ask in
    /// flight keeps its charge, because a flow with free grants could starve the others. If the
    /// actual cost is known, settle instead.
    pub fn cancel(&mut self, ticket: Ticket, now: Time) -> Result<Stage, Misuse> {
        let now = self.advance(now);
        let slot = self.asks.find(ticket).ok_or(Misuse::UnknownTicket)?;
        if self.asks[slot].phase == Phase::Waiting {
            self.counters.cancelled_waiting += 1;
            self.withdraw(slot);
            self.end(slot, now);
            return Ok(Stage::Waiting);
        }
        self.true_up(slot, self.unconfirmed_cost(slot), now);
        self.finish(slot, true, now);
        Ok(Stage::InFlight)
    }

    /// A backend failed the ask. The deadline stays, and the ask needs no room in the queue. At the
    /// back of its flow it avoids that backend, and those that it avoids already, while another one
    /// of its model is ready; [`Controller::widen`] ends this.
    ///
    /// The charge is refunded in full if the ask failed at once. Otherwise a flow whose asks end in
    /// errors after their work would get the backends for nothing. A failed trial keeps its charge,
    /// too: trials are scarce, and a flow that pays for none of them would get them all.
    pub fn requeue(
        &mut self,
        ticket: Ticket,
        place: RequeuePosition,
        now: Time,
    ) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let home = self.home_of(slot);
        let pool = match place {
            RequeuePosition::Back => self.detour_of(slot, home),
            RequeuePosition::Original => home,
        };
        self.take_back(slot, place, pool, now);
        Ok(())
    }

    /// Like [`Controller::requeue`], but the ask waits without any backend until
    /// [`Controller::widen`]. Its deadline ends this wait too.
    pub fn set_aside(
        &mut self,
        ticket: Ticket,
        place: RequeuePosition,
        now: Time,
    ) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let pool = self.supply.nowhere(self.home_of(slot));
        self.take_back(slot, place, pool, now);
        Ok(())
    }

    /// Lets a waiting ask use all backends of its model again, at its place in the queue.
    pub fn widen(&mut self, ticket: Ticket, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.asks.find(ticket).ok_or(Misuse::UnknownTicket)?;
        if self.asks[slot].phase == Phase::Waiting {
            let home = self.home_of(slot);
            self.move_to(slot, home, now);
            self.dispatch(self.supply.pools[home as usize].domain, now);
        }
        Ok(())
    }

    /// Lets a waiting ask wait without any backend until [`Controller::widen`], at its place in the
    /// queue.
    pub fn step_aside(&mut self, ticket: Ticket, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.asks.find(ticket).ok_or(Misuse::UnknownTicket)?;
        if self.asks[slot].phase == Phase::Waiting {
            let nowhere = self.supply.nowhere(self.home_of(slot));
            self.fit_to_supply();
            self.move_to(slot, nowhere, now);
        }
        Ok(())
    }

    /// The pool of all backends of the ask's model.
    fn home_of(&self, slot: u32) -> u32 {
        let pool = self.flow_queues[self.asks[slot].flow_queue].pool;
        self.supply.pool_of(self.asks[slot].model_id()).unwrap_or(pool)
    }

    /// The pool of an ask that a backend has failed: the one in which it waited, without that
    /// backend, so that one which failed it before is avoided as well. Few asks meet several, and
    /// theirs must leave room for the pools without one backend.
    fn detour_of(&mut self, slot: u32, home: u32) -> u32 {
        let AskRecord { backend, flow_queue, .. } = self.asks[slot];
        let waited = self.flow_queues[flow_queue].pool;
        let narrower = self.supply.detour(waited, backend, DETOURS_MAX / 2);
        narrower.or_else(|| self.supply.detour(home, backend, DETOURS_MAX)).unwrap_or(home)
    }

    /// Takes an ask back from its backend and lets it wait for the backends of a pool.
    fn take_back(&mut self, slot: u32, place: RequeuePosition, pool: u32, now: Time) {
        let (backend, left) = (self.asks[slot].backend, self.asks[slot].flow_queue);
        let cost = if self.failed_at_once(slot, now) { 0 } else { self.unconfirmed_cost(slot) };
        self.recharge(slot, cost);
        self.prompt_failed(slot);
        let (flow, was_at_limit) = self.release(slot);
        self.counters.requeued += 1;
        let band = self.flow_queues[self.asks[slot].flow_queue].band;
        self.fit_to_supply();
        self.asks[slot].flow_queue = self.flow_queue_for(QueueKey { flow, band, pool });
        self.asks[slot].cost = self.asks[slot].estimate;
        self.give_turn_back(slot, place, now);
        self.enqueue(slot, place, now);
        if self.closed {
            self.evict(slot, Eviction::ShuttingDown, now);
        }
        // The backend may have left the domains in which the ask waited and waits.
        for pool in [self.flow_queues[left].pool, pool] {
            self.dispatch(self.supply.pools[pool as usize].domain, now);
        }
        self.dispatch_after(backend, was_at_limit.then_some(flow), now);
    }

    /// Whether a backend that failed an ask did no work for it, and the ask took no trial.
    fn failed_at_once(&self, slot: u32, now: Time) -> bool {
        let AskRecord { on_trial, granted, .. } = self.asks[slot];
        !on_trial && granted != Time::NEVER && now.since(granted) < NO_WORK
    }

    /// The caller has sent an ask in flight to another backend: it counts there from now on. An
    /// unknown backend changes nothing.
    pub fn moved(&mut self, ticket: Ticket, to: BackendId, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let from = self.asks[slot].backend;
        let Some(to) = self.supply.find(to).filter(|&to| to != from) else { return Ok(()) };
        let record = &self.asks[slot];
        let (band, stock) = (record.band.index(), record.stock(self.settings.stock));
        let flow = self.flow_queues[record.flow_queue].flow;
        let limited = self.flows[flow].limited;
        self.prompt_failed(slot);
        self.prompt_left(slot);
        self.leave_model(slot);
        self.supply.give_back(from, band, stock, now);
        if self.is_auto() {
            self.count_end(slot);
        }
        if limited {
            self.limits_after_release(flow, from);
        }
        self.asks[slot].backend = to;
        self.supply.take(to, band, stock, now);
        self.use_model(slot);
        self.send_prompt(slot);
        if self.is_auto() {
            self.count_grant(slot);
        }
        if limited {
            self.limits_after_grant(flow, to);
        }
        self.dispatch(self.supply.backends[to as usize].domain, now);
        self.dispatch_after(from, limited.then_some(flow), now);
        Ok(())
    }

    pub(super) fn find_in_flight(&self, ticket: Ticket) -> Result<u32, Misuse> {
        match self.asks.get(ticket).ok_or(Misuse::UnknownTicket)?.phase {
            Phase::InFlight => Ok(ticket.slot()),
            _ => Err(Misuse::NotInFlight),
        }
    }

    /// Charges an ask in flight with its actual cost, which also corrects what was said to arrive.
    #[inline(always)]
    fn true_up(&mut self, slot: u32, cost: u32, now: Time) {
        if let Some(Recharge { pool, difference }) = self.recharge(slot, cost) {
            self.domain_of(pool).demand.corrected(difference, now);
        }
    }

    /// Takes the tokens that are expected to be cached out of the charge of a granted ask.
    #[inline(never)]
    pub(super) fn refund_cached(&mut self, slot: u32) {
        let cached = self.expected_cached(slot);
        if cached > 0 {
            let cost = self.asks[slot].cost.saturating_sub(cached).max(1);
            self.true_up(slot, cost, self.clock);
        }
    }

    /// The cost of an ask whose response has not confirmed what was refunded for a cache: prompts
    /// that only look cached must not cost less.
    fn unconfirmed_cost(&self, slot: u32) -> u32 {
        self.asks[slot].cost.max(self.asks[slot].estimate)
    }

    /// Sets the charge of an ask in flight, at every level; returns the change, if there is one.
    #[inline(always)]
    fn recharge(&mut self, slot: u32, cost: u32) -> Option<Recharge> {
        let ask = &mut self.asks[slot];
        let charged = std::mem::replace(&mut ask.cost, cost);
        if charged == cost {
            return None;
        }
        let at = ask.flow_queue;
        let difference = i64::from(cost) - i64::from(charged);
        let flow_queue = &mut self.flow_queues[at];
        flow_queue.ordered.true_up_session(ask, difference);
        let pool = flow_queue.pool;
        let fair_queue = &mut self.fair_queues[pool as usize][flow_queue.band.index()];
        let void = difference < 0 && flow_queue.active && ask.period != flow_queue.period;
        if !void {
            flow_queue.tag =
                fair_queue.clock.true_up(flow_queue.tag, flow_queue.weight, difference);
        }
        if flow_queue.active {
            let order = flow_queue.service_order(at);
            fair_queue.moved(order, flow_queue.over_share, &mut self.positions);
        }
        if self.hierarchical {
            self.charge_levels(slot, charged, cost);
        }
        Some(Recharge { pool, difference })
    }

    fn finish(&mut self, slot: u32, is_served: bool, now: Time) {
        let AskRecord { backend, cost, flow_queue, .. } = self.asks[slot];
        let domain = self.supply.pools[self.flow_queues[flow_queue].pool as usize].domain;
        if is_served {
            self.note_completed(domain, cost, now);
        }
        let (flow, was_at_limit) = self.release(slot);
        self.counters.settled += 1;
        self.end(slot, now);
        let dispatched = self.dispatch_after(backend, was_at_limit.then_some(flow), now);
        if domain != dispatched {
            // The backend has left the domain of the ask, where fewer places may be kept now.
            self.dispatch(domain, now);
        }
    }

    /// Returns the stock of an ask in flight; returns its flow, and whether that was at its limit.
    fn release(&mut self, slot: u32) -> (u32, bool) {
        self.leave_model(slot);
        self.prompt_left(slot);
        let AskRecord { backend, flow_queue, band, .. } = self.asks[slot];
        let stock = self.asks[slot].stock(self.settings.stock);
        self.supply.give_back(backend, band.index(), stock, self.clock);
        if self.is_auto() {
            self.count_end(slot);
        }
        self.place_freed(flow_queue);
        let flow = self.flow_queues[flow_queue].flow;
        let counts = &mut self.flows[flow];
        counts.in_flight -= 1;
        if !counts.limited {
            return (flow, false);
        }
        let was_at_limit = self.flows.was_at_limit(flow);
        self.limits_after_release(flow, backend);
        (flow, was_at_limit)
    }

    /// Ends an ask: only the flow's tag remains of it.
    #[inline(always)]
    pub(super) fn end(&mut self, slot: u32, now: Time) {
        let AskRecord { workload, has_preference, .. } = self.asks[slot];
        self.registry.ended(workload, now);
        if has_preference {
            self.preferences.remove(&slot);
        }
        self.first_arrivals.remove(&slot);
        self.forget_prompt(slot);
        self.asks.remove(slot);
    }

    /// Grants the asks that a release has made possible: in the domain of the backend, and in every
    /// domain where a flow waits that was at its limit. Returns the domain of the backend.
    fn dispatch_after(&mut self, backend: u32, was_at_limit: Option<u32>, now: Time) -> u32 {
        let domain = self.supply.backends[backend as usize].domain;
        self.dispatch(domain, now);
        if let Some(flow) = was_at_limit {
            self.dispatch_for(flow, now);
        }
        domain
    }

    /// Grants every ask that can go, in each domain where a flow waits.
    pub(super) fn dispatch_for(&mut self, flow: u32, now: Time) {
        let pools = self
            .flow_queues_of(flow)
            .into_iter()
            .map(|flow_queue| self.flow_queues[flow_queue].pool);
        let domains: Vec<u32> = pools.map(|pool| self.supply.pools[pool as usize].domain).collect();
        for (at, &domain) in domains.iter().enumerate() {
            if !domains[..at].contains(&domain) {
                self.dispatch(domain, now);
            }
        }
    }
}
