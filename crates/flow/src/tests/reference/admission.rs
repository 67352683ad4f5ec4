//! Offer to queue, and from the queue to nowhere.

use super::{Answer, FlowQueue, Outcome, Record, Reference};
use crate::ask::{Ask, Band, COST_MAX};
use crate::outcome::{Eviction, Refusal};
use crate::settings::{Admission, Cascade, Hysteresis, Order, Room};
use crate::time::{Span, Time};

// === impl Reference ===

impl Reference {
    pub(super) fn consider(&mut self, ask: &Ask, seen: Option<Refusal>) -> Result<Answer, Refusal> {
        let known = |at: &usize| self.flows[*at].known && self.flows[*at].id == ask.flow;
        let flow = (0..self.flows.len()).find(known).ok_or(Refusal::UnknownFlow)?;
        if self.closed {
            return Err(Refusal::ShuttingDown);
        }
        let pool = self.places.pool_of(ask.model).ok_or(Refusal::UnknownModel)?;
        if ask.deadline.is_some_and(|deadline| deadline <= self.clock) {
            return Err(Refusal::DeadlineExceeded);
        }
        let flow_queue = self.flow_queue_for(flow, pool, ask.band);
        let record = self.record(ask, flow_queue);
        if let Some(workload) = record.workload {
            self.registry.arrived(workload, self.clock);
        }
        self.note_arrival(flow_queue);
        if let Some(backend) = self.bypass(&record) {
            let at = self.admit(record);
            self.counters.bypassed += 1;
            let at_once = u32::from(self.has_spare_room(backend));
            self.overloads[pool][ask.band.index()].at_once += at_once;
            self.grant_bypass(at, backend);
            let backend = self.places.backends[backend].id;
            return Ok(Answer::Granted { name: self.asks[at].name, backend });
        }
        let refused_late = seen == Some(Refusal::WaitTooLong)
            && record.fresh_until < Time::NEVER
            && self.waiting().any(|at| self.asks[at].flow_queue == flow_queue)
            && self.overload_lasts(flow_queue);
        self.make_room(flow, &record, ask.band, refused_late)?;
        let at = self.admit(record);
        self.counters.queued += 1;
        self.enqueue(at);
        Ok(Answer::Queued { name: self.asks[at].name })
    }

    fn record(&mut self, ask: &Ask, flow_queue: usize) -> Record {
        let class = self.class_of(self.flow_queues[flow_queue].flow);
        let expiry = self.clock.after(ask.ttl.unwrap_or(class.ttl));
        let deadline = ask.deadline.unwrap_or(Time::NEVER);
        let cost = ask.cost.clamp(1, COST_MAX) as u32;
        let (wanted_by, fresh_until) = self.wanted(ask, self.flow_queues[flow_queue].flow);
        Record {
            name: self.names,
            waits: false,
            model: ask.model,
            backend: None,
            deadline: expiry.min(deadline),
            wanted_by,
            fresh_until,
            flow_queue,
            cost,
            estimate: cost,
            tokens: ask.tokens.clamp(1, COST_MAX),
            criticality: match ask.workload.criticality {
                given @ 1..=5 => given,
                _ => 3,
            },
            workload: self.registry.find(ask.workload.id),
            is_clients: deadline < expiry,
            sequence: self.next(),
            arrival: self.clock,
            sent: self.clock,
            units: 0,
            period: 0,
            session: ask.flow_session,
            session_period: None,
            prompt: self.offered_prompt(),
        }
    }

    /// The configured objective of a flow in a band.
    pub(super) fn objective_of(&self, flow: usize, band: Band) -> Option<Span> {
        let of_band = self.settings.objectives[band.index()];
        let objective = self.class_of(flow).objective.unwrap_or(of_band);
        (objective != Span::FOREVER).then_some(objective)
    }

