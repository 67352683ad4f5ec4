//! The time by which a response must have begun, and the error if it has not.

use std::time::Duration;

use flow::{Span, Time};
use tokio::time::Instant;

use super::Request;
use crate::clock;
use crate::ingress;
use crate::reply::Fault;

/// The limit that a response did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseTimeout {
    /// The deadline of the client: the backend is not to blame.
    Client,
    /// The longest time that any backend may take to begin a response.
    FirstByte(Duration),
    /// The longest pause within a response.
    Stall(Duration),
}

/// The time from the arrival of a request of this age to a moment in milliseconds since 1970; zero
/// for a moment that has passed.
pub(super) fn until(moment: u64, age: Span) -> Span {
    let left = Duration::from_millis(moment).saturating_sub(clock::since_epoch());
    match left {
        Duration::ZERO => Span::ZERO,
        left => Span::from_nanos(clock::span(left).nanos().saturating_add(age.nanos())),
    }
}

// === impl Request ===

impl Request {
    /// When the request stops waiting for a backend.
    pub(crate) fn waits_until(&self) -> Time {
        let usual = || ingress::ttl_of(&self.config, self.intent.class);
        let ttl = self.intent.ttl.unwrap_or_else(usual);
        let ends = self.record.arrived.after(ttl);
        let deadline = self.intent.preferences.deadline.map(|span| self.record.arrived.after(span));
        deadline.map_or(ends, |deadline| deadline.min(ends))
    }

    /// The moment by which a response must have begun to a request that is sent at `now`.
    pub(crate) fn response_deadline(&self, now: Time) -> (Instant, ResponseTimeout) {
        let (clock, limit) = (self.state.clock, self.config.fleet.answer_timeout);
        let usual = clock.instant(now) + limit;
        let client = self.intent.preferences.deadline.map(|span| self.record.arrived.after(span));
        match client.map(|deadline| clock.instant(deadline)).filter(|&due| due < usual) {
            Some(due) => (due, ResponseTimeout::Client),
            None => (usual, ResponseTimeout::FirstByte(limit)),
        }
    }
}

// === impl ResponseTimeout ===

impl ResponseTimeout {
    /// The fault that the client receives.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Client => Fault::DeadlineExceeded,
            Self::FirstByte(limit) => {
                let limit = limit.as_secs();
                Fault::BackendError(format!("no answer began within {limit} s"))
            }
            Self::Stall(limit) => {
                Fault::BackendError(format!("nothing came for {} s", limit.as_secs()))
            }
        }
    }
}
