//! Objectives: how long a waiting ask is fresh, which new asks are refused because they would be
//! late, and when too little time is left before the deadline of a client.

use super::Controller;
use super::admit::CheckedAsk;
use super::eligibility::QueueKey;
use crate::ask::Band;
use crate::outcome::RequeuePosition;
use crate::queue::asks::{Limit, Wanted};
use crate::queue::flow_queue::FlowQueue;
use crate::queue::ordered_asks::AskSum;
use crate::start_time::StartTime;
use crate::time::{Span, Time};

// === impl Controller ===

impl Controller {
    /// When a new ask that waits wants its first token. Without a configured objective it has no
    /// such time, whatever the client states. An objective that the client states replaces the
    /// configured one. A deadline can only shorten it: it says when the client leaves, and not that
    /// the client is content to wait until then. A critical ask has its turn by its objective, but
    /// never loses it.
    #[inline(always)]
    pub(super) fn wanted(&self, checked: &CheckedAsk<'_>, now: Time) -> Wanted {
        let &CheckedAsk { ask, key, .. } = checked;
        let configured = self.objective_of(key);
        if configured == Span::FOREVER {
            return Wanted::at_any_time(now);
        }
        let mut objective = ask.objective.unwrap_or(configured);
        if let Some(deadline) = ask.deadline {
            objective = objective.min(deadline.since(now));
        }
        let kept = self.start_time(key.pool).kept(objective);
        let always_fresh = key.band == Band::Critical;
        Wanted { by: now.after(objective), kept, always_fresh }
    }

    /// The configured objective; [`Span::FOREVER`] is none.
    fn objective_of(&self, key: QueueKey) -> Span {
        let of_class = self.flows.policy(key.flow).objective;
        of_class.unwrap_or(self.settings.objectives[key.band.index()])
    }

    /// A backend gives an ask back. Its turn had come, so it is never late. At its old place it
    /// goes before all asks that were not granted yet. At the back it is like an ask that arrives
    /// now and states no objective.
    pub(super) fn give_turn_back(&mut self, slot: u32, place: RequeuePosition, now: Time) {
        self.asks[slot].always_fresh = true;
        self.asks[slot].wanted_by = self.asks[slot].arrival;
        if place == RequeuePosition::Back {
            let FlowQueue { flow, band, pool, .. } = self.flow_queues[self.asks[slot].flow_queue];
            let objective = self.objective_of(QueueKey { flow, band, pool });
            let objective = Some(objective).filter(|&objective| objective != Span::FOREVER);
            let sequence = self.next_sequence();
            let ask = &mut self.asks[slot];
            self.first_arrivals.entry(slot).or_insert(ask.arrival);
            (ask.sequence, ask.arrival) = (sequence, now);
            ask.wanted_by = now.after(objective.unwrap_or(Span::ZERO));
        }
    }

    /// When the wait of an ask ends. At its own deadline a client leaves, so an ask that is granted
    /// less than the usual time to first token before it would be wasted work. A time to live says
    /// nothing about the client, so it stays. Nor does an ask leave earlier that is never late: the
    /// usual time is a guess.
    pub(super) fn wait_ends(&self, checked: &CheckedAsk<'_>) -> Time {
        match checked.limit {
            _ if checked.wanted.always_fresh => checked.deadline,
            Limit::Ttl => checked.deadline,
            Limit::Client => checked.deadline.before(self.start_time(checked.key.pool).mean()),
        }
    }

    /// Whether an ask is refused because the overload lasts and it cannot make its objective. A
    /// prediction is rough. A wrong refusal costs a response in time, a wrong admission only a
    /// place in the queue, so the predicted wait must exceed the patience by half.
    pub(super) fn is_refused_late(&mut self, checked: &CheckedAsk<'_>, now: Time) -> bool {
        let &CheckedAsk { key, wanted, .. } = checked;
        if wanted.always_fresh {
            return false;
        }
        let Some(at) = self.find_flow_queue(key) else { return false };
        if self.flow_queues[at].waiting == 0 || !self.overload_lasts(at, now) {
            return false;
        }
        // Asks that have become late are not ahead of it.
        self.first_ask_of(at, now);
        let refused_from = half_more(wanted.fresh_until().since(now));
        let is_late_behind = |ahead: AskSum| {
            self.wait_for_turn(key, ahead, now).is_some_and(|wait| wait > refused_from)
        };
        let ordered = &self.flow_queues[at].ordered;
        let fresh = self.flow_queues[at].fresh();
        is_late_behind(fresh)
            && is_late_behind(fresh.less(ordered.wanted_after(wanted.by, &self.asks)))
    }

    /// Whether the overload lasts in the fair queue of a flow queue, so that late asks are not
    /// served.
    pub(super) fn overload_lasts(&self, flow_queue: u32, now: Time) -> bool {
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        let overload = &self.fair_queues[pool as usize][band.index()].overload;
        overload.lasts(self.settings.overload_after, now)
    }

    /// The predicted time until these asks of a flow have been served, and one more of them.
    fn wait_for_turn(&self, key: QueueKey, ahead: AskSum, now: Time) -> Option<Span> {
        let mean = ahead.cost / u64::from(ahead.count.max(1));
        self.wait_behind(key, ahead.cost + mean, now)
    }

    fn start_time(&self, pool: u32) -> &StartTime {
        let domain = self.supply.pools[pool as usize].domain;
        &self.domains[domain as usize].start_time
    }
}

fn half_more(span: Span) -> Span {
    Span::from_nanos(span.nanos().saturating_add(span.nanos() / 2))
}
