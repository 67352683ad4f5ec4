//! The faults that end a request without a response of a backend.

use flow::{Eviction, Refusal, Span};

/// Why a request has no response of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its time to live passed while it waited for this long.
    QueueTimeout(Span),
    /// The same after a backend failed it for this cause.
    FailedTimeout(Span, String, u32),
    /// As many requests of the flow wait as may.
    FlowFull {
        flow: String,
        capacity: u32,
    },
    TooManyFlows,
    QueueFull,
    Preempted,
    /// It would have to wait, because all backends are busy, or because none is ready.
    NotCritical {
        ready: bool,
    },
    QueueDisabled {
        ready: bool,
    },
    ShuttingDown,
    WaitTooLong,
    /// Too many client connections.
    Overloaded,
    /// The client is gone; for the log.
    ClientClosed,
    /// The client left the response unread for too long, and it was cut; for the log.
    ClientStalled,
    DeadlineExceeded,
    /// No backend responded; the text says what the last one did.
    BackendError(String),
    /// The response began and broke off; the text says how.
    BrokenResponse(String),
    /// No model server is configured or found yet.
    NoBackend,
    /// None of the endpoints that the proxy in front allows is a backend of the model.
    NoBackendInSubset,
    /// The model's name as far as it can be shown.
    ModelNotFound(String),
    /// No backend serves the target, which replaces the model that the client named.
    TargetNotFound {
        target: String,
        model: String,
    },
    /// The request is not valid; the text says why.
    InvalidRequest(String),
    /// The name of the model is not valid; the text says why.
    InvalidModel(String),
    /// No such path, and the one that was meant; none of a dispatcher's.
    NoSuchPath(Option<&'static str>),
    NoSuchPage,
    /// No live request and none of those that ended last has this id.
    RequestNotFound,
    /// No backend has this id.
    BackendNotFound(String),
    /// The methods that the path takes.
    MethodNotAllowed(&'static str),
    /// The body has a content encoding that is not decoded here.
    UnsupportedEncoding(String),
    /// The client asked for a WebSocket.
    UpgradeNotSupported,
    /// The limit in bytes.
    BodyTooLarge(usize),
    /// The client took too long to send its request.
    RequestTimeout,
    /// The head has more fields than any request needs.
    TooManyFields,
    /// The head names no host, or several.
    HostCount,
    /// The body has a transfer coding besides `chunked`.
    TransferCoding,
    /// The client speaks HTTP without TLS to a port that needs TLS.
    TlsRequired,
    /// No folder is configured for batch work.
    BatchDisabled,
    /// A field of the request is not valid; the text says why.
    InvalidField(&'static str, String),
    /// No such file, no such batch: the id as it was given.
    FileNotFound(String),
    BatchNotFound(String),
    /// The batch that still needs the file.
    FileInUse(String),
    /// How the batch stands that can no longer be cancelled.
    BatchEnded(&'static str),
    /// The limit of an uploaded file in bytes.
    FileTooLarge(u64),
    /// The storage is full; the text says which.
    StorageFull(String),
    /// The store cannot be reached; the text says why.
    StoreAway(String),
    /// No API key; one that is unknown; one that has ended.
    MissingKey,
    InvalidKey,
    /// The key of an operator, where the key of a tenant is needed.
    AdminKey,
    ExpiredKey,
    /// A token that is not accepted; the text says why, and has no part of it.
    InvalidToken(&'static str),
    /// The tenant may not use this model; empty if the request names none.
    ModelNotAllowed(String),
    /// The requests or the tokens of the tenant's minute are used up.
    RateLimited(&'static str),
    /// The tokens of the tenant's day or month are used up.
    QuotaExceeded,
    /// The same for a request of a batch. It must not look like an overload, which would make all
    /// batches wait.
    BatchQuotaExceeded,
    /// There is no file for accounts.
    UsageDisabled,
    /// The accounts cannot be read now.
    UsageAway,
    /// The path is for operators.
    AdminOnly,
    /// The API server cannot say what a token may do; the text says why.
    ReviewAway(String),
    /// A change from another machine, where there is no key that could allow it.
    KeylessChange,
    /// A request of a foreign website, or under a host name that may be a trick.
    ForeignHost,
    Internal,
}

/// A fault and when trying again is likely to succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) retry_after: Option<Span>,
}

// === impl Fault ===

impl Fault {
    /// The same with the time that the request waited, which the core does not report.
    pub(crate) fn after(self, waited: Span) -> Self {
        match self {
            Self::QueueTimeout(_) => Self::QueueTimeout(waited),
            other => other,
        }
    }

    /// The same with the cause of the last failure and how many there were, if the request waited
    /// after it in vain.
    pub(crate) fn after_failure(self, cause: &str, failures: u32) -> Self {
        match self {
            Self::QueueTimeout(waited) => Self::FailedTimeout(waited, cause.to_owned(), failures),
            other => other,
        }
    }

    /// The same with the name of the flow and its limit, which the core does not report.
    pub(crate) fn in_flow(self, name: &str, limit: u32) -> Self {
        match self {
            Self::FlowFull { .. } => Self::FlowFull { flow: name.to_owned(), capacity: limit },
            other => other,
        }
    }

    /// The same where no backend is ready, which the core does not tell from busy ones.
    pub(crate) fn without_ready_backend(self) -> Self {
        match self {
            Self::NotCritical { .. } => Self::NotCritical { ready: false },
            Self::QueueDisabled { .. } => Self::QueueDisabled { ready: false },
            other => other,
        }
    }

    /// No backend serves the target, which most often is the model that the client named.
    pub(crate) fn model_not_found(model: &str, target: &str) -> Self {
        if target == model {
            return Self::ModelNotFound(model.to_owned());
        }
        Self::TargetNotFound { target: target.to_owned(), model: model.to_owned() }
    }

    /// The same with the names of the model and of its target, which the core knows as numbers.
    pub(crate) fn about(self, model: &str, target: &str) -> Self {
        match self {
            Self::ModelNotFound(_) => Self::model_not_found(model, target),
            other => other,
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::FlowFull => Self::FlowFull { flow: String::new(), capacity: 0 },
            Refusal::TooManyFlows => Self::TooManyFlows,
            // As many asks as can be named is a full queue by another count.
            Refusal::QueueFull | Refusal::TooManyAsks => Self::QueueFull,
            Refusal::NotCritical => Self::NotCritical { ready: true },
            Refusal::QueueDisabled => Self::QueueDisabled { ready: true },
            Refusal::NoTimeToWait => Self::QueueTimeout(Span::ZERO),
            Refusal::WaitTooLong => Self::WaitTooLong,
            Refusal::DeadlineExceeded => Self::DeadlineExceeded,
            Refusal::UnknownModel => Self::ModelNotFound(String::new()),
            // The scheduler interns the flow in the same step, so this cannot happen: fail closed.
            Refusal::UnknownFlow => Self::Internal,
            Refusal::ShuttingDown => Self::ShuttingDown,
        }
    }
}

impl From<Eviction> for Fault {
    fn from(eviction: Eviction) -> Self {
        match eviction {
            Eviction::Expired => Self::QueueTimeout(Span::ZERO),
            Eviction::DeadlineExceeded => Self::DeadlineExceeded,
            Eviction::TooLate => Self::WaitTooLong,
            Eviction::Preempted => Self::Preempted,
            Eviction::Displaced => Self::FlowFull { flow: String::new(), capacity: 0 },
            Eviction::ShuttingDown => Self::ShuttingDown,
        }
    }
}

// === impl Refused ===

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, retry_after: None }
    }
}
