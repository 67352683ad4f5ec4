//! One line of an output file.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use store::ledger::{Batch, Status, message_id};
use store::{Outcome, StoredResult};

/// A line, as it is serialised.
#[derive(Serialize)]
pub(super) struct ResultLine<'a> {
    id: String,
    custom_id: &'a str,
    response: Option<LineResponse<'a>>,
    error: Option<LineError<'a>>,
}

#[derive(Serialize)]
struct LineResponse<'a> {
    status_code: u16,
    request_id: String,
    body: LineBody<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum LineBody<'a> {
    Json(Cow<'a, RawValue>),
    /// A response that is not JSON.
    Text(Cow<'a, str>),
}

#[derive(Serialize)]
struct LineError<'a> {
    code: Cow<'a, str>,
    message: Cow<'a, str>,
}

// === impl ResultLine ===

impl<'a> ResultLine<'a> {
    /// The line of a request, which is given by the number of its input line and its `custom_id`.
    /// Without a result, the request was cancelled or has expired.
    pub(super) fn new(
        batch: &Batch,
        (line, custom_id): (u64, &'a str),
        result: Option<&'a StoredResult>,
    ) -> Self {
        let name = batch.id.strip_prefix(store::BATCH_ROUTE).unwrap_or(&batch.id);
        let response = result.and_then(|stored| {
            let request_id = message_id(&batch.id, line);
            let body = LineBody::of(&stored.body);
            stored.status.map(|status_code| LineResponse { status_code, request_id, body })
        });
        let error = response.is_none().then(|| LineError::of(batch, result));
        Self { id: format!("batch_req_{name}_{line}"), custom_id, response, error }
    }
}

// === impl LineBody ===

impl<'a> LineBody<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            return Self::Text(String::from_utf8_lossy(bytes));
        };
        if !raw.get().contains(['\n', '\r']) {
            return Self::Json(Cow::Borrowed(raw));
        }
        // JSON strings contain no line breaks, so each is white space between two tokens.
        let flat = raw.get().replace(['\n', '\r'], " ");
        match RawValue::from_string(flat) {
            Ok(raw) => Self::Json(Cow::Owned(raw)),
            Err(_) => Self::Text(String::from_utf8_lossy(bytes)),
        }
    }
}

// === impl LineError ===

impl<'a> LineError<'a> {
    const EXPIRED: Self = Self {
        code: Cow::Borrowed("batch_expired"),
        message: Cow::Borrowed(
            "The request was not answered before the completion window was over.",
        ),
    };
    const CANCELLED: Self = Self {
        code: Cow::Borrowed("batch_cancelled"),
        message: Cow::Borrowed("The batch was cancelled before the request was answered."),
    };

    fn of(batch: &Batch, result: Option<&'a StoredResult>) -> Self {
        let batch_expired = batch.ending == Some(Status::Expired);
        match result.and_then(|stored| stored.error.as_deref()) {
            Some(Outcome::DEADLINE) => Self::EXPIRED,
            Some(Outcome::CANCELLED) | None if batch_expired => Self::EXPIRED,
            Some(Outcome::CANCELLED) | None => Self::CANCELLED,
            Some(code) => Self {
                code: Cow::Owned(code.to_ascii_lowercase()),
                message: result.and_then(|stored| stored.text.as_deref()).unwrap_or("").into(),
            },
        }
    }
}
