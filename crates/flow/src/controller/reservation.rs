//! Reserved places: which asks may take the last free places of a pool.

use super::Controller;
use super::eligibility::QueueKey;
use crate::queue::fair_queue::Reach;
use crate::queue::flow_queue::FlowQueue;
use crate::reserve::{Arrival, slice_of};
use crate::settings::{Cascade, Room, Settings};
use crate::time::Time;
use crate::weight::Weight;

// === impl Controller ===

impl Controller {
    pub(crate) fn is_reserving(&self) -> bool {
        !self.settings.reserve.is_off()
    }

    /// The free places of a pool, counted only as far as the reserve needs to know.
    #[inline(always)]
    pub(super) fn free_places(&self, pool: u32, room: Room) -> u32 {
        let enough = self.reserves[pool as usize].kept_max() + 1;
        if enough == 1 { enough } else { self.supply.free_places(pool, room, enough) }
    }

    /// Under `auto`, the places of a backend as far as the reserve needs to know them.
    pub(super) fn known_places(&self, backend: u32) -> Option<u32> {
        if !self.is_reserving() {
            return None;
        }
        self.supply.backends[backend as usize].auto.known_places()
    }

    /// The most places that a pool of a backend keeps.
    pub(super) fn kept_at(&self, backend: u32) -> u32 {
        let pools = self.supply.backends[backend as usize].pools.iter();
        pools.map(|&pool| self.reserves[pool as usize].kept_max()).max().unwrap_or(0)
    }

    /// Whether a pool of a backend has no more free places than are kept.
    pub(super) fn keeps_places_of(&self, backend: u32) -> bool {
        let room = self.settings.bounds.to_dequeue();
        let mut pools = self.supply.backends[backend as usize].pools.iter();
        pools.any(|&pool| {
            let kept = self.reserves[pool as usize].kept_max();
            kept > 0 && self.free_places(pool, room) <= kept
        })
    }

    /// Which flow queues of a band may take one of so many free places; `None` if none may.
    pub(super) fn reach(&self, pool: u32, band: usize, free: u32) -> Option<Reach> {
        let kept = self.reserves[pool as usize].kept(band);
        match free {
            free if free > kept.from_over_share => Some(Reach::All),
            free if free > kept.from_all => Some(Reach::Light),
            _ => None,
        }
    }

    /// Whether a new ask may take a free place of its pool.
    pub(super) fn may_take_place(&self, key: QueueKey, room: Room) -> bool {
        let kept = self.reserves[key.pool as usize].kept(key.band.index());
        if kept.from_over_share == 0 {
            return true;
        }
        let known = self.find_flow_queue(key);
        let over_share = known.is_some_and(|at| self.flow_queues[at].over_share);
        self.free_places(key.pool, room) > kept.from(over_share)
    }

    /// Counts an ask that arrived. Returns whether fewer places are kept than before, so that asks
    /// may go: the new one in its turn, not behind them.
    pub(super) fn note_arrival(&mut self, key: QueueKey, now: Time) -> bool {
        if !self.is_reserving() {
            return false;
        }
        let arrival = Arrival { band: key.band.index(), light: self.is_light(key, now) };
        self.reserves[key.pool as usize].arrived(arrival, now);
        self.revise_reserve(key.pool, now)
    }

    /// Whether places are kept for an ask that arrives, from others of its band.
    fn is_light(&mut self, key: QueueKey, now: Time) -> bool {
        if !self.settings.reserve.for_flows {
            return false;
        }
        let known = self.find_flow_queue(key).map(|at| &self.flow_queues[at]);
        let over_share = known.is_some_and(|flow_queue| flow_queue.over_share);
        let own = known.map_or((0, 0), |known| (known.last_seen, known.weight.units));
        let reserve = &mut self.reserves[key.pool as usize];
        reserve.saw_others(key.band.index(), own, now) && !over_share
    }

    /// Remembers that an ask of a flow queue was admitted now.
    pub(super) fn see(&mut self, at: u32, now: Time) {
        if !self.settings.reserve.for_flows {
            return;
        }
        let FlowQueue { pool, band, weight, last_seen, .. } = self.flow_queues[at];
        let slice = slice_of(now);
        if slice != last_seen {
            self.reserves[pool as usize].saw(band.index(), weight.units, last_seen, now);
            self.flow_queues[at].last_seen = slice;
        }
    }

