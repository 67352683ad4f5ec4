//! Why a request has no answer of a backend.

use flow::Span;

/// Why a request has no answer of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its time to live passed while it waited, so long.
    QueueTimeout(Span),
    FlowFull,
    TooManyFlows,
    QueueFull,
    Preempted,
    NotCritical,
    QueueDisabled,
    ShuttingDown,
    WaitTooLong,
    /// Too many client connections.
    Overloaded,
    /// The client is gone; for the log.
    ClientClosed,
    DeadlineExceeded,
    /// No backend gave an answer: what the last one did.
    BackendError(String),
    /// The model's name as far as it can be shown.
    ModelNotFound(String),
    /// What is wrong with the request.
    InvalidRequest(String),
    /// No such path.
    NoSuchPath,
    MethodNotAllowed,
    /// The limit in bytes.
    BodyTooLarge(usize),
    /// The client took too long to send its request.
    RequestTimeout,
    Internal,
}

/// A fault and when trying again is likely to succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) retry_after: Option<Span>,
}

// === impl Refused ===

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, retry_after: None }
    }
}
