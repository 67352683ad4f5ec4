//! The code of each fault, and its text for the client, which says what to do.
//!
//! Whether a code has a status and a meaning is checked while compiling: it is a row of
//! [`ERROR_CODES`](crate::error_codes::ERROR_CODES).

use flow::Span;
use http::StatusCode;

use super::Fault;
use crate::error_codes::{ErrorCode, row};

// === impl Fault ===

impl Fault {
    /// Its row in the table of codes.
    const fn entry(&self) -> &'static ErrorCode {
        match self {
            Self::QueueTimeout(_) | Self::FailedTimeout(..) => const { row("queue_timeout") },
            Self::FlowFull { .. } => const { row("flow_full") },
            Self::TooManyFlows => const { row("too_many_flows") },
            Self::QueueFull => const { row("queue_full") },
            Self::Preempted => const { row("preempted") },
            Self::NotCritical { .. } => const { row("not_critical") },
            Self::QueueDisabled { .. } => const { row("queue_disabled") },
            Self::ShuttingDown => const { row("shutting_down") },
            Self::WaitTooLong => const { row("wait_too_long") },
            Self::Overloaded => const { row("overloaded") },
            Self::ClientClosed => const { row("client_closed") },
            Self::ClientStalled => const { row("client_stalled") },
            Self::DeadlineExceeded => const { row("deadline_exceeded") },
            Self::BackendError(_) | Self::BrokenResponse(_) => const { row("backend_error") },
            Self::NoBackend => const { row("no_backend") },
            Self::NoBackendInSubset => const { row("no_backend_in_subset") },
            Self::ModelNotFound(_) | Self::TargetNotFound { .. } => {
                const { row("model_not_found") }
            }
            Self::InvalidRequest(_) | Self::InvalidModel(_) => const { row("invalid_request") },
            Self::NoSuchPath(_) | Self::NoSuchPage => const { row("not_found") },
            Self::RequestNotFound => const { row("request_not_found") },
            Self::BackendNotFound(_) => const { row("backend_not_found") },
            Self::MethodNotAllowed(_) => const { row("method_not_allowed") },
            Self::UnsupportedEncoding(_) => const { row("unsupported_encoding") },
            Self::UpgradeNotSupported => const { row("upgrade_not_supported") },
            Self::BodyTooLarge(_) => const { row("body_too_large") },
            Self::RequestTimeout => const { row("request_timeout") },
            Self::TlsRequired => const { row("tls_required") },
            Self::TooManyFields => const { row("too_many_headers") },
            Self::TransferCoding | Self::HostCount => const { row("invalid_request") },
            Self::BatchDisabled => const { row("batch_disabled") },
            Self::InvalidField(..) => const { row("invalid_request") },
            Self::FileNotFound(_) => const { row("file_not_found") },
            Self::BatchNotFound(_) => const { row("batch_not_found") },
            Self::FileInUse(_) => const { row("file_in_use") },
            Self::BatchEnded(_) => const { row("batch_ended") },
            Self::FileTooLarge(_) => const { row("file_too_large") },
            Self::StorageFull(_) => const { row("storage_full") },
            Self::StoreAway(_) | Self::UsageAway => const { row("store_unavailable") },
            Self::MissingKey => const { row("missing_api_key") },
            Self::InvalidKey | Self::AdminKey => const { row("invalid_api_key") },
            Self::ExpiredKey => const { row("expired_api_key") },
            Self::InvalidToken(_) => const { row("invalid_token") },
            Self::ModelNotAllowed(_) => const { row("model_not_allowed") },
            Self::RateLimited(_) => const { row("rate_limit_exceeded") },
            Self::QuotaExceeded | Self::BatchQuotaExceeded => const { row("insufficient_quota") },
            Self::AdminOnly => const { row("admin_only") },
            Self::KeylessChange => const { row("change_needs_key") },
            Self::ReviewAway(_) => const { row("review_unavailable") },
            Self::ForeignHost => const { row("host_not_allowed") },
            Self::UsageDisabled => const { row("usage_disabled") },
            Self::Internal => const { row("internal") },
        }
    }

    /// Its machine-readable name.
    pub(crate) const fn code(&self) -> &'static str {
        self.entry().name
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BatchQuotaExceeded => StatusCode::FORBIDDEN,
            // Each row has a valid status, as a test checks.
            _ => StatusCode::from_u16(self.entry().status)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The reason for the drop with the values of the Gateway API's pickers; `None` for invalid
    /// requests.
    pub(super) const fn dropped_reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::QueueTimeout(_) | Self::FailedTimeout(..) | Self::DeadlineExceeded => {
                "rejected-ttl-expired"
            }
            Self::FlowFull { .. }
            | Self::TooManyFlows
            | Self::QueueFull
            | Self::NotCritical { .. }
            | Self::QueueDisabled { .. }
            | Self::WaitTooLong
            | Self::RateLimited(_)
            | Self::QuotaExceeded
            | Self::BatchQuotaExceeded
            | Self::Overloaded => "rejected-saturated",
            Self::Preempted => "evicted-priority",
            Self::ShuttingDown => "rejected-shutting-down",
            Self::NoBackend | Self::NoBackendInSubset | Self::BackendError(_) => {
                "rejected-no-endpoints"
            }
            Self::ClientClosed | Self::ClientStalled => "rejected-context-cancelled",
            _ => return None,
        })
    }

    /// The family it belongs to, in the words that clients of the OpenAI API know.
    pub(super) fn family(&self) -> &'static str {
        match self {
            Self::RateLimited(what) => return what,
            Self::QuotaExceeded | Self::BatchQuotaExceeded => return "insufficient_quota",
            _ => {}
        }
        match self.status() {
            StatusCode::SERVICE_UNAVAILABLE => "service_unavailable",
            StatusCode::GATEWAY_TIMEOUT => "timeout",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// Which part of the request is at fault.
    pub(super) const fn param(&self) -> Option<&'static str> {
        match self {
            Self::InvalidModel(_)
            | Self::ModelNotFound(_)
            | Self::ModelNotAllowed(_)
            | Self::TargetNotFound { .. } => Some("model"),
            Self::InvalidField(field, _) => Some(field),
            Self::FileNotFound(_) | Self::BatchNotFound(_) => Some("id"),
            Self::FileTooLarge(_) => Some("file"),
            _ => None,
        }
    }

    /// Whether the connection cannot go on: part of a request may still be on its way.
    pub(super) const fn closes(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge(_)
                | Self::RequestTimeout
                | Self::TlsRequired
                | Self::TooManyFields
                | Self::TransferCoding
                | Self::HostCount
                | Self::Overloaded
                | Self::FileTooLarge(_)
                | Self::StorageFull(_)
        )
    }

    /// The text for people.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::QueueTimeout(waited) => {
                format!("Request timed out after {}s in queue", seconds(*waited))
            }
            Self::FailedTimeout(waited, cause, _) => {
                let waited = seconds(*waited);
                format!("Request timed out after {waited}s in queue; before that {cause}")
            }
            Self::FlowFull { flow, capacity } => {
                let noun = if *capacity == 1 { "request" } else { "requests" };
                format!(
                    "The flow '{flow}' has {capacity} {noun} waiting, which is its limit: \
                     send fewer at once."
                )
            }
            Self::BackendError(what) => {
                format!("No backend could answer: {what}. Try again later.")
            }
            Self::BrokenResponse(what) => {
                format!("The response broke off: {what}. Send the request again.")
            }
            Self::NoSuchPath(Some(meant)) => {
                format!("There is nothing at this path: did you mean {meant}?")
            }
            Self::NoSuchPath(None) => {
                "There is nothing at this path: the API begins with /v1/ or /api/.".to_owned()
            }
            Self::MethodNotAllowed(methods) => {
                format!("This path does not take this method: it takes {methods}.")
            }
            Self::ModelNotFound(model) if !model.is_empty() => format!(
                "The model '{model}' is served by no backend: \
                 see GET /v1/models for those there are."
            ),
            Self::TargetNotFound { target, model } => format!(
                "The model '{target}', which replaces '{model}' in this request, is served by no \
                 backend: see GET /v1/models for those there are."
            ),
            Self::InvalidRequest(what) | Self::InvalidModel(what) => what.clone(),
            Self::InvalidToken(what) => (*what).to_owned(),
            Self::InvalidField(_, what) | Self::StorageFull(what) => what.clone(),
            Self::ReviewAway(why) => {
                format!("Kubernetes cannot say what this token may do: {why}.")
            }
            Self::StoreAway(why) => format!("The queue cannot be reached: {why}."),
            Self::BackendNotFound(id) => format!("There is no backend '{id}'."),
            Self::FileNotFound(id) => format!("There is no file '{id}'."),
            Self::BatchNotFound(id) => format!("There is no batch '{id}'."),
            Self::FileInUse(batch) => {
                format!("The batch '{batch}' needs this file: cancel it or wait for it.")
            }
            Self::BatchEnded(status) => format!("A batch that is {status} cannot be cancelled."),
            Self::FileTooLarge(limit) => {
                format!("The file is larger than {limit} bytes: upload it in parts.")
            }
            Self::ModelNotAllowed(model) if !model.is_empty() => {
                format!("This API key may not use the model '{model}'.")
            }
            Self::RateLimited(what) => format!(
                "The {what} that this API key may use in a minute are used up: try again later."
            ),
            Self::UnsupportedEncoding(name) => {
                format!("The body has the encoding '{name}': send it as gzip, as deflate or plain.")
            }
            Self::BodyTooLarge(limit) => {
                format!("The body is larger than {limit} bytes: send a smaller one.")
            }
            other => other.fixed_message().to_owned(),
        }
    }

    /// The text of a fault that is always the same.
    const fn fixed_message(&self) -> &'static str {
        if let Some(message) = self.access_message() {
            return message;
        }
        match self {
            Self::TooManyFlows => "The queue is full and takes no new flow: try again later.",
            Self::QueueFull => "The queue is full: try again later.",
            Self::Preempted => "A request of higher priority took this one's place: try again.",
            Self::NotCritical { ready: true } => {
                "All backends are busy and only critical requests may wait: try again later."
            }
            Self::NotCritical { ready: false } => {
                "No backend is ready and only critical requests may wait: try again later."
            }
            Self::QueueDisabled { ready: true } => {
                "All backends are busy and queueing is off: try again later."
            }
            Self::QueueDisabled { ready: false } => {
                "No backend is ready and queueing is off: try again later."
            }
            Self::ShuttingDown => "The gateway is shutting down: try again, elsewhere if you can.",
            Self::WaitTooLong => {
                "The wait would be longer than the objective, the deadline or the time to live of \
                 the request allows: try again later."
            }
            Self::NoBackend => "No backend for the request was found yet: try again later.",
            Self::NoBackendInSubset => "The subset has no backend of this model: try again later.",
            Self::Overloaded => "Too many connections, reads or bytes at once: try again later.",
            Self::ClientClosed => "The client closed the connection.",
            Self::ClientStalled => "The client did not read the response in time.",
            Self::DeadlineExceeded => "The request would miss its own deadline: allow more time.",
            Self::RequestNotFound => {
                "The gateway knows no such request: it waits nowhere, and is not among the last \
                 thousand that ended."
            }
            Self::NoSuchPage => {
                "There is nothing at this path of a dispatcher: it has /dispatch.txt, /dispatch, \
                 /health, /ready and /metrics, and the Batch API at /v1/files and /v1/batches."
            }
            Self::UpgradeNotSupported => {
                "A WebSocket is not supported: send a POST, with \"stream\": true for a stream."
            }
            Self::RequestTimeout => "The request took too long to arrive: send it faster.",
            Self::TooManyFields => "The request has more than 100 header fields: send fewer.",
            Self::HostCount => {
                "The request names no host, several, or none that is a name or an address with at \
                 most a port: send one Host header."
            }
            Self::TransferCoding => "The only transfer coding is chunked, once: send it alone.",
            Self::TlsRequired => "This port needs TLS: write the URL with https://.",
            Self::BatchDisabled => {
                "The Batch API is off: start with --batch FOLDER, or set batch.folder."
            }
            Self::Internal => "The gateway failed on this request: this is a fault of its own.",
            _ => "No backend serves this model: see GET /v1/models for those there are.",
        }
    }

    /// The fixed text of a fault about keys, accounts and rights.
    const fn access_message(&self) -> Option<&'static str> {
        Some(match self {
            Self::MissingKey => {
                "An API key is needed: send it as Authorization: Bearer KEY, or as x-api-key."
            }
            Self::InvalidKey => "The API key is not known here: check it, or ask for a new one.",
            Self::AdminKey => {
                "This is an admin key, which opens the status pages only: send the key of a tenant."
            }
            Self::ExpiredKey => "The API key has expired: ask for a new one.",
            Self::ModelNotAllowed(_) => {
                "This API key may use some models only: name the model in the body."
            }
            Self::QuotaExceeded | Self::BatchQuotaExceeded => {
                "The tokens that this API key may use in a day or a month are used up."
            }
            Self::UsageDisabled => {
                "There are no accounts: set usage.file, and name [[tenants]], by which accounts \
                 are kept. /metrics counts requests and tokens by model without them."
            }
            Self::UsageAway => "The accounts cannot be read now: try again.",
            Self::ForeignHost => {
                "A website may have sent this request: send a key, use an address or localhost as \
                 the host, or name the website (or this gateway's own origin, if it has a name) in \
                 server.cors_origins."
            }
            Self::AdminOnly => {
                "This path needs an admin key. A change, such as a drain, needs one with the right \
                 `change` (`tidegate key new --admin change`)."
            }
            Self::KeylessChange => {
                "A change from another machine needs an admin key, and none is configured: make \
                 one with `tidegate key new --admin change --file FILE`, and name the file in \
                 auth.key_file. Without a key, changes work by a loopback address of the gateway, \
                 such as 127.0.0.1."
            }
            _ => return None,
        })
    }
}

/// Whole seconds, as timers are late by a little; below one, hundredths.
fn seconds(waited: Span) -> String {
    let secs = waited.secs_f64();
    let rounded = if secs < 1.0 { (secs * 100.0).round() / 100.0 } else { secs.round() };
    rounded.to_string()
}
