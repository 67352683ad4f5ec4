//! `docs/ERRORS.md`: every error that a client can get, generated from the table of faults.
//!
//! Who is at fault and when stand in the table of codes.

use flow::Span;
use http::StatusCode;

use crate::error_codes::{Blame, ERROR_CODES, ErrorCode};
use crate::reply::Fault;

/// Set, the test writes the document instead of comparing it.
const UPDATE: &str = "UPDATE_DOCUMENTS";

const HEAD: &str = "# Errors

`{\"error\": {\"message\": \"…\", \"type\": \"…\", \"code\": \"…\", \"param\": null}}`

This is OpenAI's format. On `/api/*` errors have Ollama's format, and a code:
`{\"error\": \"…\", \"code\": \"…\"}`. Codes and statuses do not change. This page is generated from
the code: `UPDATE_DOCUMENTS=1 cargo test --workspace --lib -- error_reference` brings it up to date.

*At fault* is where to look: `capacity` means that more requests come than the backends serve,
`a setting` a limit or a switch of the operator, and `unknown client` that anybody can cause the
error without a key.

| code | status | type | at fault | when | message |
|---|---|---|---|---|---|
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
        Fault::NoSuchPath(None),
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

/// The words of the document for who is at fault.
fn at_fault(blame: Blame) -> &'static str {
    match blame {
        Blame::Nobody => "nobody",
        Blame::Client => "client",
        Blame::Stranger => "unknown client",
        Blame::Operator => "a setting",
        Blame::Time | Blame::Place | Blame::Busy => "capacity",
        Blame::Backend => "backends",
        Blame::Storage => "storage",
        Blame::Gateway => "gateway",
    }
}

fn reference() -> String {
    let row = |fault: &Fault| {
        let code = ErrorCode::of(fault.code());
        let (name, status, when) = (code.name, fault.status().as_u16(), code.when);
        let (family, message) = (fault.family(), fault.message());
        let at_fault = at_fault(code.blame);
        format!("| `{name}` | {status} | `{family}` | {at_fault} | {when} | {message} |\n")
    };
    let rows = samples().iter().map(row).collect::<String>();
    let last = [Fault::ClientClosed, Fault::ClientStalled].map(|fault| {
        let ErrorCode { name, status, when, .. } = ErrorCode::of(fault.code());
        format!("`{name}` ({status}): {when}; only metrics and the access log show it.\n")
    });
    format!("{HEAD}{rows}\n{}", last.join("\n"))
}

/// Codes that no client gets: outcomes in metrics, and reasons of the diagnosis.
const INNER: [&str; 9] = [
    "ok",
    "client_closed",
    "client_stalled",
    "unreadable_request",
    "tls_failed",
    "failed_by_backend",
    "refused_by_backend",
    "response_unseen",
    "other",
];

#[test]
fn c09_every_code_has_one_row_a_valid_status_and_a_place_in_the_reference() {
    let samples = samples();
    for (at, code) in ERROR_CODES.iter().enumerate() {
        assert_eq!(ErrorCode::index(code.name), at, "{} is there twice", code.name);
        let told = samples.iter().any(|fault| fault.code() == code.name);
        assert_ne!(told, INNER.contains(&code.name), "{}", code.name);
        assert!(!told || StatusCode::from_u16(code.status).is_ok(), "{}", code.name);
    }
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
