//! Offer to queue: bypass, wait or refuse.

use super::Controller;
use super::eligibility::QueueKey;
use super::prompts::RouteInput;
use super::routing::Route;
use crate::ask::{Ask, Band, COST_MAX, Ticket};
use crate::links::{Link, NONE};
use crate::outcome::{Eviction, Refusal, RequeuePosition, Verdict};
use crate::prompt_blocks::PromptBlocks;
use crate::queue::asks::{AskRecord, Asks, Limit, PROMPT_BLOCK, Phase, Wanted};
use crate::queue::flow_queue::FlowQueue;
use crate::settings::{Admission, Order};
use crate::time::{Span, Time};

/// An ask that has passed the checks that do not depend on load.
pub(super) struct CheckedAsk<'a> {
    pub(super) ask: &'a Ask,
    pub(super) blocks: &'a PromptBlocks,
    workload: u32,
    pub(super) key: QueueKey,
    /// When its wait would end, and the limit that would end it.
    pub(super) deadline: Time,
    pub(super) limit: Limit,
    /// When it wants its first token, once it has to wait.
    pub(super) wanted: Wanted,
}

/// The part of a full flow that loses an ask to a new one of the same flow.
enum OwnLoser {
    /// A lower band.
    Band(Band),
    /// A session of the same band.
    Session(u32),
}

// === impl Controller ===

impl Controller {
    /// Takes an ask: grants it at once, queues it, or refuses it.
    pub fn offer(&mut self, ask: Ask, now: Time) -> Verdict {
        self.offer_blocks(ask, PromptBlocks::UNKNOWN, now)
    }

    pub(super) fn offer_blocks(&mut self, ask: Ask, blocks: PromptBlocks, now: Time) -> Verdict {
        let now = self.advance(now);
        self.counters.offered += 1;
        let mut checked = match self.check(&ask, &blocks, now) {
            Ok(checked) => checked,
            Err(reason) => return self.refuse(reason, Span::ZERO),
        };
        let fewer_kept = self.note_arrival(checked.key, now);
        self.note_demand(checked.key.pool, ask.cost.clamp(1, COST_MAX) as u32, now);
        // A pool that is full for a new ask is full for those that wait, too: their bound is lower.
        let full = !self.supply.is_open(checked.key.pool, self.settings.bounds.to_bypass());
        let route = if full { None } else { self.bypass(&checked) };
        if route.is_none() {
            checked.wanted = self.wanted(&checked, now);
            checked.deadline = self.wait_ends(&checked);
            if let Err(reason) = self.make_room(&checked, now) {
                return self.refuse_to_queue(reason, checked.key, fewer_kept, now);
            }
        }
        let (slot, ticket) = self.admit(&checked, now);
        let pool = checked.key.pool;
        let Some(route) = &route else {
            self.counters.queued += 1;
            self.enqueue(slot, RequeuePosition::Back, now);
            // The asks that kept it from bypassing the queue may need other backends than it does.
            if !full && self.supply.is_open(pool, self.settings.bounds.to_dequeue()) {
                self.dispatch(self.supply.pools[pool as usize].domain, now);
            }
            return Verdict::Queued { ticket };
        };
        self.counters.bypassed += 1;
        self.grant(slot, route, None);
        // A small ask lowers the mean size, so that more asks may have room. Asks that wait for a
        // cache may find their prompt where this one went.
        let domain = self.supply.pools[pool as usize].domain;
        if self.is_reserving() || !blocks.is_empty() && self.holds_for_cache(domain) {
            self.dispatch(domain, now);
        }
        Verdict::Granted { ticket, backend: self.supply.backends[route.backend as usize].id }
    }

    /// Refuses an ask that may not wait. `fewer_kept` says whether its arrival frees kept places.
    fn refuse_to_queue(
        &mut self,
        reason: Refusal,
        key: QueueKey,
        fewer_kept: bool,
        now: Time,
    ) -> Verdict {
        let retry_after = self.retry_after(key, now);
        let flow = &mut self.flows[key.flow];
        flow.refused = flow.refused.saturating_add(1);
        if fewer_kept {
            self.dispatch(self.supply.pools[key.pool as usize].domain, now);
        }
        self.refuse(reason, retry_after)
    }

    fn refuse(&mut self, reason: Refusal, retry_after: Span) -> Verdict {
        self.counters.count_refusal(reason);
        Verdict::Refused { reason, retry_after }
    }

