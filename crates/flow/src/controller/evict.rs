//! Queue to end without a grant: expiry, preemption, shutdown.

use super::Controller;
use super::eligibility::QueueKey;
use crate::outcome::{Event, Eviction};
use crate::queue::asks::{Limit, Phase};
use crate::queue::flow_queue::FlowQueue;
use crate::settings::Order;
use crate::time::Time;

// === impl Controller ===

impl Controller {
    /// Handles the passing of time: evicts asks past their deadline, and marks asks as started that
    /// must have started by now.
    pub fn wake(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some(slot) = self.wheel.due(now, &mut self.asks) {
            match self.asks[slot].phase {
                Phase::InFlight => self.presume_started(slot, now),
                _ => self.expire(slot, now),
            }
        }
    }

    /// Shuts down: evicts every waiting ask and refuses new ones. Asks in flight are still settled
    /// as they end.
    pub fn close(&mut self, now: Time) {
        let now = self.advance(now);
        self.closed = true;
        let mut waiting: Vec<u32> = self.waiting_slots();
        waiting.sort_by_key(|&slot| self.asks[slot].sequence);
        for slot in waiting {
            self.evict(slot, Eviction::ShuttingDown, now);
        }
    }

    pub(super) fn waiting_slots(&self) -> Vec<u32> {
        self.slots_in(Phase::Waiting)
    }

    pub(super) fn in_flight_slots(&self) -> Vec<u32> {
        self.slots_in(Phase::InFlight)
    }

    fn slots_in(&self, phase: Phase) -> Vec<u32> {
        self.asks.slots().filter(|&slot| self.asks[slot].phase == phase).collect()
    }

    #[inline(never)]
    pub(super) fn expire(&mut self, slot: u32, now: Time) {
        let reason = match self.asks[slot].limit {
            Limit::Ttl => Eviction::Expired,
            Limit::Client => Eviction::DeadlineExceeded,
        };
        self.evict(slot, reason, now);
    }

    #[inline(never)]
    pub(super) fn evict(&mut self, slot: u32, reason: Eviction, now: Time) {
        let FlowQueue { flow, band, pool, .. } = self.flow_queues[self.asks[slot].flow_queue];
        // While it still counts as waiting: a guess is based on the asks that wait.
        let retry_after = self.retry_after(QueueKey { flow, band, pool }, now);
        self.withdraw(slot);
        self.counters.count_eviction(reason, self.asks[slot].band.index());
        let flow = &mut self.flows[flow];
        flow.refused = flow.refused.saturating_add(1);
        let ticket = self.asks.ticket(slot);
        self.end(slot, now);
        self.events.push_back(Event::Evicted { ticket, reason, retry_after });
    }

    /// Takes an ask out of the queue that will not be granted.
    pub(super) fn withdraw(&mut self, slot: u32) {
        self.dequeue(slot);
        let flow_queue = self.asks[slot].flow_queue;
        if self.flow_queues[flow_queue].waiting == 0 {
            self.deactivate(flow_queue);
        }
        // It may have been the one for which others waited.
        if self.fair_queue_of(flow_queue).held_since.is_some() {
            self.look_again_at(self.clock);
        }
    }

    /// Takes an ask out of its flow queue and out of every count of waiting asks. The flow queue
    /// stays active; the grant that follows, or [`Self::withdraw`], deactivates it.
    pub(super) fn dequeue(&mut self, slot: u32) {
        self.wheel.remove(slot, &mut self.asks);
        let record = &self.asks[slot];
        let (at, band, cost) = (record.flow_queue, record.band.index(), u64::from(record.cost));
        let flow_queue = &mut self.flow_queues[at];
        flow_queue.ordered.remove(slot, &mut self.asks);
        self.warm.remove(slot);
        flow_queue.waiting -= 1;
        flow_queue.cost_waiting -= cost;
        let (flow, pool) = (flow_queue.flow, flow_queue.pool);
        self.fair_queues[pool as usize][band].stopped_waiting(cost, self.clock);
        let hierarchical = self.hierarchical;
        let domain = self.domain_of(pool);
        domain.stopped_waiting();
        if hierarchical {
            domain.rest();
        }
        self.flows[flow].waiting[band] -= 1;
        self.capacity.waiting[band] -= 1;
        if self.settings.order == Order::Session {
            self.capacity.session_leaves(flow, band, self.asks[slot].session);
        }
    }
}
