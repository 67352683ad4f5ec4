//! An ask may wait a moment for the backend that has its prompt cached and no room.
//!
//! Elsewhere the prompt would be computed again: that delays the ask itself and all others there,
//! and a second copy takes the memory of other prompts. So the ask waits if a place is expected to
//! come free there sooner than that, and for no longer than the cache saves. A critical ask never
//! waits so. `docs/FLOW.md` section 17 has the rule.

use super::Controller;
use super::admit::CheckedAsk;
use super::prompts::RouteInput;
use crate::ask::{BackendId, Band};
use crate::queue::flow_queue::FlowQueue;
use crate::route::PREFILL_RATE_UNKNOWN;
use crate::settings::{Admission, Order, Room};
use crate::supply::Backend;
use crate::time::{Span, Time};

/// The wait of an ask for a cache, to be measured when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheWait {
    pub(crate) since: Time,
    /// The backend that has its prompt.
    backend: BackendId,
    /// The tokens of the prompt that a backend with room had cached, at most.
    elsewhere: u64,
    /// What the cache saves.
    saves: Span,
}

/// An ask does not go before this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) until: Time,
    pub(super) wait: CacheWait,
}

// === impl Controller ===

impl Controller {
    /// Why a waiting ask does not go yet: a backend without room has its prompt. The wait takes no
    /// more than half of the time until the ask would become late, or expire if it is late already.
    /// One that is not served anyway does not wait. The time counts from the first moment at which
    /// the ask, or any ask of its fair queue since the last grant, was held so.
    pub(super) fn delay_of(&self, slot: u32, now: Time) -> Option<Delay> {
        let ask = &self.asks[slot];
        let FlowQueue { flow, pool, band, .. } = self.flow_queues[ask.flow_queue];
        let fair_queue = &self.fair_queues[pool as usize][band.index()];
        let is_late = ask.is_late(now);
        if !self.may_wait_for_cache(band, flow)
            || is_late && self.overload_lasts(ask.flow_queue, now)
        {
            return None;
        }
        let known = self.prompts.get(slot as usize).and_then(|kept| kept.awaits);
        let since = known.map_or(now, |wait| wait.since);
        let from = since.min(fair_queue.held_since.unwrap_or(now));
        let room = self.settings.bounds.to_dequeue();
        let delay =
            self.cache_awaited(pool, room, &self.route_input_of(slot), (ask.arrival, from))?;
        let ends = if is_late { ask.deadline } else { ask.fresh_until().min(ask.deadline) };
        let until = delay.until.min(half_way(since, ends));
        let wait = CacheWait { since, ..delay.wait };
        (now < until).then_some(Delay { until, wait })
    }

    /// Whether a new ask is queued although there is room, because a backend without room has its
    /// prompt. It is not if it could not wait.
    pub(super) fn is_delayed(&self, checked: &CheckedAsk<'_>, room: Room) -> bool {
        let (flow, band) = (checked.key.flow, checked.key.band);
        let domain = self.supply.pools[checked.key.pool as usize].domain;
        let may_wait = self.settings.admission != Admission::CriticalOnly
            && self.settings.capacity() > 0
            && self.flows.policy(flow).capacity > 0
            && self.domains[domain as usize].waiting == 0;
        if !may_wait || !self.looks_for_cached() || !self.may_wait_for_cache(band, flow) {
            return false;
        }
        let input = RouteInput::of(checked.ask, checked.blocks);
        let now = self.clock;
        let delay = self.cache_awaited(checked.key.pool, room, &input, (now, now));
        let ends = checked.deadline.min(self.wanted(checked, now).fresh_until());
        delay.is_some_and(|delay| now < delay.until.min(half_way(now, ends)))
    }

    /// A critical ask goes as soon as a backend has room. In the order by workload the first ask is
    /// another one at every moment, so no ask has a turn that it could put off.
    fn may_wait_for_cache(&self, band: Band, flow: u32) -> bool {
        band != Band::Critical
            && self.settings.order != Order::Workload
            && !self.flows[flow].limited
    }

