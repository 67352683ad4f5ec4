//! The ways in which a request can end, as metrics count them.
//!
//! The codes are those of the reply table. A code that is missing here counts as `other`, so the
//! number of series is fixed whatever that table grows to.

/// What a request that a backend answered ended in.
pub(super) const OK: &str = "ok";

/// Every outcome; the most frequent first, because it is looked up from the front.
pub(super) const OUTCOMES: [&str; 31] = [
    OK,
    "client_closed",
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
    "batch_disabled",
    "file_not_found",
    "batch_not_found",
    "file_in_use",
    "batch_ended",
    "file_too_large",
    "storage_full",
    "store_unavailable",
    "internal",
    "other",
];

/// What a request whose time to live passed ended in.
pub(super) const QUEUE_TIMEOUT: &str = "queue_timeout";

/// Outcomes that mean: there was no place to wait. The seed's `ErrInsufficientFlowCapacity` is
/// `flow_full` here, its `ErrTooManyFlows` is `too_many_flows`.
pub(super) const PUSH_ERRORS: [&str; 6] = [
    "flow_full",
    "too_many_flows",
    "queue_full",
    "not_critical",
    "queue_disabled",
    "wait_too_long",
];

/// Where an outcome stands in [`OUTCOMES`].
pub(super) fn index(outcome: &str) -> usize {
    OUTCOMES.iter().position(|&known| known == outcome).unwrap_or(OUTCOMES.len() - 1)
}

/// Whether the client, not the gateway, ended the request.
pub(super) fn is_cancel(outcome: &str) -> bool {
    matches!(outcome, "client_closed" | "deadline_exceeded")
}
