//! Offer to queue: bypass, wait or refuse.

use super::Controller;
use crate::ask::{Ask, Band, COST_MAX, Ticket, WorkloadId};
use crate::outcome::{Eviction, Place, Refusal, Verdict};
use crate::queue::NONE;
use crate::queue::asks::{AskRecord, Asks, Limit, Link, Phase};
use crate::settings::Admission;
use crate::time::{Span, Time};

/// An ask that has passed the checks which do not depend on load.
struct Candidate {
    flow: u32,
    pool: u32,
    claim: u32,
    record: AskRecord,
}

// === impl Controller ===

impl Controller {
    /// Takes an ask: grants it at once, lets it wait, or refuses it.
    pub fn offer(&mut self, ask: Ask, now: Time) -> Verdict {
        let now = self.advance(now);
        self.counters.offered += 1;
        let candidate = match self.check(&ask, now) {
            Ok(candidate) => candidate,
            Err(reason) => return self.refuse(reason, Span::ZERO),
        };
        if let Some(backend) = self.bypass(&candidate) {
            let (slot, ticket) = self.admit(candidate.record);
            self.counters.bypassed += 1;
            self.grant(slot, backend);
            let backend = self.supply.backends[backend as usize].id;
            return Verdict::Granted { ticket, backend };
        }
        if let Err(reason) = self.make_room(&candidate, now) {
            let retry_after = self.retry_after(candidate.claim, now);
            return self.refuse(reason, retry_after);
        }
        let (slot, ticket) = self.admit(candidate.record);
        self.counters.queued += 1;
        self.enqueue(slot, Place::Back, now);
        Verdict::Queued { ticket }
    }

    fn refuse(&mut self, reason: Refusal, retry_after: Span) -> Verdict {
        self.counters.count_refusal(reason);
        Verdict::Refused { reason, retry_after }
    }

