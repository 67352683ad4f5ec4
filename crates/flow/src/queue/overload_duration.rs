//! How long asks have waited in a fair queue without a break, and whether they are served in time.
//!
//! In a burst a late ask is worth its wait: it is served when the burst ends. If asks have waited
//! without a break for long, the overload lasts. There a late ask takes a place that the next ask
//! could have used in time.

use crate::time::{Span, Time};

/// A fair queue that is empty for less than this part of the time after which an overload lasts
/// does not end it. Arrivals are random, so the queue is empty for a moment even in an overload.
const GAP: u64 = 36;
/// Nor does a gap end it in which fewer asks were granted at once to a backend with spare room: a
/// server with few places is idle for seconds now and then, and a backend that stays nearly full
/// has served no burst to its end. A gap of more than this part of the time ends it in any case.
const GAP_GRANTS: u32 = 16;
const GAP_LONG: u64 = 6;
/// The weight of one grant in the share of fresh ones.
const GRANT: f32 = 1.0 / 16.0;
/// If fewer of the latest grants went to fresh asks, the objective is out of reach.
const IN_REACH: f32 = 0.25;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OverloadDuration {
    /// Since when asks have waited, gaps aside.
    since: Time,
    /// When the fair queue was last empty.
    emptied: Time,
    /// The share of the latest grants that went to fresh asks, from 0 to 1.
    fresh_share: f32,
    /// The asks that were granted at once, with room to spare, since the fair queue was last empty.
    at_once: u32,
}

// === impl OverloadDuration ===

impl Default for OverloadDuration {
    fn default() -> Self {
        // No overload came before the first ask.
        Self { since: Time::ZERO, emptied: Time::ZERO, fresh_share: 0.0, at_once: GAP_GRANTS }
    }
}

impl OverloadDuration {
    /// A first ask begins to wait; `after` is the time after which an overload lasts.
    pub(crate) fn began(&mut self, after: Span, now: Time) {
        let gap = now.since(self.emptied).nanos();
        let ended = self.at_once >= GAP_GRANTS || gap > after.nanos() / GAP_LONG;
        if ended && gap > after.nanos() / GAP {
            self.since = now;
        }
    }

    /// The last ask has left the fair queue.
    pub(crate) fn emptied(&mut self, now: Time) {
        (self.emptied, self.at_once) = (now, 0);
    }

    /// An ask that did not wait was granted to a backend with spare room.
    pub(crate) fn granted_at_once(&mut self) {
        self.at_once = self.at_once.saturating_add(1);
    }

    /// An ask that waited was granted.
    pub(crate) fn granted(&mut self, late: bool) {
        let fresh = if late { 0.0 } else { 1.0 };
        self.fresh_share += (fresh - self.fresh_share) * GRANT;
    }

    /// Whether asks have waited for so long, and the objective is within reach.
    pub(crate) fn lasts(&self, after: Span, now: Time) -> bool {
        now.since(self.since) >= after && self.fresh_share >= IN_REACH
    }
}
