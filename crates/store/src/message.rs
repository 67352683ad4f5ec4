//! Messages and their results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;

/// The prefix of the routes of batches. Each message of such a route has exactly one final result.
pub const BATCH_ROUTE: &str = "batch_";

/// Why a line of a batch is not redriven.
pub(crate) const ENDED_WITH_BATCH: &str = "its batch already has its final result";

/// The maximum length of an id, in bytes.
pub(crate) const ID_MAX: usize = 1024;

/// A request that waits in a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The id, chosen by the producer. The same id with the same content is the same message.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// The tenant; empty for none. The tenants of a queue share it fairly.
    pub tenant: String,
    /// When the message was created.
    pub created: Moment,
    /// When the result is no longer wanted.
    pub deadline: Moment,
    /// The path of the request; empty for the path of the queue.
    pub endpoint: String,
    /// The model of the request, if known.
    pub model: String,
    /// Metadata, returned with the result.
    pub metadata: BTreeMap<String, String>,
    /// The headers of the request.
    pub headers: BTreeMap<String, String>,
    /// The route of the result; empty for the route of the queue.
    pub route: String,
    /// The body of the request.
    pub body: Body,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes themselves.
    Bytes(Bytes),
    /// A part of a file that outlives the message.
    Slice {
        /// The file.
        file: PathBuf,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// The body was stored apart from the message, and no longer exists.
    Gone,
}

/// How a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The model server responded.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The body, unchanged.
        body: Bytes,
    },
    /// The model server did not respond.
    Failed {
        /// One of the codes of [`Outcome`].
        code: &'static str,
        /// The reason as a sentence.
        text: String,
    },
}

/// The stored result of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// The id of the message.
    pub id: String,
    /// The HTTP status, if the model server responded.
    pub status: Option<u16>,
    /// The body of the response, or `{"error": …}`.
    pub body: Bytes,
    /// The code of the failure, if the model server did not respond.
    pub error: Option<String>,
    /// The reason as a sentence, if the model server did not respond.
    pub text: Option<String>,
}

// === impl Message ===

impl Message {
    /// Checks that an engine can store the message.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refuse = |text| Err(StoreError::new(ErrorKind::Invalid, text));
        match &self.id {
            id if id.is_empty() => refuse("a message needs an id".into()),
            id if id.len() > ID_MAX => {
                refuse(format!("a message's id has {} bytes, more than {ID_MAX}", id.len()))
            }
            id if id.contains('\0') => refuse(format!("the message's id {id:?} has a NUL in it")),
            id if self.queue.is_empty() => refuse(format!("the message {id:?} names no queue")),
            id if self.body == Body::Gone => refuse(format!("the message {id:?} has no body")),
            _ => Ok(()),
        }
    }

    /// The digest of the content, which distinguishes two messages with one id. The creation time
    /// is left out, because it changes when a producer submits the message again.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for text in [&self.queue, &self.tenant, &self.endpoint, &self.model, &self.route] {
            add(text.as_bytes());
        }
        add(&self.deadline.millis().to_le_bytes());
        for map in [&self.metadata, &self.headers] {
            add(&(map.len() as u64).to_le_bytes());
            for (key, value) in map {
                add(key.as_bytes());
                add(value.as_bytes());
            }
        }
        match &self.body {
            Body::Bytes(bytes) => add(bytes),
            Body::Slice { file, offset, length } => {
                add(file.as_os_str().as_encoded_bytes());
                add(&offset.to_le_bytes());
                add(&length.to_le_bytes());
            }
            Body::Gone => {}
        }
        hash.finalize().into()
    }
}

// === impl Body ===

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl Body {
    /// The number of bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Slice { length, .. } => *length,
            Self::Gone => 0,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// The deadline of the message passed.
    pub const DEADLINE: &'static str = "DEADLINE_EXCEEDED";
    /// The message was cancelled.
    pub const CANCELLED: &'static str = "CANCELLED";
    /// The message failed too often.
    pub const FAILED: &'static str = "INFERENCE_ERROR";
    /// The request is invalid and cannot be sent.
    pub const INVALID: &'static str = "INVALID_REQUEST";
    /// The body no longer exists.
    pub const BODY_GONE: &'static str = "PAYLOAD_UNAVAILABLE";

    /// The deadline passed, in the words of llm-d-async.
    pub fn expired() -> Self {
        Self::failed(Self::DEADLINE, "deadline exceeded")
    }

    /// The message was cancelled, in the words of llm-d-async.
    pub fn cancelled() -> Self {
        Self::failed(Self::CANCELLED, "cancelled")
    }

    /// A failure without a response.
    pub fn failed(code: &'static str, text: impl Into<String>) -> Self {
        Self::Failed { code, text: text.into() }
    }

    /// The result as it is stored for the message with this id.
    pub(crate) fn stored(self, id: &str) -> StoredResult {
        let id = id.to_owned();
        match self {
            Self::Answered { status, body } => {
                StoredResult { id, status: Some(status), body, error: None, text: None }
            }
            Self::Failed { code, text } => {
                let body = serde_json::json!({ "error": text }).to_string().into();
                StoredResult { id, status: None, body, error: Some(code.into()), text: Some(text) }
            }
        }
    }

    /// Why a message with this outcome became a dead letter.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Answered { status, .. } => format!("the last response had status {status}"),
            Self::Failed { code, text } => format!("{code}: {text}"),
        }
    }
}
