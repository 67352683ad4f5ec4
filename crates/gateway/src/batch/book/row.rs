//! One line of an output file.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use store::ledger::{Batch, Status, message_id};
use store::{Outcome, StoredResult};

/// One line.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    id: String,
    custom_id: &'a str,
    response: Option<Response<'a>>,
    error: Option<Failure<'a>>,
}

#[derive(Serialize)]
struct Response<'a> {
    status_code: u16,
    request_id: String,
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(Cow<'a, RawValue>),
    /// For what is no JSON.
    Text(Cow<'a, str>),
}

#[derive(Serialize)]
struct Failure<'a> {
    code: Cow<'a, str>,
    message: Cow<'a, str>,
}

// === impl Row ===

impl<'a> Row<'a> {
    /// The line for a request of a batch, by the number of its own line and the name that its
    /// sender gave it; without a result, it was given up.
    pub(super) fn new(
        batch: &Batch,
        (line, custom_id): (u64, &'a str),
        result: Option<&'a StoredResult>,
    ) -> Self {
        let name = batch.id.strip_prefix(store::BATCH_ROUTE).unwrap_or(&batch.id);
        let response = result.and_then(|stored| {
            let request_id = message_id(&batch.id, line);
            let body = Body::of(&stored.body);
            stored.status.map(|status_code| Response { status_code, request_id, body })
        });
        let error = response.is_none().then(|| Failure::of(batch, result));
        Self { id: format!("batch_req_{name}_{line}"), custom_id, response, error }
    }
}

// === impl Body ===

impl<'a> Body<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            return Self::Text(String::from_utf8_lossy(bytes));
        };
        if !raw.get().contains(['\n', '\r']) {
            return Self::Json(Cow::Borrowed(raw));
        }
        // Inside of a string there is none, so each is space between two words: a line has none.
        let flat = raw.get().replace(['\n', '\r'], " ");
        match RawValue::from_string(flat) {
            Ok(raw) => Self::Json(Cow::Owned(raw)),
            Err(_) => Self::Text(String::from_utf8_lossy(bytes)),
        }
    }
}

// === impl Failure ===

impl<'a> Failure<'a> {
    fn of(batch: &Batch, result: Option<&'a StoredResult>) -> Self {
        let expired = batch.ending == Some(Status::Expired);
        let code = result.and_then(|stored| stored.error.as_deref());
        let given_up = match code {
            Some(Outcome::DEADLINE) => Some(true),
            Some(Outcome::CANCELLED) | None => Some(expired),
            Some(_) => None,
        };
        match (given_up, code) {
            (Some(true), _) => Self::fixed(
                "batch_expired",
                "The request was not answered before the completion window was over.",
            ),
            (Some(false), _) => Self::fixed(
                "batch_cancelled",
                "The batch was cancelled before the request was answered.",
            ),
            (None, code) => Self {
                code: Cow::Owned(code.unwrap_or_default().to_ascii_lowercase()),
                message: result.and_then(|stored| stored.text.as_deref()).unwrap_or("").into(),
            },
        }
    }

    const fn fixed(code: &'static str, message: &'static str) -> Self {
        Self { code: Cow::Borrowed(code), message: Cow::Borrowed(message) }
    }
}