    /// When an ask wants its first token, and until when it is fresh. It may wait for three
    /// quarters of its objective while no first token was seen. The quarter is in whole units of
    /// 1024 ns. A critical ask is always fresh.
    fn wanted(&self, ask: &Ask, flow: usize) -> (Time, Time) {
        let Some(configured) = self.objective_of(flow, ask.band) else {
            return (self.clock, Time::NEVER);
        };
        let stated = ask.objective.unwrap_or(configured);
        let wanted_by = self.clock.after(stated).min(ask.deadline.unwrap_or(Time::NEVER));
        let quarter = wanted_by.since(self.clock).nanos() / 4 / 1024;
        let quarter = Span::from_nanos(quarter.min(u64::from(u32::MAX)) * 1024);
        let fresh_until = match ask.band {
            Band::Critical => Time::NEVER,
            _ => wanted_by.before(quarter),
        };
        (wanted_by, fresh_until)
    }

    fn admit(&mut self, record: Record) -> usize {
        if let Some(workload) = record.workload {
            self.registry.began(workload);
        }
        self.names += 1;
        self.flow_queues[record.flow_queue].last_seen = Some(self.clock);
        self.use_flow_queue(record.flow_queue);
        self.asks.push(record);
        self.asks.len() - 1
    }

    fn bypass(&self, ask: &Record) -> Option<usize> {
        let flow_queue = ask.flow_queue;
        let Room::Below(bound) = self.settings.bounds.to_bypass() else { return None };
        let (flow, pool) = (self.flow_queues[flow_queue].flow, self.flow_queues[flow_queue].pool);
        let domain = self.places.domain_of(pool);
        let others = (0..self.flow_queues.len()).any(|at| {
            self.places.domain_of(self.flow_queues[at].pool) == domain
                && self.could_go(at, bound)
                && !self.is_held_beside(flow_queue, at)
        });
        let open = self.places.is_open(pool, bound);
        let kept = !self.reserve_allows(flow_queue, bound);
        if others || !open || kept || self.is_at_limit(flow) || self.is_delayed(ask, bound) {
            return None;
        }
        self.choose_backend(flow_queue, bound, &self.offered_prompt())
    }

    /// Whether a backend is filled to no more than three quarters of the bound.
    fn has_spare_room(&self, backend: usize) -> bool {
        let Room::Below(bound) = self.settings.bounds.to_bypass() else { return false };
        let stock = u128::from(self.places.backends[backend].stock) * u128::from(Hysteresis::ONE);
        4 * stock <= 3 * u128::from(bound)
    }

    /// Asks have waited for long, and grants go to fresh asks.
    pub(super) fn overload_lasts(&self, at: usize) -> bool {
        let FlowQueue { pool, band, .. } = self.flow_queues[at];
        let overload = &self.overloads[pool][band.index()];
        self.clock.since(overload.since) >= self.settings.overload_after
            && overload.fresh_share >= 0.25
    }

    /// Whether no ask waits in the fair queue of a flow queue.
    fn fair_queue_is_empty(&self, at: usize) -> bool {
        let FlowQueue { pool, band, .. } = self.flow_queues[at];
        self.waiting().all(|ask| {
            let other = &self.flow_queues[self.asks[ask].flow_queue];
            (other.pool, other.band) != (pool, band)
        })
    }

    /// An ask of this flow queue has stopped waiting.
    pub(super) fn note_emptied(&mut self, at: usize) {
        let FlowQueue { pool, band, .. } = self.flow_queues[at];
        if self.fair_queue_is_empty(at) {
            let overload = &mut self.overloads[pool][band.index()];
            (overload.emptied, overload.at_once) = (self.clock, 0);
            self.held_since[pool][band.index()] = None;
        }
    }

