//! Objectives: how long a waiting ask is fresh, which asks are refused at the door, and when a
//! grant comes too late for a client that leaves.

use super::Controller;
use super::admit::CheckedAsk;
use super::eligibility::QueueKey;
use crate::queue::asks::Limit;
use crate::start_time::StartTime;
use crate::time::{Span, Time};

// === impl Controller ===

impl Controller {
    /// When a new ask that waits can no longer make its objective. Without a configured objective
    /// it always can, whatever the client states.
    pub(super) fn fresh_until(&self, checked: &CheckedAsk<'_>, now: Time) -> Time {
        let CheckedAsk { ask, key, .. } = checked;
        let of_class = self.flows.policy(key.flow).objective;
        let configured = of_class.unwrap_or(self.settings.objectives[key.band.index()]);
        if configured == Span::FOREVER {
            return Time::NEVER;
        }
        let deadline = ask.deadline.map(|deadline| deadline.since(now));
        let objective = ask.objective.into_iter().chain(deadline).min().unwrap_or(configured);
        now.after(self.start_time(key.pool).patience(objective))
    }

    /// When the wait of an ask ends. At its own deadline a client leaves, so an ask that is granted
    /// less than the usual time to first token before it would be wasted work. A time to live says
    /// nothing about the client, so it stays. Nor does an ask without an objective leave earlier.
    pub(super) fn wait_ends(&self, checked: &CheckedAsk<'_>) -> Time {
        match checked.limit {
            _ if checked.fresh_until == Time::NEVER => checked.deadline,
            Limit::Ttl => checked.deadline,
            Limit::Client => checked.deadline.before(self.start_time(checked.key.pool).mean()),
        }
    }

    /// Whether an ask is refused because its line stands and it cannot make its objective.
    pub(super) fn is_refused_late(&mut self, checked: &CheckedAsk<'_>, now: Time) -> bool {
        let &CheckedAsk { key, fresh_until, .. } = checked;
        if fresh_until == Time::NEVER {
            return false;
        }
        let Some(at) = self.find_flow_queue(key) else { return false };
        let flow_queue = &self.flow_queues[at];
        if flow_queue.waiting == 0 || !flow_queue.line.stands(now) {
            return false;
        }
        // Asks that have become late are not ahead of it.
        self.first_ask_of(at, now);
        self.wait_for_turn(key, at, now).is_some_and(|wait| now.after(wait) > fresh_until)
    }

    /// The predicted time until the fresh asks of a flow have been served, and one more of them.
    fn wait_for_turn(&self, key: QueueKey, flow_queue: u32, now: Time) -> Option<Span> {
        let flow_queue = &self.flow_queues[flow_queue];
        let late = flow_queue.ordered.late();
        let (cost, count) = (flow_queue.cost_waiting - late.cost, flow_queue.waiting - late.count);
        self.wait_behind(key, cost + cost / u64::from(count.max(1)), now)
    }

    fn start_time(&self, pool: u32) -> &StartTime {
        let domain = self.supply.pools[pool as usize].domain;
        &self.domains[domain as usize].start_time
    }
}