    fn check<'a>(
        &mut self,
        ask: &'a Ask,
        blocks: &'a PromptBlocks,
        now: Time,
    ) -> Result<CheckedAsk<'a>, Refusal> {
        let flow = self.flows.resolve(ask.flow).ok_or(Refusal::UnknownFlow)?;
        if self.closed {
            return Err(Refusal::ShuttingDown);
        }
        let pool = self.supply.pool_listed(ask.model).ok_or(Refusal::UnknownModel)?;
        if ask.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Refusal::DeadlineExceeded);
        }
        if self.asks.alive() >= Asks::ALIVE_MAX {
            return Err(Refusal::TooManyAsks);
        }
        let workload = self.registry.resolve(ask.workload.id);
        self.registry.arrived(workload, now);
        let expiry = now.after(ask.ttl.unwrap_or(self.flows.policy(flow).ttl));
        let (deadline, limit) = match ask.deadline {
            Some(deadline) if deadline < expiry => (deadline, Limit::Client),
            _ => (expiry, Limit::Ttl),
        };
        let key = QueueKey { flow, band: ask.band, pool };
        let wanted = Wanted::at_any_time(now);
        Ok(CheckedAsk { ask, blocks, workload, key, deadline, limit, wanted })
    }

    fn admit(&mut self, checked: &CheckedAsk<'_>, now: Time) -> (u32, Ticket) {
        let &CheckedAsk { ask, blocks, workload, key, deadline, limit, wanted } = checked;
        self.registry.began(workload);
        let flow_queue = self.flow_queue_for(key);
        self.see(flow_queue, now);
        let cost = ask.cost.clamp(1, COST_MAX) as u32;
        let (sequence, has_preference) = (self.next_sequence(), ask.has_preference());
        let (slot, record) = self.asks.take_slot();
        *record = AskRecord {
            fifo_link: Link::UNLINKED,
            wheel_link: Link::UNLINKED,
            deadline,
            wanted_by: wanted.by,
            flow_queue,
            cost,
            tokens: ask.tokens.clamp(1, COST_MAX) as u32,
            generation: record.generation,
            wheel_slot: 0,
            phase: Phase::Waiting,
            band: ask.band,
            limit,
            criticality: ask.workload.criticality_checked(),
            prompt_blocks: ask.prompt.div_ceil(PROMPT_BLOCK).min(u64::from(u16::MAX)) as u16,
            estimate: cost,
            period: 0,
            sequence,
            arrival: now,
            units: 0,
            model: ask.model.0 as u16,
            streamed: ask.streamed,
            has_preference,
            on_trial: false,
            workload,
            urgency_fifo: NONE,
            backend: NONE,
            session: ask.flow_session,
            session_period: 0,
            late: false,
            always_fresh: wanted.always_fresh,
            exception: false,
            kept: wanted.kept,
            granted: Time::NEVER,
        };
        let ticket = Ticket::new(slot, record.generation);
        if has_preference {
            self.preferences.insert(slot, ask.preference());
        }
        self.keep_prompt(slot, blocks);
        (slot, ticket)
    }

    /// The backend that can take the ask at once: its pool is open, and no waiting ask could use
    /// the room below the upper bound.
    fn bypass(&self, checked: &CheckedAsk<'_>) -> Option<Route> {
        let room = self.settings.bounds.to_bypass();
        let at_limit =
            self.flows[checked.key.flow].limited && self.flows.is_at_limit(checked.key.flow);
        if at_limit || !self.may_take_place(checked.key, room) {
            return None;
        }
        let domain = self.supply.pools[checked.key.pool as usize].domain;
        let is_queue = self.domains[domain as usize].waiting > 0;
        if is_queue && self.any_goes_before(checked.key, domain, room) {
            return None;
        }
        if self.is_delayed(checked, room) {
            return None;
        }
        let input = || RouteInput::of(checked.ask, checked.blocks);
        self.choose_backend((checked.key.flow, checked.ask.model), checked.key.pool, room, input)
    }

    /// Whether the ask may wait; evicts another ask for it if necessary.
    fn make_room(&mut self, checked: &CheckedAsk<'_>, now: Time) -> Result<(), Refusal> {
        let &CheckedAsk { key, deadline, limit, .. } = checked;
        let QueueKey { flow, band, .. } = key;
        let capacity = self.settings.capacity();
        if capacity == 0 {
            return Err(Refusal::QueueDisabled);
        }
        if self.settings.admission == Admission::CriticalOnly && band != Band::Critical {
            return Err(Refusal::NotCritical);
        }
        if deadline <= now {
            return Err(match limit {
                Limit::Ttl => Refusal::NoTimeToWait,
                // The deadline is ahead, but nearer than a first token usually is.
                Limit::Client => Refusal::WaitTooLong,
            });
        }
        let full = self.flows[flow].waiting_total() >= self.flows.policy(flow).capacity;
        let loser = || self.loser_in_flow(checked).ok_or(Refusal::FlowFull);
        let own = full.then(loser).transpose()?;
        let hopeless = |wait| now.after(wait) > deadline;
        let is_judged = self.settings.refuse_hopeless && band != Band::Critical;
        if is_judged && self.predicted_wait(key, now).is_some_and(hopeless) {
            return Err(Refusal::WaitTooLong);
        }
        if self.is_refused_late(checked, now) {
            return Err(Refusal::WaitTooLong);
        }
        let room = match own {
            // The ask takes the place of another one of its flow, so the total stays the same.
            Some(OwnLoser::Band(lower)) => self.preempt(flow, lower, now),
            Some(OwnLoser::Session(session)) => self.displace(key, session, now),
            None => self.capacity.total() < capacity || self.preempt_for(band, now),
        };
        if room {
            return Ok(());
        }
        match self.flows[flow].waiting_total() {
            0 => Err(Refusal::TooManyFlows),
            _ if self.settings.existing_flows_may_exceed_total => Ok(()),
            _ => Err(Refusal::QueueFull),
        }
    }

    /// The band in which a flow loses an ask to a new one of its own, if the flow is full.
    fn lower_band_of(&self, flow: u32, newcomer: Band) -> Option<Band> {
        let mut bands = self.capacity.bands_to_preempt(newcomer, &self.settings);
        bands.find(|band| self.flows[flow].waiting[band.index()] > 0)
    }

    /// The part of a full flow that loses an ask to a new one of the flow.
    fn loser_in_flow(&self, checked: &CheckedAsk<'_>) -> Option<OwnLoser> {
        let QueueKey { flow, band, .. } = checked.key;
        let lower = self.lower_band_of(flow, band).map(OwnLoser::Band);
        lower.or_else(|| {
            if self.settings.admission == Admission::UntilFull {
                return None;
            }
            let sessions = self.capacity.sessions.get(&(flow, band.index()))?;
            sessions.loser(checked.ask.flow_session).map(OwnLoser::Session)
        })
    }

    /// Evicts the newest ask of a session of a flow in a band.
    fn displace(&mut self, key: QueueKey, session: u32, now: Time) -> bool {
        let newest = self.newest_by(key.flow, key.band, |flow_queue| {
            flow_queue.ordered.newest_of_session(session, &self.asks)
        });
        newest.into_iter().for_each(|slot| self.evict(slot, Eviction::Displaced, now));
        newest.is_some()
    }

    fn preempt_for(&mut self, newcomer: Band, now: Time) -> bool {
        let band = self.capacity.bands_to_preempt(newcomer, &self.settings).next();
        let Some(band) = band else { return false };
        let at = band.index();
        let mut bounds = Vec::new();
        let flows = &self.flows;
        let ranking = &mut self.capacity.rankings[at];
        let victim = ranking
            .victim(|flow| flows[flow].waiting[at], |flow, bound| bounds.push((flow, bound)));
        for (flow, bound) in bounds {
            self.flows[flow].rank_bound[at] = bound;
        }
        victim.is_some_and(|flow| self.preempt(flow, band, now))
    }

    /// Evicts the newest ask of a flow in a band.
    fn preempt(&mut self, flow: u32, band: Band, now: Time) -> bool {
        let Some(slot) = self.newest_of(flow, band) else { return false };
        let at = band.index();
        self.capacity.rankings[at].stamp(flow);
        self.flows[flow].rank_bound[at] = u32::MAX;
        self.evict(slot, Eviction::Preempted, now);
        true
    }

    fn newest_of(&self, flow: u32, band: Band) -> Option<u32> {
        self.newest_by(flow, band, |flow_queue| flow_queue.ordered.newest(&self.asks))
    }

    /// The newest of the asks that `newest` finds in the flow queues of a flow in a band.
    fn newest_by(
        &self,
        flow: u32,
        band: Band,
        newest: impl FnMut(&FlowQueue) -> Option<u32>,
    ) -> Option<u32> {
        let flow_queues = self.flow_queues_of(flow).into_iter().map(|at| &self.flow_queues[at]);
        let of_band = flow_queues.filter(|flow_queue| flow_queue.band == band);
        of_band.filter_map(newest).max_by_key(|&slot| self.asks[slot].sequence)
    }

    /// Adds an admitted ask to its flow queue.
    pub(super) fn enqueue(&mut self, slot: u32, place: RequeuePosition, now: Time) {
        let record = &mut self.asks[slot];
        record.phase = Phase::Waiting;
        let (at, band, cost) = (record.flow_queue, record.band.index(), record.cost);
        self.wheel.insert(slot, &mut self.asks);
        let flow_queue = &mut self.flow_queues[at];
        flow_queue.ordered.insert(slot, place, &mut self.asks);
        flow_queue.cost_waiting += u64::from(cost);
        flow_queue.waiting += 1;
        let (flow, pool, first) = (flow_queue.flow, flow_queue.pool, flow_queue.waiting == 1);
        let counts = &mut self.flows[flow];
        counts.waiting[band] += 1;
        if counts.waiting[band] > counts.rank_bound[band] {
            let ranking = &mut self.capacity.rankings[band];
            counts.rank_bound[band] = ranking.raise(flow, counts.waiting[band]);
        }
        self.capacity.waiting[band] += 1;
        if self.settings.order == Order::Session {
            self.capacity.session_joins(flow, band, self.asks[slot].session);
        }
        self.domain_of(pool).began_waiting(now);
        let after = self.settings.overload_after;
        self.fair_queues[pool as usize][band].began_waiting(u64::from(cost), after, now);
        if first {
            self.flow_queues[at].passed_by.clear();
            self.join(at, cost);
        }
        self.watch_prompt(slot);
    }
}