    fn make_room(
        &mut self,
        flow: usize,
        ask: &Record,
        band: Band,
        refused_late: bool,
    ) -> Result<(), Refusal> {
        let settings = &self.settings;
        let capacity = if settings.enabled { settings.total_capacity as usize } else { 0 };
        if capacity == 0 {
            return Err(Refusal::QueueDisabled);
        }
        if settings.admission == Admission::CriticalOnly && band != Band::Critical {
            return Err(Refusal::NotCritical);
        }
        if ask.deadline <= self.clock {
            return Err(Refusal::NoTimeToWait);
        }
        let of_flow: usize = Band::DESCENDING.map(|band| self.waiting_of(flow, band)).iter().sum();
        if of_flow >= self.class_of(flow).capacity as usize {
            let mut lower = self.bands_to_preempt(band).into_iter();
            let lower = lower.find(|&lower| self.waiting_of(flow, lower) > 0);
            let displaced = self.displaced_by(flow, band, ask.session);
            if lower.is_none() && displaced.is_none() {
                return Err(Refusal::FlowFull);
            }
            if refused_late {
                return Err(Refusal::WaitTooLong);
            }
            match (lower, displaced) {
                (Some(lower), _) => self.preempt(flow, lower),
                (None, displaced) => self.displace(displaced.expect("checked above")),
            }
            return Ok(());
        }
        if refused_late {
            return Err(Refusal::WaitTooLong);
        }
        if self.waiting().count() < capacity || self.preempt_below(band) {
            return Ok(());
        }
        if Band::DESCENDING.iter().all(|&band| self.waiting_of(flow, band) == 0) {
            return Err(Refusal::TooManyFlows);
        }
        let let_in = self.settings.existing_flows_may_exceed_total;
        if let_in { Ok(()) } else { Err(Refusal::QueueFull) }
    }

    /// The newest ask of the session with most waiting asks of a flow in a band, if another session
    /// has fewer than its share of them.
    fn displaced_by(&self, flow: usize, band: Band, session: u32) -> Option<usize> {
        let may_lose = self.settings.admission != Admission::UntilFull;
        if self.settings.order != Order::Session || !may_lose {
            return None;
        }
        let of_band = |&at: &usize| {
            let flow_queue = &self.flow_queues[self.asks[at].flow_queue];
            flow_queue.flow == flow && flow_queue.band == band
        };
        let waiting: Vec<usize> = self.waiting().filter(of_band).collect();
        let count = |of: u32| waiting.iter().filter(|&&at| self.asks[at].session == of).count();
        let mut sessions: Vec<u32> = waiting.iter().map(|&at| self.asks[at].session).collect();
        sessions.push(session);
        sessions.sort_unstable();
        sessions.dedup();
        if count(session) >= waiting.len() / sessions.len() {
            return None;
        }
        let most = sessions.into_iter().max_by_key(|&of| (count(of), of))?;
        let of_most = waiting.into_iter().filter(|&at| self.asks[at].session == most);
        of_most.max_by_key(|&at| self.asks[at].sequence)
    }

    fn displace(&mut self, at: usize) {
        self.counters.displaced += 1;
        self.remove(at, Eviction::Displaced);
    }

    fn waiting_of(&self, flow: usize, band: Band) -> usize {
        let flow_queues = self.waiting().map(|at| &self.flow_queues[self.asks[at].flow_queue]);
        flow_queues.filter(|flow_queue| flow_queue.flow == flow && flow_queue.band == band).count()
    }

    /// The bands below a new ask that have more asks than are safe, the lowest first.
    fn bands_to_preempt(&self, newcomer: Band) -> Vec<Band> {
        if self.settings.admission != Admission::All {
            return Vec::new();
        }
        let below = Band::DESCENDING.into_iter().rev().filter(|&band| band < newcomer);
        let more_than_safe = |band: &Band| {
            let waits = self.waiting().filter(|&at| self.band_of(&self.asks[at]) == *band).count();
            // Nothing is safe from a critical ask.
            newcomer == Band::Critical && waits > 0 || waits as u64 > self.protected(*band)
        };
        below.filter(more_than_safe).collect()
    }

    fn preempt_below(&mut self, newcomer: Band) -> bool {
        let Some(&band) = self.bands_to_preempt(newcomer).first() else { return false };
        let flows = (0..self.flows.len()).filter(|&at| self.waiting_of(at, band) > 0);
        let victim = flows.min_by_key(|&at| {
            let flow = &self.flows[at];
            let stamp = flow.preempted[band.index()];
            // Those never preempted differ by length, all others differ already.
            (stamp, std::cmp::Reverse(self.waiting_of(at, band)), flow.id.slot)
        });
        self.preempt(victim.expect("a band with something waiting has a flow"), band);
        true
    }

