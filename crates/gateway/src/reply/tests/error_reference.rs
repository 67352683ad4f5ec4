//! `docs/ERRORS.md`: every error that a client can get, generated from the table of faults.
//!
//! The reasons stand here, in a match without a default: a new fault does not compile without one.

use flow::Span;

use crate::reply::Fault;

/// Set, the test writes the document instead of comparing it.
const UPDATE: &str = "UPDATE_DOCUMENTS";

const HEAD: &str = "# Errors

`{\"error\": {\"message\": \"…\", \"type\": \"…\", \"code\": \"…\", \"param\": null}}`

This is OpenAI's format. On `/api/*` errors have Ollama's format, and a code:
`{\"error\": \"…\", \"code\": \"…\"}`. Codes and statuses do not change. This page is generated from
the code: `UPDATE_DOCUMENTS=1 cargo test --workspace --lib -- error_reference` brings it up to date.

| code | status | type | when | message |
|---|---|---|---|---|
";

/// One fault of each code.
fn samples() -> Vec<Fault> {
    vec![
        Fault::QueueTimeout(Span::from_secs(30)),
        Fault::FlowFull { flow: "lab".into(), capacity: 100 },
        Fault::QueueFull,
        Fault::TooManyFlows,
        Fault::Preempted,
        Fault::NotCritical { ready: true },
        Fault::QueueDisabled { ready: true },
        Fault::WaitTooLong,
        Fault::ShuttingDown,
        Fault::Overloaded,
        Fault::DeadlineExceeded,
        Fault::BackendError("gpu-a answered 500".into()),
        Fault::NoBackend,
        Fault::NoBackendInSubset,
        Fault::ModelNotFound("gpt".into()),
        Fault::InvalidRequest("The body is not JSON.".into()),
        Fault::TooManyFields,
        Fault::TlsRequired,
        Fault::BodyTooLarge(33_554_432),
        Fault::RequestTimeout,
        Fault::UnsupportedEncoding("br".into()),
        Fault::NoSuchPath,
        Fault::MethodNotAllowed("POST"),
        Fault::UpgradeNotSupported,
        Fault::BatchDisabled,
        Fault::FileNotFound("file-1".into()),
        Fault::BatchNotFound("batch_1".into()),
        Fault::RequestNotFound,
        Fault::BackendNotFound("gpu-a".into()),
        Fault::FileInUse("batch_1".into()),
        Fault::BatchEnded("completed"),
        Fault::FileTooLarge(209_715_200),
        Fault::StorageFull("The disk is full.".into()),
        Fault::StoreAway("connection refused".into()),
        Fault::MissingKey,
        Fault::InvalidKey,
        Fault::AdminKey,
        Fault::ExpiredKey,
        Fault::InvalidToken("The token has expired: ask for a new one."),
        Fault::ModelNotAllowed("gpt".into()),
        Fault::AdminOnly,
        Fault::KeylessChange,
        Fault::ReviewAway("connection refused".into()),
        Fault::RateLimited("requests"),
        Fault::QuotaExceeded,
        Fault::UsageDisabled,
        Fault::ForeignHost,
        Fault::Internal,
    ]
}

