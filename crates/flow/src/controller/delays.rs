//! An ask may wait a moment for the backend that has its prompt cached and no room.
//!
//! Elsewhere the prompt would be computed again: that delays the ask itself and all others there,
//! and a second copy takes the memory of other prompts. So the ask waits for as long as the cache
//! saves, and no longer. `docs/FLOW.md` section 17 has the rule.

use super::Controller;
use super::admit::CheckedAsk;
use super::prompts::RouteInput;
use crate::ask::Band;
use crate::queue::flow_queue::FlowQueue;
use crate::route::PREFILL_RATE_UNKNOWN;
use crate::settings::{Admission, Room};
use crate::time::{Span, Time};

/// The ask that may wait.
#[derive(Clone, Copy, Debug)]
struct CacheWait {
    band: Band,
    arrival: Time,
    /// Since when it has been the first of its flow queue.
    turn: Time,
}

// === impl Controller ===

impl Controller {
    /// Until when a waiting ask does not go, because a backend without room has its prompt. The
    /// wait takes no more than half of the time until the ask would become late, or expire if it is
    /// late already. One that is not served anyway does not wait. Between two grants a fair queue
    /// is held for `cache_delay` at most.
    pub(super) fn delay_of(&self, slot: u32, now: Time) -> Option<Time> {
        let ask = &self.asks[slot];
        let FlowQueue { flow, pool, band, .. } = self.flow_queues[ask.flow_queue];
        let fair_queue = &self.fair_queues[pool as usize][band.index()];
        let is_late = ask.is_late(now);
        let is_evicted = is_late && fair_queue.overload.lasts(self.settings.overload_after, now);
        if is_evicted || self.flows[flow].limited {
            return None;
        }
        let kept = self.prompts.get(slot as usize);
        let turn = kept.and_then(|kept| kept.first_since).unwrap_or(now);
        let wait = CacheWait { band, arrival: ask.arrival, turn };
        let room = self.settings.bounds.to_dequeue();
        let until = self.cache_awaited(pool, room, &self.route_input_of(slot), wait)?;
        let ends = if is_late { ask.deadline } else { ask.fresh_until().min(ask.deadline) };
        // In other orders than that of arrival, each ask that becomes the first would wait anew.
        let held = fair_queue.held_since.unwrap_or(now);
        let until = until.min(held.after(self.settings.cache_delay));
        Some(until.min(half_way(turn, ends))).filter(|&until| now < until)
    }

    /// An ask is the first of its flow queue: from now on it waits for a cache no longer than
    /// `cache_delay`.
    pub(super) fn is_first_from(&mut self, slot: u32, now: Time) {
        if let Some(kept) = self.prompts.get_mut(slot as usize) {
            kept.first_since.get_or_insert(now);
        }
    }

    /// Whether a new ask is queued although there is room, because a backend without room has its
    /// prompt. It is not if it could not wait.
    pub(super) fn is_delayed(&self, checked: &CheckedAsk<'_>, room: Room) -> bool {
        let flow = checked.key.flow;
        let domain = self.supply.pools[checked.key.pool as usize].domain;
        let may_wait = self.settings.admission != Admission::CriticalOnly
            && self.settings.capacity() > 0
            && self.flows.policy(flow).capacity > 0
            && self.domains[domain as usize].waiting == 0;
        if !may_wait || !self.looks_for_cached() || self.flows[flow].limited {
            return false;
        }
        let input = RouteInput::of(checked.ask, checked.blocks);
        let now = self.clock;
        let wait = CacheWait { band: checked.key.band, arrival: now, turn: now };
        let until = self.cache_awaited(checked.key.pool, room, &input, wait);
        let ends = checked.deadline.min(self.wanted(checked, now).fresh_until());
        until.is_some_and(|until| now < until.min(half_way(now, ends)))
    }

    /// Until when it is worth waiting for a backend without room: for as long as it takes to
    /// compute what no backend with room has.
    ///
    /// This delays the asks in flight at that backend, too, and a copy of the prompt takes their
    /// memory. So the wait counts for all of them, from the turn of the ask on. A critical ask
    /// waits only for its own sake. But a backend that has just come must not stay empty: while one
    /// has half as many asks in flight as a backend without room, the wait counts from the arrival
    /// on, and for the ask alone.
    fn cache_awaited(
        &self,
        pool: u32,
        room: Room,
        input: &RouteInput<'_>,
        wait: CacheWait,
    ) -> Option<Time> {
        if self.settings.cache_delay == Span::ZERO || input.blocks.is_empty() {
            return None;
        }
        let backends = &self.supply.backends;
        let cached = |at: u32| {
            let held = backends[at as usize].prefixes.held_of(input.blocks.hashes());
            input.blocks.tokens_of(held, input.tokens)
        };
        let members = &self.supply.pools[pool as usize].members;
        let (mut here, mut delayed, mut fullest) = (0, u32::MAX, 0);
        for &at in members {
            let in_flight = backends[at as usize].in_flight_total();
            if self.supply.has_room(at, room) {
                here = here.max(cached(at));
                delayed = delayed.min(in_flight);
            } else if backends[at as usize].ready {
                fullest = fullest.max(in_flight);
            }
        }
        let (since, delayed) = match wait.band {
            _ if delayed.saturating_mul(2) <= fullest => (wait.arrival, 0),
            Band::Critical => (wait.turn, 0),
            _ => (wait.turn, delayed),
        };
        let saves = |&at: &u32| {
            let rate = backends[at as usize].prefill_rate.per_second();
            let more = cached(at).saturating_sub(here) as f64;
            let seconds = more / rate.unwrap_or(PREFILL_RATE_UNKNOWN);
            Span::from_secs_f64((1.0 + f64::from(delayed)) * seconds)
        };
        let is_full = |&&at: &&u32| backends[at as usize].ready && !self.supply.has_room(at, room);
        let most = members.iter().filter(is_full).map(saves).max()?;
        Some(since.after(most.min(self.settings.cache_delay)))
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
