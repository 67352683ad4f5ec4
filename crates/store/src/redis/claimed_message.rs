//! A claimed message, as the key of its [`ClaimRef`] describes it.
//!
//! The key of a claim carries all that the later verbs need, so that they do not read the message
//! again.

use redis::Value;
use serde::{Deserialize, Serialize};

use super::connection::next;
use super::envelope::{DecodedMessage, Payload};
use super::keys::{self, ResultRoute};
use super::pipeline::Command;
use crate::ClaimRef;
use crate::error::{ErrorKind, StoreError};

/// The content of the key of a [`ClaimRef`].
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ClaimedMessage {
    pub(super) id: String,
    /// The generation of the id.
    pub(super) token: String,
    /// The list for the result.
    pub(super) list: String,
    /// How long that list is kept, in seconds.
    pub(super) ttl: u64,
    /// The key of the body, if it is stored apart.
    pub(super) body: Option<String>,
    /// How often the message had failed before.
    pub(super) failures: u32,
}

// === impl ClaimedMessage ===

impl ClaimedMessage {
    /// Describes a message that was claimed `deliveries` times, this time included.
    pub(super) fn new(message: &DecodedMessage, deliveries: u32, route: ResultRoute) -> Self {
        let body = match &message.body {
            Payload::Apart(key) => Some(key.clone()),
            Payload::Inline(_) | Payload::Gone => None,
        };
        let (id, token) = (message.message.id.clone(), message.token.clone());
        let failures = message.retries.max(deliveries.saturating_sub(1));
        Self { id, token, list: route.list, ttl: route.ttl, body, failures }
    }

    /// Decodes the key of a claim; `None` for a claim that this engine did not make.
    pub(super) fn decode(claim: &ClaimRef) -> Option<Self> {
        serde_json::from_str(&claim.key).ok()
    }

    /// Encodes the key of a claim.
    pub(super) fn encode(&self) -> Result<String, StoreError> {
        serde_json::to_string(self)
            .map_err(|error| StoreError::new(ErrorKind::Broken, error.to_string()).caused_by(error))
    }

    /// The field of the claim in the hashes of its queue.
    pub(super) fn claim_key(&self) -> String {
        keys::claim(&self.id, &self.token)
    }

    /// Reads the cancelled generation of the id, for [`ClaimedMessage::is_cancelled`]. Anybody who
    /// submits messages may write this key, and one of another type must stop nothing: MGET reads
    /// it as absent.
    pub(super) fn read_cancelled(&self) -> Command {
        Command::new("MGET", &keys::cancel(&self.id))
    }

    /// Whether the cancelled generation, which is the next reply, is that of this message.
    pub(super) fn is_cancelled(
        &self,
        replies: &mut impl Iterator<Item = Value>,
    ) -> Result<bool, StoreError> {
        let (cancelled,): (Option<String>,) = next(replies)?;
        Ok(!self.token.is_empty() && cancelled.as_ref() == Some(&self.token))
    }
}
