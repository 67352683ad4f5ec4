//! The outcomes of requests, as metrics count them.
//!
//! The codes are those of the [table](crate::error_codes). An unknown code counts as `other`, so
//! the number of series is fixed.

/// The outcome of a request that a backend served.
pub(super) const OK: &str = "ok";

/// The outcome of a request whose client disconnected.
pub(super) const LEFT: &str = "client_closed";

/// In counts of failures: a backend responded with a 3xx or 4xx status, which is passed on.
pub(super) const REFUSED_BY_BACKEND: &str = "refused_by_backend";

/// The same with a 5xx status that is no reason for another attempt, or with an error and nothing
/// else in a response with a good status.
pub(crate) const FAILED_BY_BACKEND: &str = "failed_by_backend";

/// The outcome of a request whose response the proxy in front did not show.
pub(crate) const UNSEEN: &str = "response_unseen";

/// The outcome of a request whose time to live ended in the queue.
pub(super) const QUEUE_TIMEOUT: &str = "queue_timeout";

/// The outcomes of requests that could not be queued. The source's `ErrInsufficientFlowCapacity` is
/// `flow_full`, its `ErrTooManyFlows` is `too_many_flows`.
pub(super) const PUSH_ERRORS: [&str; 6] = [
    "flow_full",
    "too_many_flows",
    "queue_full",
    "not_critical",
    "queue_disabled",
    "wait_too_long",
];

/// Whether the client ended the request, not the gateway.
pub(super) fn is_cancel(outcome: &str) -> bool {
    matches!(outcome, LEFT | "client_stalled" | "deadline_exceeded")
}
