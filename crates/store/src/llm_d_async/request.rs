//! The request of a producer: `{"id": …, "deadline": …, "payload": {…}, …}`.
//!
//! Redis has it inside an envelope, Pub/Sub has it bare.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::or_default;
use crate::message::Message;
use crate::moment::Moment;

/// The metadata field with the tenant.
pub(crate) const TENANT: &str = "userid";

/// The fields of a request.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestFields<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) created: i64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) deadline: i64,
    #[serde(borrow)]
    pub(crate) payload: Option<&'a RawValue>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) endpoint: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) model: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) result_queue_name: String,
}

// === impl RequestFields ===

impl RequestFields<'_> {
    /// The body of the request. A worker of llm-d-async sends a missing payload as `null`.
    pub(crate) fn body(&self) -> Bytes {
        match self.payload {
            Some(body) => Bytes::copy_from_slice(body.get().as_bytes()),
            None => Bytes::from_static(b"null"),
        }
    }

    /// The message of a queue, without its body.
    pub(crate) fn message(mut self, queue: &str) -> Message {
        Message {
            id: self.id,
            queue: queue.to_owned(),
            tenant: self.metadata.remove(TENANT).unwrap_or_default(),
            created: moment(self.created),
            deadline: moment(self.deadline),
            endpoint: self.endpoint,
            model: self.model,
            metadata: self.metadata,
            headers: self.headers,
            route: self.result_queue_name,
            ..Message::default()
        }
    }
}

/// A time in whole seconds; a negative one is the epoch.
fn moment(secs: i64) -> Moment {
    Moment::from_secs(u64::try_from(secs).unwrap_or_default())
}
