//! The result of a message: a JSON object of llm-d-async.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::or_default;
use crate::message::StoredResult;

/// The error code of a result that cannot be decoded.
const UNREADABLE: &str = "UNREADABLE_RESULT";

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct ResultRecord {
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    status_code: u16,
    #[serde(deserialize_with = "or_default")]
    payload: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    error_code: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    error_message: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    request_token: String,
}

fn is_zero(status: &u16) -> bool {
    *status == 0
}

/// Encodes a result of this generation of a request. A body that is not UTF-8 is converted.
pub(crate) fn encode(stored: StoredResult, token: &str) -> serde_json::Result<String> {
    serde_json::to_string(&ResultRecord {
        id: stored.id,
        status_code: stored.status.unwrap_or_default(),
        payload: String::from_utf8_lossy(&stored.body).into_owned(),
        error_code: stored.error.unwrap_or_default(),
        error_message: stored.text.unwrap_or_default(),
        request_token: token.to_owned(),
    })
}

/// Decodes a result of any worker. An unreadable one is returned, too, because it was already
/// removed from the list.
pub(crate) fn decode(text: &[u8]) -> StoredResult {
    match serde_json::from_slice::<ResultRecord>(text) {
        Ok(record) => StoredResult {
            id: record.id,
            status: Some(record.status_code).filter(|status| *status > 0),
            body: Bytes::from(record.payload),
            error: Some(record.error_code).filter(|code| !code.is_empty()),
            text: Some(record.error_message).filter(|text| !text.is_empty()),
        },
        Err(error) => StoredResult {
            id: String::new(),
            status: None,
            body: Bytes::copy_from_slice(text),
            error: Some(UNREADABLE.into()),
            text: Some(format!("this is not a result: {error}")),
        },
    }
}
