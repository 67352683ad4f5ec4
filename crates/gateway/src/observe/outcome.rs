//! The outcomes of requests, as metrics count them.
//!
//! The codes are those of the reply table. An unknown code counts as `other`, so the number of
//! series is fixed.

/// The outcome of a request that a backend served.
pub(super) const OK: &str = "ok";

/// In counts of failures: a backend responded with a 4xx status, which is passed on.
pub(super) const REFUSED_BY_BACKEND: &str = "refused_by_backend";

/// The same with a 5xx status that is no reason for another attempt.
pub(super) const FAILED_BY_BACKEND: &str = "failed_by_backend";

/// The outcome of a request whose response the proxy in front did not show.
pub(crate) const UNSEEN: &str = "response_unseen";

/// All outcomes. The most frequent is first, because the search is linear.
pub(super) const OUTCOMES: [&str; 47] = [
    OK,
    "client_closed",
    "client_stalled",
    QUEUE_TIMEOUT,
    "flow_full",
    "too_many_flows",
    "queue_full",
    "preempted",
    "not_critical",
    "queue_disabled",
    "shutting_down",
    "wait_too_long",
    "deadline_exceeded",
    "backend_error",
    "no_backend",
    "model_not_found",
    "invalid_request",
    "body_too_large",
    "overloaded",
    "request_timeout",
    "not_found",
    "method_not_allowed",
    "upgrade_not_supported",
    "unsupported_encoding",
    "batch_disabled",
    "file_not_found",
    "batch_not_found",
    "file_in_use",
    "batch_ended",
    "file_too_large",
    "storage_full",
    "store_unavailable",
    "missing_api_key",
    "invalid_api_key",
    "expired_api_key",
    "invalid_token",
    "model_not_allowed",
    "rate_limit_exceeded",
    "insufficient_quota",
    "admin_only",
    "change_needs_key",
    "review_unavailable",
    "usage_disabled",
    "host_not_allowed",
    UNSEEN,
    "internal",
    "other",
];

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

/// The position of an outcome in [`OUTCOMES`].
pub(super) fn index(outcome: &str) -> usize {
    OUTCOMES.iter().position(|&known| known == outcome).unwrap_or(OUTCOMES.len() - 1)
}

/// Whether the client ended the request, not the gateway.
pub(super) fn is_cancel(outcome: &str) -> bool {
    matches!(outcome, "client_closed" | "client_stalled" | "deadline_exceeded")
}