/// When a client gets this fault.
#[expect(clippy::too_many_lines, reason = "a table with one row for each fault")]
fn when(fault: &Fault) -> &'static str {
    use Fault::*;
    match fault {
        QueueTimeout(_) | FailedTimeout(..) => {
            "the request waited for its whole time to live (`queue.queue_ttl` or \
                `queue.hold_ttl`)"
        }
        FlowFull { .. } => {
            "the flow of the request has as many waiting requests as it may have \
                (`queue.flow_capacity`, or `capacity` in `[[flows]]`), and none of them has a \
                lower band. With `queue.session_by` also: this request waited, and a session \
                that had fewer waiting requests than its share took its place"
        }
        QueueFull => "the queue has `queue.total_capacity` waiting requests",
        TooManyFlows => "the queue is full, and this flow has no waiting request yet",
        Preempted => {
            "the queue or the flow was full, and a request of a higher band took the place of \
                this one"
        }
        NotCritical { .. } => {
            "the request would have to wait, but only critical requests may wait \
                (`queue.admission = \"critical-only\"`)"
        }
        QueueDisabled { .. } => {
            "the request would have to wait, but the queue is off (`queue.enabled = false`)"
        }
        WaitTooLong => {
            "one of three reasons. A critical request never gets it. (1) The overload lasts \
                (`queue.overload_after`), and this request is late or would be \
                (`queue.slo_ttft`). (2) The client's deadline leaves less time than a first token \
                usually takes. (3) The predicted wait exceeds the time to live (only with \
                `queue.refuse_hopeless`)"
        }
        ShuttingDown => "the gateway is shutting down",
        Overloaded => {
            "one of four reasons. (1) There are more connections than \
                `server.connections_max`, or than the files that the process may open. (2) More \
                than 256 [reads](GATEWAY.md#reads-and-options) run at once. (3) The request bodies \
                together exceed `server.bodies_limit`. (4) `/status/stream`: 64 viewers are \
                there, or 16 of this address"
        }
        DeadlineExceeded => {
            "the time of `X-Request-Timeout-Ms` or `X-Deadline-Ms` has passed; or the request \
                still waits in the queue, and less time is left than a first token usually takes"
        }
        BackendError(_) | BrokenResponse(_) => {
            "every attempt failed, and no backend responded; also the code in the last part \
                of a stream that [broke off](GATEWAY.md#when-a-response-breaks-off)"
        }
        NoBackend => {
            "no backend is configured or found yet; or no backend lists the configured model, \
                and `queue.hold_capacity` requests already wait for such models"
        }
        NoBackendInSubset => {
            "`epp` only: none of the endpoints that the proxy allows is a backend of the \
                model, and `[[models]]` does not name the model"
        }
        ModelNotFound(_) | TargetNotFound { .. } => {
            "no backend lists the model, and `[[models]]` does not name it"
        }
        InvalidRequest(_) | InvalidModel(_) | InvalidField(..) | TransferCoding | HostCount => {
            "the request is invalid; the message says why"
        }
        TooManyFields => "the head has more than 100 fields",
        TlsRequired => "the client speaks HTTP without TLS to a port with `[server.tls]`",
        BodyTooLarge(_) => "the body is larger than `server.body_limit`",
        RequestTimeout => "the client sent the request too slowly",
        UnsupportedEncoding(_) => "the body has another content encoding than `gzip` or `deflate`",
        NoSuchPath | NoSuchPage => "the path does not exist",
        MethodNotAllowed(_) => "the path does not take this method; `Allow` lists its methods",
        UpgradeNotSupported => "the client asked for a WebSocket",
        BatchDisabled => "the gateway has no folder for batches",
        FileNotFound(_) => "there is no such file",
        BackendNotFound(_) => "`/backends/{id}/drain`: no backend has this id",
        RequestNotFound => "`/requests/{id}`: no request has the id that runs or ended lately",
        BatchNotFound(_) => "there is no such batch",
        FileInUse(_) => "a batch needs the file",
        BatchEnded(_) => "the batch has ended and cannot be cancelled",
        FileTooLarge(_) => "the file is larger than `batch.file_limit`",
        StorageFull(_) => "there is no room on the disk or in `batch.files_limit`",
        StoreAway(_) | UsageAway => {
            "the gateway cannot reach the Redis or the Pub/Sub of the queue, cannot open the \
                folder of batches yet, or cannot read the accounts"
        }
        MissingKey => {
            "with tenants: the request has neither a key nor a client certificate. On a \
                status page: the request has no admin key"
        }
        InvalidKey => "with tenants: the key is unknown, or the certificate names no tenant",
        AdminKey => "with tenants: the key is one of an operator, and the path is for clients",
        ExpiredKey => "with tenants: the key has expired",
        InvalidToken(_) => {
            "with `[auth.jwt]`: the token is not accepted; the message says why, for example \
                because it has expired, or is for another audience"
        }
        ModelNotAllowed(_) => {
            "the tenant may not use the model; or the request names no model, and the tenant \
                may use only some models"
        }
        AdminOnly => "the path needs an admin key, or an admin key with the right `change`",
        ReviewAway(_) => {
            "with `admin.kubernetes_tokens`: the API server of Kubernetes cannot say what the \
                token of the request may do; the message says why"
        }
        KeylessChange => {
            "a change, such as a drain, came from another machine, and no admin key is configured"
        }
        RateLimited(_) => {
            "the requests or the tokens that the tenant may use in a minute are used up; \
                `type` is `requests` or `tokens`, and `Retry-After` says when there is room \
                again, at most 59 s"
        }
        QuotaExceeded | BatchQuotaExceeded => {
            "the tokens of the tenant's day or month are used up, and `on_quota` is `refuse`; \
                `Retry-After` is the time until the next day or month. A request of a batch gets \
                this code with status 403, which ends the request"
        }
        UsageDisabled => "`/usage`, and no `usage.file` is set",
        ForeignHost => {
            "a website of another origin may have sent the request, or the `Host` is a name that \
                somebody else may own and the request looks like one of a browser \
                ([SECURITY.md](SECURITY.md#websites)), without a key; `server.cors_origins` allows \
                websites to use the API"
        }
        Internal => "an error inside the gateway",
        ClientClosed => "the client disconnected; only metrics and the access log show it",
        ClientStalled => {
            "the client did not read its response for `server.write_timeout`, and the response \
                was cut; only metrics and the access log show it"
        }
    }
}

fn reference() -> String {
    let row = |fault: &Fault| {
        let (code, status) = (fault.code(), fault.status().as_u16());
        let (family, message) = (fault.family(), fault.message());
        format!("| `{code}` | {status} | `{family}` | {} | {message} |\n", when(fault))
    };
    let rows = samples().iter().map(row).collect::<String>();
    let last = [Fault::ClientClosed, Fault::ClientStalled].map(|fault| {
        format!("`{}` ({}): {}.\n", fault.code(), fault.status().as_u16(), when(&fault))
    });
    format!("{HEAD}{rows}\n{}", last.join("\n"))
}

#[test]
fn c09_the_reference_of_errors_is_generated_from_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ERRORS.md");
    let written = reference();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == written, "docs/ERRORS.md differs: set {UPDATE}=1 to bring it up to date");
}
