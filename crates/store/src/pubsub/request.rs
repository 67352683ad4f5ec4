//! The message in Pub/Sub: the bare request of llm-d-async, whose metadata include the attributes
//! of the message.

use std::fmt;

use super::wire::PubsubMessage;
use crate::llm_d_async::request::{RequestFields, TENANT};
use crate::message::{Body, ID_MAX, Message};

/// Why a message cannot be read.
#[derive(Debug)]
pub(super) enum RequestError {
    Json(serde_json::Error),
    NoId,
    LongId(usize),
}

/// Decodes a message of any producer.
pub(super) fn decode(published: &PubsubMessage, queue: &str) -> Result<Message, RequestError> {
    let request: RequestFields<'_> =
        serde_json::from_slice(&published.data).map_err(RequestError::Json)?;
    match request.id.len() {
        0 => return Err(RequestError::NoId),
        length if length > ID_MAX => return Err(RequestError::LongId(length)),
        _ => {}
    }
    let body = Body::Bytes(request.body());
    let mut message = Message { body, ..request.message(queue) };
    for (name, value) in &published.attributes {
        match name.as_str() {
            TENANT => message.tenant.clone_from(value),
            _ => _ = message.metadata.insert(name.clone(), value.clone()),
        }
    }
    Ok(message)
}

// === impl RequestError ===

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::NoId => f.write_str("it has no id"),
            Self::LongId(length) => write!(f, "its id has {length} bytes, more than {ID_MAX}"),
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::NoId | Self::LongId(_) => None,
        }
    }
}
