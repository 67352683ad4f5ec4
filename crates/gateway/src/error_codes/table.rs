//! The rows of the table. A list of texts, and nothing else.

use super::Blame::{
    Backend, Busy, Client, Gateway, Nobody, Operator, Place, Storage, Stranger, Time,
};
use super::{Blame, ErrorCode};

/// All codes. The most frequent is first, because searches are linear; the last one stands for
/// those that are not here.
pub(crate) static ERROR_CODES: [ErrorCode; 56] = [
    code("ok", 0, Nobody, "a backend served the request"),
    code("client_closed", 499, Nobody, "the client disconnected")
        .telling("were left by their clients before an answer came, or while it stood still")
        .advising(
            "Compare the timeouts of the clients with the times of the responses (`tidegate top`): \
             a client that gives up too soon is never served. If responses begin and stand still, \
             see the model server. Editors that complete code as somebody types leave most \
             requests, and mean it.",
        ),
    code(
        "client_stalled",
        499,
        Client,
        "the client did not read its response for `server.write_timeout`, and the response was cut",
    ),
    code(
        "queue_timeout",
        503,
        Time,
        "the request waited for its whole time to live (`queue.queue_ttl` or `queue.hold_ttl`)",
    ),
    code(
        "flow_full",
        503,
        Place,
        "the flow of the request has as many waiting requests as it may have \
         (`queue.flow_capacity`, or `capacity` in `[[flows]]`), and none of them has a lower band. \
         With `queue.session_by` also: this request waited, and a session that had fewer waiting \
         requests than its share took its place",
    )
    .advising("One flow has used its places. See /flows, and flow_capacity in [queue]."),
    code("queue_full", 503, Place, "the queue has `queue.total_capacity` waiting requests")
        .advising(QUEUE_IS_FULL),
    code(
        "too_many_flows",
        503,
        Place,
        "the queue is full, and this flow has no waiting request yet",
    )
    .advising(QUEUE_IS_FULL),
    code(
        "preempted",
        503,
        Place,
        "the queue or the flow was full, or `queue.hold_capacity` requests waited for models \
         without a backend, and a request of a higher band took the place of this one",
    )
    .advising("Requests of higher bands took the places of lower ones. Add a backend."),
    code(
        "not_critical",
        503,
        Busy,
        "the request would have to wait, but only critical requests may wait (`queue.admission = \
         \"critical-only\"`)",
    )
    .advising("Only critical requests may wait (queue.admission). Add a backend, or let all wait."),
    code(
        "queue_disabled",
        503,
        Busy,
        "the request would have to wait, but the queue is off (`queue.enabled = false`)",
    )
    .advising("The queue is off. Add a backend, or let requests wait (queue.enabled)."),
    code(
        "wait_too_long",
        503,
        Time,
        "one of three reasons. A critical request never gets it. (1) The overload lasts \
         (`queue.overload_after`), and this request is late or would be (`queue.slo_ttft`). (2) \
         The client's deadline leaves less time than a first token usually takes. (3) The \
         predicted wait exceeds the time to live (only with `queue.refuse_hopeless`)",
    ),
    code(
        "shutting_down",
        503,
        Operator,
        "the gateway is shutting down; in the log also a response that is cut then",
    ),
    code(
        "overloaded",
        503,
        Gateway,
        "one of four reasons. (1) There are more connections than `server.connections_max`, or \
         than the files that the process may open. (2) More than 256 \
         [reads](GATEWAY.md#reads-and-options) run at once, or 192 of this client. (3) The request \
         bodies together exceed `server.bodies_limit`, or the part of it for this client and band. \
         (4) `/status/stream`: 64 viewers are there, or 16 of this address",
    )
    .advising("See connections_max and bodies_limit in [server], and who opens the connections."),
    code(
        "deadline_exceeded",
        504,
        Client,
        "the time of `X-Request-Timeout-Ms` or `X-Deadline-Ms` has passed; or the request still \
         waits in the queue, and less time is left than a first token usually takes",
    )
    .telling("ended at the deadline that their clients had set")
    .advising("The clients allow less time than the responses take: raise their timeouts."),
    code(
        "backend_error",
        502,
        Backend,
        "every attempt failed, and no backend responded; also the code in the last part of a \
         stream that [broke off](GATEWAY.md#when-a-response-breaks-off)",
    )
    .advising("Attempts at backends fail. See the findings about backends."),
    code(
        "failed_by_backend",
        0,
        Backend,
        "a backend responded with a 5xx status that is no reason for another attempt; or with \
         status 200 and a response that ends with an error or says nothing, which is passed on",
    )
    .advising("The backends answer with errors that no other attempt mends: see their logs."),
    code(
        "refused_by_backend",
        0,
        Client,
        "a backend responded with a 3xx or 4xx status, which is passed on",
    )
    .telling("were refused by their backend with a 3xx or 4xx status")
    .advising(
        "The model server does not accept these requests: see its log, and the error that clients \
         get. A request that it never accepts fails again when it is sent again.",
    ),
    code(
        "no_backend",
        503,
        Backend,
        "no backend is configured or found yet; or no backend lists the configured model, and \
         `queue.hold_capacity` requests that keep their places already wait for such models",
    )
    .advising("See which model clients ask for, in the access log."),
    code(
        "no_backend_in_subset",
        503,
        Backend,
        "`epp` only: none of the endpoints that the proxy allows is a backend of the model, and \
         `[[models]]` does not name the model",
    )
    .advising("The proxy in front allows endpoints that have no such model: see its routes."),
    code(
        "model_not_found",
        404,
        Client,
        "no backend lists the model, and `[[models]]` does not name it",
    )
    .telling("asked for a model that no backend has")
    .advising(
        "Clients must ask for a name that GET /v1/models lists. A name of their own becomes one by \
         an entry in [[models]] with its targets.",
    ),
    code("invalid_request", 400, Client, "the request is invalid; the message says why"),
    code("too_many_headers", 431, Client, "the head has more than 100 fields"),
    code(
        "unreadable_request",
        400,
        Stranger,
        "what the client sent is no request of HTTP: the connection ends with 400 and no body",
    )
    .telling("were no requests of HTTP")
    .advising(
        "Something that does not speak HTTP has this address, or speaks TLS to a port without it: \
         see who connects, and [server.tls].",
    ),
    code(
        "tls_required",
        400,
        Stranger,
        "the client speaks HTTP without TLS to a port with `[server.tls]`",
    )
    .telling("spoke HTTP to a port with TLS")
    .advising("Clients must use https:// in their base URL, or the port needs no [server.tls]."),
    code(
        "tls_failed",
        0,
        Stranger,
        "no TLS handshake came about, for example because the client does not trust the \
         certificate of the gateway, or has none that the gateway trusts",
    )
    .telling("failed in the handshake of TLS")
    .advising(
        "Clients must trust the authority of server.tls.cert_file and use a name that is in the \
         certificate; with client_ca_file they need a certificate of their own. The log has the \
         reason of each at the level debug.",
    ),
    code("body_too_large", 413, Client, "the body is larger than `server.body_limit`"),
    code("request_timeout", 408, Client, "the client sent the request too slowly"),
    code(
        "unsupported_encoding",
        415,
        Client,
        "the body has another content encoding than `gzip` or `deflate`",
    ),
    // The path is looked at before the key.
    code("not_found", 404, Stranger, "the path does not exist")
        .telling("were sent to a path that does not exist")
        .advising(
            "Clients must use paths that begin with /v1/ or /api/, at the address of clients \
             (server.listen): mend their base URL.",
        ),
    code(
        "method_not_allowed",
        405,
        Client,
        "the path does not take this method; `Allow` lists its methods",
    ),
    code("upgrade_not_supported", 501, Client, "the client asked for a WebSocket"),
    code("batch_disabled", 404, Operator, "the gateway has no folder for batches"),
    code("file_not_found", 404, Client, "there is no such file"),
    code("batch_not_found", 404, Client, "there is no such batch"),
    code(
        "request_not_found",
        404,
        Client,
        "`/requests/{id}`: no request has the id that runs or ended lately",
    ),
    code(
        "backend_not_found",
        404,
        Client,
        "`/backends/{id}/drain`: no backend has this id",
    ),
    code("file_in_use", 409, Client, "a batch needs the file"),
    code("batch_ended", 409, Client, "the batch has ended and cannot be cancelled"),
    code("file_too_large", 413, Client, "the file is larger than `batch.file_limit`"),
    code(
        "storage_full",
        507,
        Storage,
        "there is no room on the disk or in `batch.files_limit`",
    )
    .advising(
        "The files of the Batch API have reached batch.files_limit, or their disk was full. Delete \
         files, or raise the limit.",
    ),
    code(
        "store_unavailable",
        503,
        Storage,
        "the gateway cannot reach the Redis or the Pub/Sub of the queue, cannot open the folder of \
         batches yet, or cannot read the accounts",
    ),
    code(
        "missing_api_key",
        401,
        Stranger,
        "with tenants: the request has neither a key nor a client certificate. On a status page: \
         the request has no admin key",
    )
    .telling("came without an API key")
    .advising(
        "The clients have no key: send it as `Authorization: Bearer KEY`. `tidegate key new` makes \
         one.",
    ),
    code(
        "invalid_api_key",
        401,
        Stranger,
        "with tenants: the key is unknown, or the certificate names no tenant; or the key is one \
         of an operator, and the path is for clients",
    )
    .telling("came with an unknown API key")
    .advising(KEY_IN_FORCE),
    code("expired_api_key", 401, Stranger, "with tenants: the key has expired")
        .telling("came with an expired API key")
        .advising(KEY_IN_FORCE),
    code(
        "invalid_token",
        401,
        Stranger,
        "with `[auth.jwt]`: the token is not accepted; the message says why, for example because \
         it has expired, or is for another audience",
    )
    .telling("came with a token that is not accepted")
    .advising(KEY_IN_FORCE),
    code(
        "model_not_allowed",
        403,
        Operator,
        "the tenant may not use the model; or the request names no model, and the tenant may use \
         only some models",
    ),
    code(
        "rate_limit_exceeded",
        429,
        Operator,
        "the requests or the tokens that the tenant may use in a minute are used up; `type` is \
         `requests` or `tokens`, and `Retry-After` says when there is room again, at most 59 s",
    )
    .advising("These tenants are at their limits in [[tenants]]: raise them, or wait."),
    code(
        "insufficient_quota",
        429,
        Operator,
        "the tokens of the tenant's day or month are used up, and `on_quota` is `refuse`; \
         `Retry-After` is the time until the next day or month. A request of a batch gets this \
         code with status 403, which ends the request",
    )
    .advising("These tenants have used up their quota in [[tenants]]: raise it, or wait."),
    code(
        "admin_only",
        403,
        Client,
        "the path needs an admin key, or an admin key with the right `change`",
    ),
    code(
        "change_needs_key",
        403,
        Client,
        "a change, such as a drain, came from another machine, and no admin key is configured",
    ),
    code(
        "review_unavailable",
        503,
        Gateway,
        "with `admin.kubernetes_tokens`: the API server of Kubernetes cannot say what the token of \
         the request may do; the message says why",
    ),
    code("usage_disabled", 404, Operator, "`/usage`, and no `usage.file` is set"),
    code(
        "host_not_allowed",
        403,
        Stranger,
        "a website of another origin may have sent the request, or the `Host` is a name that \
         somebody else may own and the request looks like one of a browser \
         ([SECURITY.md](SECURITY.md#websites)), without a key; `server.cors_origins` allows \
         websites to use the API",
    )
    .advising("Name the website in server.cors_origins, or let its users send a key."),
    code(
        "response_unseen",
        0,
        Nobody,
        "`epp` only: the proxy did not show the response",
    ),
    code("internal", 500, Gateway, "an error inside the gateway"),
    code("other", 0, Client, "a code that is not in this table"),
];

const QUEUE_IS_FULL: &str = "The queue is full. Add a backend, or bound a flow.";
const KEY_IN_FORCE: &str = "Give the clients a key that is in force (`tidegate key new`), or find \
                            out who guesses: the access log has each request if log.access is on.";

const fn code(name: &'static str, status: u16, blame: Blame, when: &'static str) -> ErrorCode {
    ErrorCode { name, status, blame, when, told: "", advice: "" }
}
