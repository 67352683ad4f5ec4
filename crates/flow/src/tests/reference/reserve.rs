//! Reserved places, from lists of everything that happened.

use super::{FlowQueue, Reference};
use crate::ask::{BANDS, Band};
use crate::reserve::Demand;
use crate::settings::{Cascade, Hysteresis, Room, StockUnit};
use crate::time::{Span, Time};

/// The window has four slices of five seconds, the present one included.
const SLICE: u64 = 5_000_000_000;

/// What happened at one pool.
#[derive(Default)]
pub(super) struct PoolLog {
    /// When an ask came, its band, and whether its flow counted as light.
    arrivals: Vec<(Time, usize, bool)>,
    ends: Vec<Time>,
    /// When the asks in flight of each band were counted, all and those of light flows.
    samples: Vec<(Time, [[u32; 2]; BANDS])>,
    revise_at: Time,
    places: u64,
    /// Of each band, the places kept from light flows and from the others.
    kept: [[u32; 2]; BANDS],
}

/// Whether a moment lies in the window that ends now.
fn is_recent(then: Time, now: Time) -> bool {
    now.nanos() / SLICE - then.nanos() / SLICE < 4
}

// === impl Reference ===

impl Reference {
    fn is_reserving(&self) -> bool {
        self.settings.reserve.share_max > 0.0
    }

    /// Whether enough places are free for an ask of a flow queue.
    pub(super) fn reserve_allows(&self, at: usize, bound: u64) -> bool {
        let FlowQueue { pool, band, over_share, .. } = self.flow_queues[at];
        let kept = self.logs[pool].kept[band.index()][usize::from(over_share)];
        self.free_places(pool, bound) > u128::from(kept)
    }

    fn free_places(&self, pool: usize, bound: u64) -> u128 {
        let members = self.places.pools[pool].iter().map(|&at| &self.places.backends[at]);
        let ready: Vec<_> = members.filter(|backend| backend.ready).collect();
        if ready.iter().any(|backend| backend.stock == 0) {
            return u128::MAX;
        }
        let stock: u128 = ready.iter().map(|backend| u128::from(backend.stock)).sum();
        let bound = u128::from(bound) * ready.len() as u128;
        let left = bound.div_ceil(u128::from(Hysteresis::ONE)).saturating_sub(stock);
        let in_flight: u32 = ready.iter().flat_map(|backend| backend.in_flight).sum();
        (left * u128::from(in_flight)).div_ceil(stock.max(1))
    }

    fn places_of(&self, pool: usize) -> u64 {
        let Room::Below(bound) = self.settings.bounds.to_dequeue() else { return 0 };
        let members = self.places.pools[pool].iter().map(|&at| &self.places.backends[at]);
        let ready: Vec<_> = members.filter(|backend| backend.ready).collect();
        let stock: u64 = ready.iter().map(|backend| backend.stock).sum();
        let in_flight: u32 = ready.iter().flat_map(|backend| backend.in_flight).sum();
        let bound = (bound * ready.len() as u64).div_ceil(Hysteresis::ONE);
        match self.settings.stock {
            StockUnit::Requests => bound,
            StockUnit::Tokens if stock == 0 => 0,
            StockUnit::Tokens => bound * u64::from(in_flight) / stock,
        }
    }

    /// An ask came for a flow queue.
    pub(super) fn note_arrival(&mut self, at: usize) {
        if !self.is_reserving() {
            return;
        }
        let FlowQueue { pool, band, over_share, .. } = self.flow_queues[at];
        let others = self.recent_weight(pool, band, Some(at)) > 0;
        self.logs[pool].arrivals.push((self.clock, band.index(), !over_share && others));
        self.revise(pool);
    }

    /// The weights of the flow queues of which an ask was admitted lately.
    fn recent_weight(&self, pool: usize, band: Band, except: Option<usize>) -> u64 {
        let here = |&at: &usize| {
            let flow_queue = &self.flow_queues[at];
            let seen = flow_queue.last_seen.is_some_and(|seen| is_recent(seen, self.clock));
            seen && flow_queue.pool == pool && flow_queue.band == band && Some(at) != except
        };
        let known = |&at: &usize| self.flows[self.flow_queues[at].flow].known;
        let seen = (0..self.flow_queues.len()).filter(here).filter(known);
        seen.map(|at| u64::from(self.flow_queues[at].weight.units)).sum()
    }

    /// An ask of a flow queue was sent, or left its place.
    pub(super) fn weigh(&mut self, at: usize) {
        let FlowQueue { flow, pool, band, weight, .. } = self.flow_queues[at];
        let units = u128::from(weight.units);
        let weights = u128::from(self.recent_weight(pool, band, None)).max(units) + (1 << 16);
        let holds = u128::from(self.in_flight_of(at));
        let places = u128::from(self.logs[pool].places);
        self.flow_queues[at].over_share = self.settings.reserve.for_flows
            && self.class_of(flow).in_flight_per_backend_max.is_none()
            && places > 0
            && holds * weights > places * units;
    }

