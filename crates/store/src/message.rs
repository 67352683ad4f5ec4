//! What waits, and what becomes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;

/// How the routes of batches begin, whose messages have one final answer each.
pub const BATCH_ROUTE: &str = "batch_";

/// Why one of a batch's messages does not wait again.
pub(crate) const ENDED_WITH_BATCH: &str = "its batch has had its final answer";

/// The longest id, in bytes.
pub(crate) const ID_MAX: usize = 1024;

/// A request that waits for its turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Chosen by whoever submits it; the same id with the same content is the same message.
    pub id: String,
    /// The queue in which it waits.
    pub queue: String,
    /// Whose it is; empty for nobody's. Tenants share a queue fairly.
    pub tenant: String,
    /// When it was made.
    pub created: Moment,
    /// When it is no longer wanted.
    pub deadline: Moment,
    /// The path it goes to; empty for that of its queue.
    pub endpoint: String,
    /// The model it asks for, if known.
    pub model: String,
    /// What goes with it and back.
    pub metadata: BTreeMap<String, String>,
    /// What it wants to be sent with.
    pub headers: BTreeMap<String, String>,
    /// Where its result goes; empty for that of its queue.
    pub route: String,
    /// The request itself.
    pub body: Body,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes themselves.
    Bytes(Bytes),
    /// A part of a file, which outlives the message.
    Slice {
        /// The file.
        file: PathBuf,
        /// Where it begins.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// It was kept apart from the message and is no longer there.
    Gone,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer came, good or bad.
    Answered {
        /// Its status.
        status: u16,
        /// Its body as it came.
        body: Bytes,
    },
    /// No answer came; the code says why in a word, the text in a sentence.
    Failed {
        /// One of [`Outcome`]'s codes.
        code: &'static str,
        /// What happened.
        text: String,
    },
}

/// A result that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// The message's id.
    pub id: String,
    /// What became of it.
    pub status: Option<u16>,
    /// The answer's body, or `{"error": …}`.
    pub body: Bytes,
    /// Why there was no answer, in a word.
    pub error: Option<String>,
    /// Why there was no answer, in a sentence.
    pub text: Option<String>,
}

// === impl Message ===

impl Message {
    /// Whether it can be kept at all.
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

    /// What tells two messages of one id apart: everything but the moment at which it was made,
    /// which is another one when somebody tries again.
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
    /// How many bytes it has.
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
    /// Its deadline passed.
    pub const DEADLINE: &'static str = "DEADLINE_EXCEEDED";
    /// Somebody wanted it cancelled.
    pub const CANCELLED: &'static str = "CANCELLED";
    /// It failed too often.
    pub const FAILED: &'static str = "INFERENCE_ERROR";
    /// It cannot be sent as it is.
    pub const INVALID: &'static str = "INVALID_REQUEST";
    /// Its body is gone.
    pub const BODY_GONE: &'static str = "PAYLOAD_UNAVAILABLE";

    /// No answer came.
    pub fn failed(code: &'static str, text: impl Into<String>) -> Self {
        Self::Failed { code, text: text.into() }
    }

    /// As it is kept.
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

    /// Why a message with this outcome is among the dead.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Answered { status, .. } => format!("the last answer had status {status}"),
            Self::Failed { code, text } => format!("{code}: {text}"),
        }
    }
}
