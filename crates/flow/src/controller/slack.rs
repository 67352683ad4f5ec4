//! Which ask goes next, if the prompt of another one is cached at a backend with room.
//!
//! Under saturation one place opens at a time, so there is nothing to choose among backends. Here
//! the ask is chosen instead: among the flow queues whose tag is at most the slack above that of
//! the flow queue whose turn it is, and inside a flow queue among its next asks, of which each is
//! passed by few others at most. `docs/FLOW.md` section 17 has the bounds.

use super::Controller;
use super::delays::Delay;
use super::models::Turn;
use super::prompts::AskPrompt;
use crate::queue::flow_queue::FlowQueue;
use crate::settings::Settings;
use crate::time::{Span, Time};
use crate::weight::Weight;

/// The most flow queues that are compared for one grant.
const COMPARED_MAX: usize = 64;
/// The most asks that are compared for one grant, in equal parts from the flow queues.
const LOOK_MAX: usize = 256;
/// An ask goes before one with an earlier turn only if more of its prompt is cached by one part in
/// this many. Smaller differences come from estimates: asks with the same beginning would be served
/// in a random order, and some would wait until they may no longer be passed.
const MORE_BY: u64 = 16;
/// Each ask is compared with the cache of each backend. In a large pool fewer asks are compared, so
/// that a grant stays short.
const LOOKUPS_MAX: usize = 4096;

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

/// The best ask found so far.
struct Best {
    next: NextAsk,
    /// Its tokens that are cached; `None` if it is delayed.
    cached: Option<u64>,
    /// The asks of its flow queue whose turn is before its own.
    passes: Vec<u32>,
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
        let pool = self.flow_queues[turn].pool;
        let caches = self.caches_with_room(pool);
        if delay.is_none() && caches.is_empty() {
            self.fair_queue_of(turn).held_since = None;
            return Next::Goes(next);
        }
        let cached = if delay.is_none() { self.cached_at(&caches, slot, None) } else { None };
        let mut best = Best { next, cached, passes: Vec::new() };
        let within = self.within_slack(turn, self.settings.cache_slack);
        let members = self.supply.pools[pool as usize].members.len();
        let look = LOOK_MAX.min(LOOKUPS_MAX / members.max(1));
        let count = (look / within.len().max(1)).max(1);
        let mut line = Vec::with_capacity(count);
        for flow_queue in within {
            self.next_asks_of(flow_queue, count, now, &mut line);
            self.look_for_cached(flow_queue, (&line, &caches), now, &mut best);
        }
        if best.cached.is_none() {
            self.fair_queue_of(turn).held_since.get_or_insert(now);
            return Next::Held;
        }
        self.fair_queue_of(turn).held_since = None;
        for &slot in &best.passes {
            if let Some(kept) = self.prompts.get_mut(slot as usize) {
                kept.passed += 1;
            }
        }
        let least = self.flow_queues[turn].tag;
        let overtaken = (best.next.flow_queue != turn).then_some(least);
        Next::Goes(NextAsk { overtaken, ..best.next })
    }

    /// The turn of an ask has come, and it waits for a cache.
    fn put_off(&mut self, slot: u32, delay: Delay) {
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

    /// The next asks of a flow queue, the first one first, into `line`.
    fn next_asks_of(&mut self, flow_queue: u32, count: usize, now: Time, line: &mut Vec<u32>) {
        line.clear();
        let Some(first) = self.first_ask_of(flow_queue, now) else { return };
        self.flow_queues[flow_queue].ordered.next_fresh(count, now, &self.asks, line);
        if line.first() != Some(&first) {
            line.clear();
            line.push(first);
        }
    }

    /// Looks for an ask with more of its prompt cached among the next asks of a flow queue.
    fn look_for_cached(
        &mut self,
        flow_queue: u32,
        (line, caches): (&[u32], &[u32]),
        now: Time,
        best: &mut Best,
    ) {
        let mut passed_most = 0;
        for (at, &slot) in line.iter().enumerate() {
            if at > 0 && passed_most >= self.settings.cache_reorder {
                return;
            }
            // Asks from before the caches were looked at have no prompt.
            let kept = self.prompts.get(slot as usize);
            passed_most = passed_most.max(kept.map_or(0, |kept| kept.passed));
            let enough = best.cached.map(|known| known + known / MORE_BY);
            let cached = self.cached_at(caches, slot, enough);
            if cached.is_none() {
                continue;
            }
            match self.delay_of(slot, now) {
                Some(delay) if at == 0 => self.put_off(slot, delay),
                Some(_) => {}
                None => {
                    let next = NextAsk { flow_queue, slot, overtaken: None };
                    *best = Best { next, cached, passes: line[..at].to_vec() };
                }
            }
        }
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

    /// The most tokens of an ask's prompt that one of these backends has cached for it, if they are
    /// more than `than`. Whether they are is known from one block, so most asks cost one lookup.
    fn cached_at(&self, caches: &[u32], slot: u32, than: Option<u64>) -> Option<u64> {
        let Some(AskPrompt { blocks, .. }) = self.prompts.get(slot as usize) else {
            return than.is_none().then_some(0);
        };
        let tokens = self.asks[slot].prompt();
        let decisive = match than {
            Some(than) => Some(blocks.block_beyond(than, tokens)?),
            None => None,
        };
        let flow = self.flow_queues[self.asks[slot].flow_queue].flow;
        let limited = self.flows[flow].limited;
        let held_at = |&at: &u32| {
            let prefixes = &self.supply.backends[at as usize].prefixes;
            let counts = decisive.is_none_or(|block| prefixes.holds(block))
                && (!limited || self.flows.may_use(flow, at))
                && self.has_model(at, slot);
            counts.then(|| prefixes.held_of(blocks.hashes()))
        };
        let held = caches.iter().filter_map(held_at).max().unwrap_or(0);
        let cached = blocks.tokens_of(held, tokens);
        than.is_none_or(|than| cached > than).then_some(cached)
    }
}