    fn in_flight_of(&self, at: usize) -> u32 {
        let there = |ask: &&super::Record| ask.backend.is_some() && ask.flow_queue == at;
        self.asks.iter().filter(there).count() as u32
    }

    pub(super) fn place_freed(&mut self, at: usize) {
        let pool = self.flow_queues[at].pool;
        let Room::Below(bound) = self.settings.bounds.to_dequeue() else { return };
        if self.free_places(pool, bound) <= u128::from(self.logs[pool].places / 2) {
            self.logs[pool].ends.push(self.clock);
        } else {
            self.logs[pool].ends.clear();
        }
        if self.is_reserving() {
            self.revise(pool);
        }
        self.weigh(at);
    }

    /// Backends have changed.
    pub(super) fn revise_all(&mut self) {
        if !self.is_reserving() {
            return;
        }
        for pool in 0..self.logs.len() {
            self.logs[pool].revise_at = Time::ZERO;
            self.revise(pool);
            self.logs[pool].revise_at = Time::ZERO;
        }
    }

    fn revise(&mut self, pool: usize) {
        let now = self.clock;
        if now < self.logs[pool].revise_at {
            return;
        }
        let sample = self.count_in_flight(pool);
        let places = if self.places.is_shared(pool) { 0 } else { self.places_of(pool) };
        let log = &mut self.logs[pool];
        log.samples.push((now, sample));
        log.revise_at = now.after(Span::from_millis(250));
        log.places = places;
        self.logs[pool].kept = self.kept(pool);
    }

    fn count_in_flight(&self, pool: usize) -> [[u32; 2]; BANDS] {
        let mut counts = [[0; 2]; BANDS];
        for at in 0..self.flow_queues.len() {
            let FlowQueue { band, over_share, .. } = self.flow_queues[at];
            if self.flow_queues[at].pool == pool {
                let count = self.in_flight_of(at);
                counts[band.index()][0] += count;
                counts[band.index()][1] += count * u32::from(!over_share);
            }
        }
        counts
    }

    fn kept(&self, pool: usize) -> [[u32; 2]; BANDS] {
        let (log, limits) = (&self.logs[pool], &self.settings.reserve);
        let most = (log.places as f64 * limits.share_max) as u32;
        let ends = log.ends.iter().filter(|&&end| is_recent(end, self.clock)).count();
        let few = log.places / 16;
        let start = if (ends as u64) < few { few as u32 } else { 0 };
        let ends = ends as f64 / self.window_length(pool);
        let alone: [[u32; 2]; BANDS] = std::array::from_fn(|band| {
            let above = (band + 1..BANDS).map(|above| self.demand(pool, above, false));
            let above = above.rev().fold(Demand::default(), Demand::plus);
            let protected = limits.least[band + 1..].iter().copied().filter(|&least| least > 0);
            let least = protected.map(|least| least.max(start)).max().unwrap_or(0);
            let light = above.plus(self.demand(pool, band, true));
            let all = above.places_needed(ends).max(least);
            let light = light.places_needed(ends).max(all).max(3 * start);
            [all, if limits.for_flows { light } else { all }].map(|kept| kept.min(most))
        });
        if self.settings.cascade != Cascade::Strict {
            // No band is put off for another one.
            let most = alone.iter().map(|kept| kept[1]).max().unwrap_or(0);
            return [[0, if limits.for_flows { most } else { 0 }]; BANDS];
        }
        // No band has fewer places kept from it than the band above.
        std::array::from_fn(|band| {
            [0, 1].map(|class| alone[band..].iter().map(|kept| kept[class]).max().unwrap_or(0))
        })
    }

    fn window_length(&self, pool: usize) -> f64 {
        let present = Span::from_nanos(self.clock.nanos() % SLICE);
        let whole = Span::from_nanos(SLICE).secs_f64() * 3.0 + present.secs_f64();
        let first = self.logs[pool].arrivals.first().map_or(self.clock, |arrival| arrival.0);
        whole.min(self.clock.since(first).secs_f64().max(2.0))
    }

    fn demand(&self, pool: usize, band: usize, light: bool) -> Demand {
        let log = &self.logs[pool];
        let arrivals = log.arrivals.iter().filter(|&&(at, of, is_light)| {
            is_recent(at, self.clock) && of == band && (is_light || !light)
        });
        let samples = log.samples.iter().filter(|&&(at, _)| is_recent(at, self.clock));
        let counts: Vec<u32> =
            samples.map(|(_, counts)| counts[band][usize::from(light)]).collect();
        let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        Demand {
            arrivals_per_second: arrivals.count() as f64 / self.window_length(pool),
            in_flight: sum as f64 / counts.len().max(1) as f64,
        }
    }
}
