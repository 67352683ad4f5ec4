//! What waits, and what becomes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;

use crate::moment::Moment;

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
pub struct Stored {
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
}
