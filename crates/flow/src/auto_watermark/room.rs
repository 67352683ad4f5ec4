//! How many asks a backend may have, from the number of asks that its engine was seen to run.
//!
//! An engine prefills many short prompts in one step, so a bound on unstarted asks alone would keep
//! it idle. But requests beyond its size wait inside the engine, where the controller cannot order
//! them. So a backend is filled at once only as far as its engine was seen to run requests.

use super::{AutoState, UNSTARTED};
use crate::time::Time;

/// Below this many unstarted prompt tokens of each rank, more asks may be unstarted: an engine
/// prefills many short prompts in one step. An objective for tokens can allow fewer.
const PROMPT_ALLOWANCE: f64 = 4096.0;
/// While asks do not stream, this share of the requests that were seen to run may be added before
/// the next reading.
const UNSEEN_SHARE: u32 = 4;

// === impl AutoState ===

impl AutoState {
    /// Whether more than [`UNSTARTED`] asks may be unstarted. An engine prefills many short prompts
    /// in one step, so the backend may be filled at once up to as many asks as have run there at
    /// once. Beyond that its size is unknown, and a burst could wait inside the engine.
    pub(super) fn is_allowed_more(&self) -> bool {
        self.starts_are_short() && self.tally.in_flight < self.known_room()
    }

    /// Whether the prompts without a first token are few enough for one step.
    pub(super) fn starts_are_short(&self) -> bool {
        let allowance = PROMPT_ALLOWANCE * f64::from(self.caps.ranks) * self.pace.prompt_share();
        (self.tally.unstarted_prompt as f64) < allowance
    }

    /// The number of asks that the engine is known to run, and those that take the places of
    /// responses which end in a step.
    pub(super) fn known_room(&self) -> u32 {
        if self.tally.presumed > 0 && !self.first_token.is_known() {
            // Without metrics either, the bound on slots is all that is known.
            return self.reading.map_or(u32::MAX, |_| self.unseen_room());
        }
        let further = self.streams.ended_in_step().max(self.caps.unstarted as u32);
        self.most_running.max(self.told.unwrap_or(0)).saturating_add(further)
    }

    /// Whether an ask of which nothing is seen may count as started. With metrics, no more count so
    /// than the engine was seen to run, and some beyond that while its queue is empty.
    pub(crate) fn may_presume(&self, now: Time) -> bool {
        let Some(reading) = self.reading(now) else { return true };
        let started = self.started_now();
        started < reading.running || (reading.waiting == 0 && started < self.unseen_room())
    }

    /// The number of asks that may run where not all of them are seen to start: with each reading
    /// that number grows by a quarter.
    fn unseen_room(&self) -> u32 {
        let further = (self.most_running / UNSEEN_SHARE).max(UNSTARTED as u32);
        self.most_running.saturating_add(further)
    }

    /// So many asks ran at once, some of which may only be presumed to.
    pub(super) fn saw_running(&mut self, ran: u32) {
        self.most_running = self.most_running.max(ran.saturating_sub(self.tally.presumed));
    }
}
