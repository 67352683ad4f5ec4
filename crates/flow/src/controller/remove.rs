//! Queue to nowhere: expiry, preemption, shutdown.

use super::Controller;
use super::turn::Spot;
use crate::outcome::{Event, Eviction};
use crate::queue::asks::{Limit, Phase};
use crate::queue::claim::Claim;
use crate::time::Time;

// === impl Controller ===

impl Controller {
    /// Time has passed: evicts what is past its deadline, and presumes what must have begun.
    pub fn wake(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some(slot) = self.wheel.due(now, &mut self.asks) {
            match self.asks[slot].phase {
                Phase::InFlight => self.begin(slot, false, now),
                _ => self.expire(slot, now),
            }
        }
    }

    /// Shuts down: everyone who waits is told, and new asks are refused. Asks in flight are still
    /// settled as they end.
    pub fn close(&mut self, now: Time) {
        let now = self.advance(now);
        self.closed = true;
        let mut waiting: Vec<u32> = self.waiting_slots();
        waiting.sort_by_key(|&slot| self.asks[slot].sequence);
        for slot in waiting {
            self.evict(slot, Eviction::ShuttingDown, now);
        }
    }

    fn waiting_slots(&self) -> Vec<u32> {
        self.slots_in(Phase::Waiting)
    }

    pub(super) fn in_flight_slots(&self) -> Vec<u32> {
        self.slots_in(Phase::InFlight)
    }

    fn slots_in(&self, phase: Phase) -> Vec<u32> {
        self.asks.slots().filter(|&slot| self.asks[slot].phase == phase).collect()
    }

    pub(super) fn expire(&mut self, slot: u32, now: Time) {
        let reason = match self.asks[slot].limit {
            Limit::Ttl => Eviction::Expired,
            Limit::Client => Eviction::DeadlineExceeded,
        };
        self.evict(slot, reason, now);
    }

    pub(super) fn evict(&mut self, slot: u32, reason: Eviction, now: Time) {
        self.withdraw(slot);
        self.counters.count_eviction(reason, self.asks[slot].band.index());
        let ticket = self.asks.ticket(slot);
        let Claim { flow, band, pool, .. } = self.claims[self.asks[slot].claim];
        let retry_after = self.retry_after(Spot { flow, band, pool }, now);
        self.end(slot, now);
        self.events.push_back(Event::Evicted { ticket, reason, retry_after });
    }

    /// Takes a waiting ask that will not be granted out of the queue.
    pub(super) fn withdraw(&mut self, slot: u32) {
        self.take_out(slot);
        let claim = self.asks[slot].claim;
        if self.claims[claim].waiting == 0 {
            self.deactivate(claim);
        }
    }

    /// Takes a waiting ask out of its line and out of every count of what waits. Its claim stays
    /// in its round; the grant that follows, or [`Self::withdraw`], sees to that.
    pub(super) fn take_out(&mut self, slot: u32) {
        self.wheel.remove(slot, &mut self.asks);
        let record = &self.asks[slot];
        let (at, band, cost) = (record.claim, record.band.index(), u64::from(record.cost));
        let claim = &mut self.claims[at];
        claim.line.remove(slot, &mut self.asks);
        claim.waiting -= 1;
        claim.cost_waiting -= cost;
        let (flow, pool) = (claim.flow, claim.pool);
        self.rounds[pool as usize][band].cost_waiting -= cost;
        let levelled = self.levelled;
        let domain = self.domain_of(pool);
        domain.stopped_waiting();
        if levelled {
            domain.rest();
        }
        self.flows[flow].waiting[band] -= 1;
        self.capacity.waiting[band] -= 1;
    }
}