    fn check(&mut self, ask: &Ask, now: Time) -> Result<Candidate, Refusal> {
        let flow = self.flows.resolve(ask.flow).ok_or(Refusal::UnknownFlow)?;
        if self.closed {
            return Err(Refusal::ShuttingDown);
        }
        if !self.supply.lists(ask.model) {
            return Err(Refusal::UnknownModel);
        }
        if ask.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Refusal::DeadlineExceeded);
        }
        if self.asks.alive() >= Asks::ALIVE_MAX {
            return Err(Refusal::TooManyAsks);
        }
        let pool = self.supply.pool_of(ask.model).ok_or(Refusal::UnknownModel)?;
        let claim = self.claim_for(flow, ask.band, pool);
        Ok(Candidate { flow, pool, claim, record: self.record(ask, claim, now) })
    }

    fn record(&mut self, ask: &Ask, claim: u32, now: Time) -> AskRecord {
        let known = self.registry.knows(ask.workload.id);
        let workload = if known { ask.workload.id } else { WorkloadId::GENERATED };
        self.registry.arrived(workload, now);
        let cost = ask.cost.clamp(1, COST_MAX) as u32;
        let class = self.settings.class(self.flows[self.claims[claim].flow].class);
        let expiry = now.after(ask.ttl.unwrap_or(class.ttl));
        let deadline = ask.deadline.unwrap_or(Time::NEVER);
        AskRecord {
            line: Link::LOOSE,
            wheel: Link::LOOSE,
            deadline: expiry.min(deadline),
            claim,
            cost,
            tokens: ask.tokens.clamp(1, COST_MAX) as u32,
            generation: 0,
            wheel_slot: 0,
            phase: Phase::Waiting,
            band: ask.band,
            limit: if deadline < expiry { Limit::Client } else { Limit::Ttl },
            criticality: ask.workload.criticality_checked(),
            returned: false,
            estimate: cost,
            sequence: self.next_sequence(),
            arrival: now,
            model: ask.model.0,
            workload: workload.0,
            urgency_line: NONE,
            backend: NONE,
        }
    }

    fn admit(&mut self, record: AskRecord) -> (u32, Ticket) {
        self.registry.began(WorkloadId(record.workload));
        self.asks.insert(record)
    }

    /// The backend that can take the ask at once: there is room below the upper bound, and nothing
    /// waits that could use it.
    fn bypass(&self, candidate: &Candidate) -> Option<u32> {
        let bound = self.settings.bounds.upper();
        let domain = self.supply.pools[candidate.pool as usize].domain;
        if self.domains[domain as usize].waiting > 0 && self.any_could_go(domain, bound) {
            return None;
        }
        if !self.supply.is_open(candidate.pool, bound) || self.is_at_limit(candidate.flow) {
            return None;
        }
        self.choose_backend(candidate.claim, bound)
    }

    /// Whether the ask may wait; evicts another one for it if need be.
    fn make_room(&mut self, candidate: &Candidate, now: Time) -> Result<(), Refusal> {
        let Candidate { flow, claim, ref record, .. } = *candidate;
        let capacity = self.settings.capacity();
        if capacity == 0 {
            return Err(Refusal::QueueDisabled);
        }
        if self.settings.admission == Admission::CriticalOnly && record.band != Band::Critical {
            return Err(Refusal::NotCritical);
        }
        if record.deadline <= now {
            return Err(Refusal::NoTimeToWait);
        }
        let class = self.settings.class(self.flows[flow].class);
        if self.flows[flow].waiting[record.band.index()] >= class.capacity {
            return Err(Refusal::FlowFull);
        }
        if self.settings.refuse_hopeless
            && self.predicted_wait(claim, now).is_some_and(|wait| now.after(wait) > record.deadline)
        {
            return Err(Refusal::WaitTooLong);
        }
        if self.capacity.total() < capacity || self.preempt_for(record.band, now) {
            return Ok(());
        }
        match self.flows[flow].waiting_total() {
            0 => Err(Refusal::TooManyFlows),
            _ if self.settings.existing_flows_may_exceed_total => Ok(()),
            _ => Err(Refusal::QueueFull),
        }
    }

    fn preempt_for(&mut self, newcomer: Band, now: Time) -> bool {
        let Some(band) = self.capacity.yielding(newcomer, &self.settings) else { return false };
        let at = band.index();
        let mut bounds = Vec::new();
        let flows = &self.flows;
        let ranking = &mut self.capacity.rankings[at];
        let victim = ranking
            .victim(|flow| flows[flow].waiting[at], |flow, bound| bounds.push((flow, bound)));
        for (flow, bound) in bounds {
            self.flows[flow].rank_bound[at] = bound;
        }
        let Some(flow) = victim else { return false };
        let Some(slot) = self.newest_of(flow, band) else { return false };
        self.capacity.rankings[at].stamp(flow);
        self.flows[flow].rank_bound[at] = u32::MAX;
        self.evict(slot, Eviction::Preempted, now);
        true
    }

    fn newest_of(&self, flow: u32, band: Band) -> Option<u32> {
        let claims = self.claims_of(flow).into_iter().map(|at| &self.claims[at]);
        let newest = claims.filter(|claim| claim.band == band);
        newest
            .filter_map(|claim| claim.line.newest(&self.asks))
            .max_by_key(|&slot| self.asks[slot].sequence)
    }

    /// Puts an admitted ask into its claim's line.
    pub(super) fn enqueue(&mut self, slot: u32, place: Place, now: Time) {
        let record = &mut self.asks[slot];
        record.phase = Phase::Waiting;
        let (claim, band, cost) = (record.claim, record.band.index(), record.cost);
        self.wheel.insert(slot, &mut self.asks);
        self.claims[claim].line.insert(slot, place, &mut self.asks);
        let flow = self.claims[claim].flow;
        let waiting = self.flows.began_waiting(flow, band);
        if waiting > self.flows[flow].rank_bound[band] {
            self.flows[flow].rank_bound[band] = self.capacity.rankings[band].raise(flow, waiting);
        }
        self.capacity.waiting[band] += 1;
        let pool = self.claims[claim].pool;
        self.domain_of(pool).began_waiting(now);
        self.rounds[pool as usize][band].cost_waiting += u64::from(cost);
        self.claims[claim].cost_waiting += u64::from(cost);
        self.claims[claim].waiting += 1;
        if self.claims[claim].waiting == 1 {
            self.join(claim, cost);
        }
    }
}
