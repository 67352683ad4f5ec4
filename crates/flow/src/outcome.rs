//! How asks end, as small `Copy` values.
//!
//! Status codes and texts are the reply table's business; the core only says what happened.

use crate::ask::{BackendId, Ticket};
use crate::time::Span;

/// The answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to this backend at once.
    Granted {
        /// Its name until it is settled.
        ticket: Ticket,
        /// Where it goes.
        backend: BackendId,
    },
    /// It waits; an [`Event`] will tell how that ended, perhaps at once.
    Queued {
        /// Its name until it ends.
        ticket: Ticket,
    },
    /// It was not taken.
    Refused {
        /// Why.
        reason: Refusal,
        /// When trying again is likely to succeed.
        retry_after: Span,
    },
}

/// Why an offer was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The flow already holds as many waiting asks as it may.
    FlowFull,
    /// The queue is full and this flow has nothing in it.
    TooManyFlows,
    /// The queue is full.
    QueueFull,
    /// Only critical asks may wait.
    NotCritical,
    /// Nothing may wait.
    QueueDisabled,
    /// It would have to wait, and its time to live is zero.
    NoTimeToWait,
    /// The predicted wait is longer than its time to live.
    WaitTooLong,
    /// The client's own deadline has passed.
    DeadlineExceeded,
    /// No backend lists the model.
    UnknownModel,
    /// The flow's name has gone stale; intern it again.
    UnknownFlow,
    /// The controller is closing.
    ShuttingDown,
    /// As many asks are alive as the controller can name.
    TooManyAsks,
}

/// Why a waiting ask was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Eviction {
    /// Its time to live passed.
    Expired,
    /// The client's own deadline passed.
    DeadlineExceeded,
    /// An ask of a higher band needed its place.
    Preempted,
    /// The controller is closing.
    ShuttingDown,
}

/// What happened to an ask that was waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It goes to this backend.
    Granted {
        /// The ask.
        ticket: Ticket,
        /// Where it goes.
        backend: BackendId,
        /// How long ago it arrived; one that went back behind its flow arrived then.
        waited: Span,
    },
    /// It will not be served.
    Evicted {
        /// The ask.
        ticket: Ticket,
        /// Why.
        reason: Eviction,
        /// When trying again is likely to succeed.
        retry_after: Span,
    },
}

/// Where an ask stood when it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the queue.
    Waiting,
    /// At a backend.
    InFlight,
}

/// Where a re-queued ask goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeuePosition {
    /// Where it was: the backend was full, which is not the ask's fault.
    Original,
    /// Behind its flow: the backend failed on it.
    Back,
}

/// A verb that does not fit the ask it names. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No such ask is alive: it has ended, or never was.
    UnknownTicket,
    /// The ask is waiting, and the verb is for asks in flight.
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