    /// Until when it is worth waiting for a backend without room: a place there is expected to come
    /// free within the time that it takes to compute what no backend with room has.
    ///
    /// This delays the asks in flight at that backend, too, and a copy of the prompt takes their
    /// memory. So the time counts for all of them, `from` the turn of the ask on. But a backend
    /// that has just come must not stay empty: while one has half as many asks in flight as a
    /// backend without room, it counts from the arrival on, and for the ask alone.
    fn cache_awaited(
        &self,
        pool: u32,
        room: Room,
        input: &RouteInput<'_>,
        (arrival, from): (Time, Time),
    ) -> Option<Delay> {
        if self.settings.cache_delay == Span::ZERO || input.blocks.is_empty() {
            return None;
        }
        let backends = &self.supply.backends;
        let members = &self.supply.pools[pool as usize].members;
        let cached = |backend: &Backend| {
            let held = backend.prefixes.held_of(input.blocks.hashes());
            input.blocks.tokens_of(held, input.tokens)
        };
        let (mut elsewhere, mut delayed, mut fullest) = (0, u32::MAX, 0);
        for &at in members {
            let backend = &backends[at as usize];
            if self.supply.has_room(at, room) {
                elsewhere = elsewhere.max(cached(backend));
                delayed = delayed.min(backend.in_flight_total());
            } else if backend.ready {
                fullest = fullest.max(backend.in_flight_total());
            }
        }
        let is_emptier = delayed.saturating_mul(2) <= fullest;
        let (from, delayed) = if is_emptier { (arrival.min(from), 0) } else { (from, delayed) };
        let worth = |backend: &Backend| {
            let more = cached(backend).saturating_sub(elsewhere) as f64;
            let rate = backend.prefill_rate.per_second().unwrap_or(PREFILL_RATE_UNKNOWN);
            let nanos = (1.0 + f64::from(delayed)) * more * 1e9 / rate;
            let saves = Span::from_nanos(nanos as u64).min(self.settings.cache_delay);
            let place = backend.turnover.expected_until(backend.in_flight_total(), saves)?;
            let until = from.after(saves).min(place);
            let wait = CacheWait { since: self.clock, backend: backend.id, elsewhere, saves };
            Some(Delay { until, wait })
        };
        let is_full = |&&at: &&u32| backends[at as usize].ready && !self.supply.has_room(at, room);
        let full = members.iter().filter(is_full).map(|&at| &backends[at as usize]);
        let full = full.filter(|backend| backend.cache_waits.are_worth_it(self.clock));
        full.filter_map(worth).max_by_key(|delay| delay.until)
    }

    /// Whether a fair queue of a domain is passed over because its asks wait for a cache.
    pub(super) fn holds_for_cache(&self, domain: u32) -> bool {
        let mut pools = self.supply.domains[domain as usize].iter();
        pools.any(|&pool| {
            self.fair_queues[pool as usize].iter().any(|fair| fair.held_since.is_some())
        })
    }

    /// An ask whose turn has come waits for a cache.
    pub(super) fn begins_cache_wait(&mut self, slot: u32, wait: CacheWait) {
        if let Some(kept) = self.prompts.get_mut(slot as usize) {
            kept.awaits.get_or_insert(wait);
        }
    }

    /// The wait of an ask for a cache, if it had one, is over: so many of its tokens are cached at
    /// the backend to which it goes, or it leaves. Where waits lose, those of others end, too.
    pub(super) fn end_cache_wait(&mut self, slot: u32, cached: u64) {
        let Some(kept) = self.prompts.get_mut(slot as usize) else { return };
        let Some(wait) = kept.awaits.take() else { return };
        let (now, waited) = (self.clock, self.clock.since(wait.since));
        let saved = if cached > wait.elsewhere { wait.saves } else { Span::ZERO };
        self.counters.count_cache_wait(waited, saved);
        let Some(at) = self.supply.find(wait.backend) else { return };
        if self.supply.backends[at as usize].cache_waits.ended(waited, saved, now) {
            self.look_again_at(now);
        }
    }

    /// Notes that asks which wait may go at this moment, though nothing else happens.
    pub(super) fn look_again_at(&mut self, at: Time) {
        self.look_again = Some(self.look_again.map_or(at, |known| known.min(at)));
    }
}

/// The middle between two moments; the first one if they are the other way round.
fn half_way(from: Time, to: Time) -> Time {
    from.after(Span::from_nanos(to.since(from).nanos() / 2))
}
