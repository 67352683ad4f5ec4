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

// === impl Controller ===

impl Controller {
    /// Until when a waiting ask does not go, because a backend without room has its prompt.
    pub(super) fn delay_of(&self, slot: u32, now: Time) -> Option<Time> {
        let FlowQueue { flow, pool, band, .. } = self.flow_queues[self.asks[slot].flow_queue];
        let room = self.settings.bounds.to_dequeue();
        let first_since = self.prompts.get(slot as usize).and_then(|kept| kept.first_since);
        let since = first_since.unwrap_or(now);
        let is_over = since.after(self.settings.cache_delay) <= now;
        if is_over || self.asks[slot].deadline <= now || self.flows[flow].limited {
            return None;
        }
        let until = self.cache_awaited((pool, band), room, &self.route_input_of(slot), since)?;
        // It must not become late by this wait. If it is late already, it loses nothing.
        let fresh_until = self.asks[slot].fresh_until();
        let becomes_late = now < fresh_until && fresh_until <= until;
        (until > now && !becomes_late).then_some(until)
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
        let may_wait = self.settings.admission == Admission::All
            && self.settings.capacity() > 0
            && self.flows.policy(flow).capacity > 0
            && self.domains[domain as usize].waiting == 0;
        if !may_wait || !self.looks_for_cached() || self.flows[flow].limited {
            return false;
        }
        let input = RouteInput::of(checked.ask, checked.blocks);
        let until =
            self.cache_awaited((checked.key.pool, checked.key.band), room, &input, self.clock);
        let most = checked.deadline.min(checked.wanted.fresh_until());
        until.is_some_and(|until| until > self.clock && until < most)
    }

    /// Until when it is worth waiting for a backend without room, from a moment on: for as long as
    /// it takes to compute what no backend with room has, for the ask and for those it would delay.
    /// A critical ask waits only for its own sake.
    fn cache_awaited(
        &self,
        (pool, band): (u32, Band),
        room: Room,
        input: &RouteInput<'_>,
        since: Time,
    ) -> Option<Time> {
        if self.settings.cache_delay == Span::ZERO || input.blocks.is_empty() {
            return None;
        }
        let members = &self.supply.pools[pool as usize].members;
        let cached = |at: u32| {
            let held = self.supply.backends[at as usize].prefixes.held_of(input.blocks.hashes());
            input.blocks.tokens_of(held, input.tokens)
        };
        let (free, full): (Vec<u32>, Vec<u32>) =
            members.iter().partition(|&&at| self.supply.has_room(at, room));
        let in_flight = |&at: &u32| self.supply.backends[at as usize].in_flight_total();
        let delayed = match band {
            Band::Critical => 0,
            _ => free.iter().map(in_flight).min().unwrap_or(0),
        };
        let here = free.into_iter().map(cached).max().unwrap_or(0);
        let saves = |at: u32| {
            let rate = self.supply.backends[at as usize].prefill_rate.per_second();
            let more = cached(at).saturating_sub(here) as f64;
            Span::from_secs_f64(
                (1.0 + f64::from(delayed)) * more / rate.unwrap_or(PREFILL_RATE_UNKNOWN),
            )
        };
        let ready = full.into_iter().filter(|&at| self.supply.backends[at as usize].ready);
        let most = ready.map(saves).max()?.min(self.settings.cache_delay);
        Some(since.after(most))
    }

    /// Notes that asks which wait may go at this moment, though nothing else happens.
    pub(super) fn look_again_at(&mut self, at: Time) {
        self.look_again = Some(self.look_again.map_or(at, |known| known.min(at)));
    }
}