    /// Evicts the newest ask of a flow in a band.
    fn preempt(&mut self, victim: usize, band: Band) {
        let of_victim = |at: &usize| {
            let flow_queue = &self.flow_queues[self.asks[*at].flow_queue];
            flow_queue.flow == victim && flow_queue.band == band
        };
        let newest = self.waiting().filter(of_victim).max_by_key(|&at| self.asks[at].sequence);
        self.flows[victim].preempted[band.index()] = self.next();
        self.counters.preempted[band.index()] += 1;
        self.remove(newest.expect("the victim has something waiting"), Eviction::Preempted);
    }

    /// How many waiting asks of a band are safe: its share of the total, rounded down.
    fn protected(&self, band: Band) -> u64 {
        let Cascade::Weighted(weights) = &self.settings.cascade else { return 0 };
        let sum: u64 = weights.iter().map(|weight| u64::from(weight.units)).sum();
        let own = u64::from(weights[band.index()].units);
        u64::from(self.settings.total_capacity) * own / sum
    }

    fn use_flow_queue(&mut self, at: usize) {
        let stamp = self.next();
        self.flow_queues[at].used_since.get_or_insert(stamp);
    }

    pub(super) fn enqueue(&mut self, at: usize) {
        let (flow_queue, cost) = (self.asks[at].flow_queue, self.asks[at].cost);
        self.use_flow_queue(flow_queue);
        let first = self.waiting().all(|other| self.asks[other].flow_queue != flow_queue);
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        let begins = self.fair_queue_is_empty(flow_queue);
        let overload = &mut self.overloads[pool][band.index()];
        let after = self.settings.overload_after.nanos();
        let gap = self.clock.since(overload.emptied).nanos();
        if begins && (gap > after / 36 && overload.at_once >= 16 || gap > after / 6) {
            overload.since = self.clock;
        }
        self.session_begins(at);
        self.asks[at].waits = true;
        if first {
            self.flow_queues[flow_queue].passed_by.clear();
        }
        if first && self.limits_allow(flow_queue) {
            self.begin(flow_queue, Some(cost));
        }
    }

    pub(super) fn expire(&mut self, at: usize) {
        if self.asks[at].is_clients {
            self.counters.deadline_exceeded += 1;
            self.remove(at, Eviction::DeadlineExceeded);
        } else {
            self.counters.expired += 1;
            self.remove(at, Eviction::Expired);
        }
    }

    pub(super) fn give_up_late(&mut self, at: usize) {
        self.counters.too_late += 1;
        self.remove(at, Eviction::TooLate);
    }

    pub(super) fn shut_out(&mut self, at: usize) {
        self.counters.shut_down += 1;
        self.remove(at, Eviction::ShuttingDown);
    }

    fn remove(&mut self, at: usize, reason: Eviction) {
        self.outcomes.push(Outcome::Evicted { name: self.asks[at].name, reason });
        self.withdraw(at);
    }

    /// Ends a wait without a grant.
    pub(super) fn withdraw(&mut self, at: usize) {
        self.stop_waiting(at);
        self.end_cache_wait(at, 0);
        self.end(at);
    }

    /// Takes an ask out of its flow queue.
    pub(super) fn stop_waiting(&mut self, at: usize) {
        let flow_queue = self.asks[at].flow_queue;
        let domain = self.places.domain_of(self.flow_queues[flow_queue].pool);
        self.asks[at].waits = false;
        self.note_emptied(flow_queue);
        self.session_rests(at);
        let emptied = self.waiting().all(|other| self.asks[other].flow_queue != flow_queue);
        if emptied && self.flow_queues[flow_queue].takes_part {
            self.leave(flow_queue);
        }
        self.settle_levels(domain);
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        if self.held_since[pool][band.index()].is_some() {
            self.look_again_at(self.clock);
        }
    }

    /// An ask is over.
    pub(super) fn end(&mut self, at: usize) {
        let ask = self.asks.swap_remove(at);
        if let Some(workload) = ask.workload {
            self.registry.ended(workload, self.clock);
        }
    }
}
