//! Which flow queue goes next, if the next ask of another flow queue has its prompt cached at a
//! backend with room.
//!
//! Under saturation one place opens at a time, so there is nothing to choose among backends. Here
//! the ask is chosen instead: among the flow queues whose tag is at most the slack above that of
//! the flow queue whose turn it is. `docs/FLOW.md` section 17 has the bound.

use super::Controller;
use crate::queue::flow_queue::FlowQueue;
use crate::time::Time;
use crate::weight::Weight;

/// The most flow queues that are compared for one grant.
const COMPARED_MAX: usize = 64;

// === impl Controller ===

impl Controller {
    /// The flow queue that goes, and the tag of the one whose turn it is, if that is another one.
    pub(super) fn best_cached(&mut self, turn: u32, now: Time) -> (u32, Option<u64>) {
        let slack = Weight::ONE.stretch(self.settings.cache_slack);
        if slack == 0 || self.prompts.is_empty() {
            return (turn, None);
        }
        let FlowQueue { pool, band, tag: least, .. } = self.flow_queues[turn];
        let fair_queue = &self.fair_queues[pool as usize][band.index()];
        // The charge of a grant ahead of a flow queue that is held back has a rule of its own.
        if fair_queue.least_over_share().is_some_and(|held| held < least) {
            return (turn, None);
        }
        let room = self.settings.bounds.to_dequeue();
        let free = self.free_places(pool, room);
        let Some(reach) = self.reach(pool, band.index(), free) else { return (turn, None) };
        let has_room = |backend| self.supply.has_room(backend, room);
        let within = fair_queue.up_to(least.saturating_add(slack), (reach, COMPARED_MAX), has_room);
        let mut best = (turn, self.cached_at_free_place(turn, now));
        for order in within {
            let cached = self.cached_at_free_place(order.flow_queue, now);
            if cached > best.1 {
                best = (order.flow_queue, cached);
            }
        }
        (best.0, (best.0 != turn).then_some(least))
    }

    /// The most tokens of the next ask's prompt that a backend with room has cached.
    fn cached_at_free_place(&mut self, flow_queue: u32, now: Time) -> u64 {
        let Some(slot) = self.first_ask_of(flow_queue, now) else { return 0 };
        let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
        let room = self.settings.bounds.to_dequeue();
        let input = self.route_input_of(slot);
        let limited = self.flows[flow].limited;
        let usable = |&&at: &&u32| {
            self.supply.has_room(at, room) && (!limited || self.flows.may_use(flow, at))
        };
        let members = self.supply.pools[pool as usize].members.iter().filter(usable);
        let held = members
            .map(|&at| self.supply.backends[at as usize].prefixes.held_of(input.blocks.hashes()));
        input.blocks.tokens_of(held.max().unwrap_or(0), input.tokens)
    }
}
