//! The pause after a gateway has refused a request because the gateway is full.
//!
//! A `Retry-After` is for the refused request. It does not close the way for all others, but
//! repeated refusals double the pause up to it, until a request is accepted.

use crate::time::{Span, Time};

/// A request that the gateway refused because it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The size of the request. It is still in flight.
    pub size: u64,
    /// When it was sent.
    pub sent: Time,
    /// How long the gateway asks it to wait, if it does.
    pub retry_after: Option<Span>,
}

/// The last congestion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Congestion {
    /// When the last request was refused.
    last: Option<Time>,
    pause: Span,
    closed_until: Time,
    /// How much of our own load the system has accepted nevertheless.
    accepted: u64,
}

// === impl Congestion ===

impl Congestion {
    /// Records a refusal while this much was in flight. The shortest pause is `hold`.
    pub(super) fn refused(&mut self, refusal: Refusal, (hold, held): (Span, u64), now: Time) {
        let others = held.saturating_sub(refusal.size);
        // Requests that were sent before the pause was over are refused for the same reason.
        if self.last.is_none() || refusal.sent >= self.closed_until {
            let longest = refusal.retry_after.unwrap_or(Span::ZERO).max(hold);
            let doubled = Span::from_nanos(self.pause.nanos().saturating_mul(2));
            self.pause = doubled.max(hold).min(longest);
            self.accepted = others;
        } else {
            self.accepted = self.accepted.saturating_sub(refusal.size).min(others);
        }
        self.closed_until = self.closed_until.max(now.after(self.pause));
        self.last = Some(self.last.map_or(now, |before| before.max(now)));
    }

    /// A request was accepted: the next pause is short again.
    pub(super) fn accepted(&mut self) {
        self.pause = Span::ZERO;
    }

    pub(super) fn closed_until(&self) -> Time {
        self.closed_until
    }

    /// Whether a reading that may be from this moment says nothing about the time after it.
    pub(super) fn outdates(&self, made: Time) -> bool {
        self.last.is_some_and(|refused| made <= refused)
    }

    /// How much may go during the pause in place of requests that were accepted and have ended.
    pub(super) fn replaceable(&self, held: u64) -> i64 {
        self.accepted as i64 - held as i64
    }
}
