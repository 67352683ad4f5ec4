//! The outcomes of asks, as small `Copy` values.
//!
//! The caller maps them to status codes and texts.

use crate::ask::{BackendId, Ticket};
use crate::time::Span;

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The ask goes to this backend at once.
    Granted {
        /// The ask's ticket until it is settled.
        ticket: Ticket,
        /// Where it goes.
        backend: BackendId,
    },
    /// The ask waits. An [`Event`] reports the end of the wait, possibly at once.
    Queued {
        /// The ask's ticket until it ends.
        ticket: Ticket,
    },
    /// The ask was refused.
    Refused {
        /// The reason.
        reason: Refusal,
        /// When a retry is likely to succeed.
        retry_after: Span,
    },
}

/// Why an offer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The flow already has its maximum of waiting asks.
    FlowFull,
    /// The queue is full, and this flow has no ask in it.
    TooManyFlows,
    /// The queue is full.
    QueueFull,
    /// Only critical asks may wait.
    NotCritical,
    /// Queueing is disabled.
    QueueDisabled,
    /// The ask would have to wait, and its time to live is zero.
    NoTimeToWait,
    /// The predicted wait exceeds the ask's time to live, or its objective in an overload that
    /// lasts; or its deadline is nearer than a first token usually is.
    WaitTooLong,
    /// The client's own deadline has passed.
    DeadlineExceeded,
    /// No backend lists the model.
    UnknownModel,
    /// The flow was forgotten; intern its name again.
    UnknownFlow,
    /// The controller is closing.
    ShuttingDown,
    /// The controller has reached its maximum of live asks.
    TooManyAsks,
}

/// Why a waiting ask was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Eviction {
    /// Its time to live passed.
    Expired,
    /// The client's own deadline passed, or is nearer than a first token usually is.
    DeadlineExceeded,
    /// It had become late in an overload that lasts.
    TooLate,
    /// An ask of a higher band needed its place.
    Preempted,
    /// Its flow was full, and another session of the flow had fewer waiting asks than its share.
    Displaced,
    /// The controller is closing.
    ShuttingDown,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ask goes to this backend.
    Granted {
        /// The ask.
        ticket: Ticket,
        /// Where it goes.
        backend: BackendId,
        /// The time since it arrived, or since it was re-queued at the back of its flow.
        waited: Span,
    },
    /// The ask will not be served.
    Evicted {
        /// The ask.
        ticket: Ticket,
        /// The reason.
        reason: Eviction,
        /// When a retry is likely to succeed.
        retry_after: Span,
    },
}

/// The stage of an ask when it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the queue.
    Waiting,
    /// At a backend.
    InFlight,
}

/// The position of a re-queued ask in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeuePosition {
    /// Its original position: the backend was full, which the ask did not cause.
    Original,
    /// The back: the backend failed while it had the ask.
    Back,
}

/// A verb that does not apply to the ask of the ticket. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No live ask has this ticket: it has ended, or never existed.
    UnknownTicket,
    /// The ask is waiting, and the verb applies to asks in flight.
    NotInFlight,
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::UnknownTicket => "no ask with this ticket is alive",
            Self::NotInFlight => "the ask is still waiting",
        })
    }
}

impl std::error::Error for Misuse {}
