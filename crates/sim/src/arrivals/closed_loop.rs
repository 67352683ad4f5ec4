//! Clients that send their next request when the last one has ended.
//!
//! An open stream arrives at its own rate, however the requests fare. A closed loop keeps a fixed
//! number of requests outstanding: a client whose request was answered thinks and sends the next
//! one, and a client whose request was refused comes back when it was told to.

use flow::{Span, Time};

use crate::random::Random;

/// The gateway's header has whole seconds: at least one, and less than a minute.
const RETRY_AFTER_MIN: u64 = 1;
const RETRY_AFTER_MAX: u64 = 59;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// How the clients of a closed loop behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// How many clients there are. Each has at most one request outstanding.
    pub outstanding: u32,
    /// When all of them send their first request.
    pub from: Time,
    /// From here on they send no more.
    pub until: Time,
    /// The mean time from the end of a response to the next request, exponentially distributed.
    pub think: Span,
    /// The time from a refusal to the next request; without it `Retry-After` says when.
    pub pause: Option<Span>,
}

// === impl ClosedLoop ===

impl ClosedLoop {
    /// When a client whose response has ended sends again, if it does.
    pub(crate) fn after_response(&self, now: Time, random: &mut Random) -> Option<Time> {
        // Clients that do not think take nothing from the generator.
        let think = match self.think {
            Span::ZERO => Span::ZERO,
            mean => Span::from_secs_f64(random.exponential() * mean.secs_f64()),
        };
        self.before_end(now.after(think))
    }

    /// When a client whose request was refused or has failed sends again, if it does.
    pub(crate) fn after_refusal(&self, now: Time, retry_after: Option<Span>) -> Option<Time> {
        let told = || {
            let seconds = retry_after.unwrap_or_default().nanos().div_ceil(NANOS_PER_SEC);
            Span::from_secs(seconds.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX))
        };
        self.before_end(now.after(self.pause.unwrap_or_else(told)))
    }

    fn before_end(&self, at: Time) -> Option<Time> {
        (at < self.until).then_some(at)
    }
}
