//! Results as they lie in Redis: llm-d-async's, JSON objects in a list.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::fields::or_default;
use super::link::Kept;
use super::scripts::SCRIPTS;
use super::step::Step;
use super::{RedisStore, keys, token};
use crate::error::StoreError;
use crate::message::StoredResult;

/// The most that one script takes.
const BATCH: usize = 32;

/// What a result is called that is none.
const UNREADABLE: &str = "UNREADABLE_RESULT";

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Record {
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

/// A result of this generation of a request. A body that is no text is made one.
pub(super) fn write(stored: StoredResult, token: &str) -> serde_json::Result<String> {
    serde_json::to_string(&Record {
        id: stored.id,
        status_code: stored.status.unwrap_or_default(),
        payload: String::from_utf8_lossy(&stored.body).into_owned(),
        error_code: stored.error.unwrap_or_default(),
        error_message: stored.text.unwrap_or_default(),
        request_token: token.to_owned(),
    })
}

/// A result of anybody's. One that is none is handed out, too: it is gone from the list.
pub(super) fn read(text: &[u8]) -> StoredResult {
    match serde_json::from_slice::<Record>(text) {
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

// === impl RedisStore ===

impl RedisStore {
    /// Takes results away, some at a time. What was taken is handed out, whatever comes after.
    pub(super) async fn take_away(
        &self,
        route: &str,
        most: usize,
    ) -> Result<Vec<StoredResult>, StoreError> {
        let mut results = Vec::new();
        while results.len() < most {
            match self.take_some(route, BATCH.min(most - results.len())).await {
                Ok(taken) if taken.is_empty() => break,
                Ok(taken) => results.extend(taken.iter().map(|text| read(text))),
                Err(error) if results.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(results)
    }

    async fn take_some(&self, route: &str, most: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let (aside, taker) = (keys::aside(route), token::owner());
        let step = Step::script(&SCRIPTS.take, &[route, &aside]).arg(&taker).arg(most);
        let taken: Vec<Vec<u8>> = self.link.ask(step, Kept::Here).await?;
        if !taken.is_empty() {
            // If the server does not hear that we have them, somebody gets them again: better twice
            // than never.
            _ = self.link.run(vec![Step::new("HDEL", &aside).arg(&taker)], Kept::Here).await;
        }
        Ok(taken)
    }
}
