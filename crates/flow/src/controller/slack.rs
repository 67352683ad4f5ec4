//! Which ask goes next, if the prompt of another one is cached at a backend with room.
//!
//! Under saturation one place opens at a time, so there is nothing to choose among backends. Here
//! the ask is chosen instead: among the flow queues whose tag is at most the slack above that of
//! the flow queue whose turn it is, and inside a flow queue among its fresh asks, of which each is
//! passed by few others at most. `docs/FLOW.md` section 17 has the bounds.

use super::Controller;
use super::delays::Delay;
use super::models::Turn;
use crate::queue::flow_queue::FlowQueue;
use crate::settings::Settings;
use crate::time::{Span, Time};
use crate::weight::Weight;

/// The most flow queues that are compared for one grant.
const COMPARED_MAX: usize = 64;

/// The ask that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextAsk {
    pub(super) flow_queue: u32,
    pub(super) slot: u32,
    /// The tag of the flow queue whose turn it is, if that is another one.
    pub(super) overtaken: Option<u64>,
}

/// What happens in the turn of a flow queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// This ask goes.
    Goes(NextAsk),
    /// Every ask that may go waits for a backend that has its prompt cached. Other fair queues go.
    Held,
    /// No ask of the domain goes.
    Waits,
}

// === impl Controller ===

impl Controller {
    /// The ask that goes, if it is the turn of this flow queue.
    pub(super) fn next_ask(&mut self, turn: u32, now: Time) -> Next {
        let Some(slot) = self.first_ask_of(turn, now) else { return Next::Waits };
        let next = NextAsk { flow_queue: turn, slot, overtaken: None };
        if self.settings.model_stay > Span::ZERO {
            match self.turn_of(turn, slot, now) {
                Turn::Goes => {}
                Turn::Passed(next) => return Next::Goes(next),
                Turn::Waits => return Next::Waits,
            }
        }
        if self.looks_for_cached() { self.next_cached(next, now) } else { Next::Goes(next) }
    }

    /// The ask that goes, among those that may pass the one whose turn it is.
    #[inline(never)]
    fn next_cached(&mut self, next: NextAsk, now: Time) -> Next {
        let NextAsk { flow_queue: turn, slot, .. } = next;
        let delay = self.delay_of(slot, now);
        // An ask that is delayed goes after all others.
        delay.into_iter().for_each(|delay| self.put_off(slot, delay));
        let caches = self.caches_with_room(self.flow_queues[turn].pool);
        let all_cold = caches.is_empty() || self.reorders() && self.warm.all_cold();
        if delay.is_none() && all_cold {
            self.fair_queue_of(turn).held_since = None;
            return Next::Goes(next);
        }
        let within = self.within_slack(turn, self.settings.cache_slack);
        let first = (slot, delay.is_some());
        let Some((flow_queue, slot)) = self.search(first, (within, caches), now) else {
            self.fair_queue_of(turn).held_since.get_or_insert(now);
            return Next::Held;
        };
        self.fair_queue_of(turn).held_since = None;
        self.count_pass(flow_queue, slot, now);
        let overtaken = (flow_queue != turn).then_some(self.flow_queues[turn].tag);
        Next::Goes(NextAsk { flow_queue, slot, overtaken })
    }

    /// Counts that an ask goes before others of its flow queue, if it does.
    fn count_pass(&mut self, flow_queue: u32, slot: u32, now: Time) {
        let Some(first) = self.first_ask_of(flow_queue, now).filter(|&first| first != slot) else {
            return;
        };
        let [turn, first] = [slot, first].map(|slot| self.asks[slot].turn());
        self.flow_queues[flow_queue].passed_by.add(turn, first);
    }

    /// The turn of an ask has come, and it waits for a cache.
    pub(super) fn put_off(&mut self, slot: u32, delay: Delay) {
        self.begins_cache_wait(slot, delay.wait);
        self.look_again_at(delay.until);
    }

    /// Whether asks are chosen for their cached prompts at all.
    pub(super) fn looks_for_cached(&self) -> bool {
        let Settings { cache_slack, cache_reorder, .. } = self.settings;
        (cache_slack > 0 || cache_reorder > 0) && self.settings.cache_tokens > 0
    }

    /// The flow queues that may go: the one whose turn it is, and those within the slack.
    pub(super) fn within_slack(&self, turn: u32, slack: u32) -> Vec<u32> {
        let FlowQueue { pool, band, tag: least, .. } = self.flow_queues[turn];
        let fair_queue = &self.fair_queues[pool as usize][band.index()];
        let slack = Weight::ONE.stretch(slack);
        // The charge of a grant ahead of a flow queue that is held back has a rule of its own.
        let is_held_back = fair_queue.least_over_share().is_some_and(|held| held < least);
        if slack == 0 || is_held_back {
            return vec![turn];
        }
        let room = self.settings.bounds.to_dequeue();
        let free = self.free_places(pool, room);
        let Some(reach) = self.reach(pool, band.index(), free) else { return vec![turn] };
        let has_room = |backend| self.supply.has_room(backend, room);
        let within = fair_queue.up_to(least.saturating_add(slack), (reach, COMPARED_MAX), has_room);
        within.into_iter().map(|order| order.flow_queue).collect()
    }

    /// The backends of a pool that have room and anything cached.
    fn caches_with_room(&self, pool: u32) -> Vec<u32> {
        let room = self.settings.bounds.to_dequeue();
        let members = self.supply.pools[pool as usize].members.iter().copied();
        let has_cache = |at: &u32| {
            self.supply.has_room(*at, room)
                && !self.supply.backends[*at as usize].prefixes.is_empty()
        };
        members.filter(has_cache).collect()
    }
}