    /// A flow queue was granted an ask. Places are counted only while some are kept: settings that
    /// begin to keep some count all asks in flight again.
    #[inline(always)]
    pub(super) fn place_taken(&mut self, at: u32) {
        if self.is_reserving() {
            self.count_place_taken(at);
        }
    }

    #[inline(never)]
    fn count_place_taken(&mut self, at: u32) {
        let flow_queue = &mut self.flow_queues[at];
        flow_queue.in_flight += 1;
        let reserve = &mut self.reserves[flow_queue.pool as usize];
        let in_flight = &mut reserve.in_flight[flow_queue.band.index()];
        in_flight.all += 1;
        in_flight.over_share += u32::from(flow_queue.over_share);
        self.weigh(at);
    }

    /// An ask of a flow queue has left its place.
    #[inline(always)]
    pub(super) fn place_freed(&mut self, at: u32) {
        if self.is_reserving() {
            self.count_place_freed(at);
        }
    }

    #[inline(never)]
    fn count_place_freed(&mut self, at: u32) {
        let flow_queue = &mut self.flow_queues[at];
        flow_queue.in_flight -= 1;
        let FlowQueue { pool, band, over_share, .. } = *flow_queue;
        let in_flight = &mut self.reserves[pool as usize].in_flight[band.index()];
        in_flight.all -= 1;
        in_flight.over_share -= u32::from(over_share);
        let half_full = self.is_half_full(pool);
        self.reserves[pool as usize].ended(half_full, self.clock);
        self.revise_reserve(pool, self.clock);
        self.weigh(at);
    }

    /// Whether no more than half of the places of a pool are free.
    fn is_half_full(&self, pool: u32) -> bool {
        let half = (self.reserves[pool as usize].places() / 2).min(u64::from(u32::MAX) - 1) as u32;
        self.supply.free_places(pool, self.settings.bounds.to_dequeue(), half + 1) <= half
    }

    /// Finds out whether a flow queue holds more than its share. A flow that is limited per backend
    /// never counts so: its limit keeps places free.
    pub(super) fn weigh(&mut self, at: u32) {
        let FlowQueue { flow, pool, band, weight, in_flight, over_share, active, .. } =
            self.flow_queues[at];
        let reserve = &self.reserves[pool as usize];
        let is_over = self.settings.reserve.for_flows
            && !(self.flows[flow].limited && self.flows.is_limited_per_backend(flow))
            && reserve.is_over_share(band.index(), in_flight, weight.units, self.clock);
        if is_over == over_share {
            return;
        }
        let in_flight_here = &mut self.reserves[pool as usize].in_flight[band.index()];
        let counted = &mut in_flight_here.over_share;
        *counted = if is_over { *counted + in_flight } else { *counted - in_flight };
        self.flow_queues[at].over_share = is_over;
        if active {
            let order = self.flow_queues[at].service_order(at);
            let fair_queue = &mut self.fair_queues[pool as usize][band.index()];
            fair_queue.change_heap(order, is_over, &mut self.positions);
        }
    }

    /// Gives a flow queue another weight.
    pub(super) fn change_weight(&mut self, at: u32, to: Weight) {
        let FlowQueue { pool, band, weight, last_seen, .. } = self.flow_queues[at];
        self.reserves[pool as usize].forget(band.index(), weight.units, last_seen);
        self.flow_queues[at].weight = to;
        self.flow_queues[at].last_seen = 0;
    }

    /// Counts the kept places of a pool again if that is due; returns whether fewer are kept.
    fn revise_reserve(&mut self, pool: u32, now: Time) -> bool {
        if !self.reserves[pool as usize].is_due(now) {
            return false;
        }
        let Settings { bounds, stock, reserve, cascade, .. } = &self.settings;
        // Pools with different numbers would compete for each place that comes free, and the one
        // with the larger number would get none.
        let shared = self.supply.is_shared(pool);
        let places = if shared { 0 } else { self.supply.places(pool, bounds.to_dequeue(), *stock) };
        let by_weight = *cascade != Cascade::Strict;
        self.reserves[pool as usize].revise(places, reserve, by_weight, now)
    }

    /// Counts the kept places of every pool, because backends or settings have changed: no place
    /// that is kept now may be given away before. The next arrival may know more, and counts again.
    pub(super) fn revise_reserves(&mut self, now: Time) {
        if !self.is_reserving() {
            return;
        }
        for pool in 0..self.reserves.len() as u32 {
            self.reserves[pool as usize].make_due();
            self.revise_reserve(pool, now);
            self.reserves[pool as usize].make_due();
        }
    }
}
