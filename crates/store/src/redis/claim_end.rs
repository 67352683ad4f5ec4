//! The end of a claim: the steps that complete, dead_letter and release share.

use super::RedisStore;
use super::claimed_message::ClaimedMessage;
use super::connection::Durability;
use super::keys::{self, Keys};
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::ClaimRef;
use crate::error::{ErrorKind, StoreError};
use crate::llm_d_async::result_record;
use crate::message::Outcome;

/// How long the end of a claim is remembered, in seconds: longer than any caller retries.
pub(super) const ENDED_TTL: u64 = 60;

/// How long a result that is in another slot than its queue is remembered, in seconds: longer than
/// any lease, after which another dispatcher sends the request again.
const PUSHED_TTL: u64 = 86_400;

/// Which list gets the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultList {
    /// The list that the message names.
    OfMessage,
    /// The list of the queue. It is used when the list of the message is unusable: its producer
    /// chose the name.
    OfQueue,
}

/// A claim that is to end.
pub(super) struct ClaimEnd<'a> {
    pub(super) claim: &'a ClaimRef,
    pub(super) message: ClaimedMessage,
    pub(super) keys: Keys,
    /// The field of the claim in the hashes of the queue.
    pub(super) claim_key: String,
    /// Whether a script of the queue can push to the result list.
    same_slot: bool,
}

/// The error of a message that cannot be encoded.
pub(super) fn not_encoded(error: serde_json::Error) -> StoreError {
    StoreError::new(ErrorKind::Broken, format!("a message cannot be written: {error}"))
        .caused_by(error)
}

// === impl ClaimEnd ===

impl<'a> ClaimEnd<'a> {
    /// `None` for a claim that this engine did not make.
    pub(super) fn new(store: &RedisStore, claim: &'a ClaimRef, list: ResultList) -> Option<Self> {
        let (mut message, keys) =
            (ClaimedMessage::decode(claim)?, store.layout.queue(&claim.queue));
        if list == ResultList::OfQueue {
            let route = store.layout.route(&claim.queue, "");
            (message.list, message.ttl) = (route.list, route.ttl);
        }
        let same_slot = store.layout.is_same_slot(&message.list, &keys.owners);
        Some(Self { claim_key: message.claim_key(), claim, message, keys, same_slot })
    }

    /// The result as it is stored.
    pub(super) fn result(&self, outcome: Outcome) -> Result<String, StoreError> {
        let stored = outcome.stored(&self.message.id);
        result_record::encode(stored, &self.message.token).map_err(not_encoded)
    }

    /// The key that remembers the end of the claim.
    pub(super) fn ended_key(&self) -> String {
        self.keys.ended(&self.claim.token)
    }

    /// The key of the receipt of the message.
    pub(super) fn receipt_key(&self) -> String {
        self.keys.receipt(&self.message.id)
    }

    /// The result list, if it is in the slot of the queue: then the script that ends the claim also
    /// pushes the result.
    pub(super) fn list_in_slot(&self) -> Option<&str> {
        self.same_slot.then_some(self.message.list.as_str())
    }

    async fn is_held(&self, store: &RedisStore) -> Result<bool, StoreError> {
        let command = Command::new("HGET", &self.keys.owners).arg(&self.claim_key);
        let owner: Option<String> = store.connection.query(command, Durability::Primary).await?;
        Ok(owner.as_ref() == Some(&self.claim.token))
    }

    /// Pushes the result to a list in another slot than the queue, before the claim ends. Does
    /// nothing for a list in the same slot. Returns `false` when the claim was lost.
    pub(super) async fn push_result(
        &self,
        store: &RedisStore,
        result: &str,
    ) -> Result<bool, StoreError> {
        if self.same_slot {
            return Ok(true);
        }
        if !self.is_held(store).await? {
            return Ok(false);
        }
        let Self { claim, message, claim_key, .. } = self;
        // Without a generation a later message with this id has the same claim key.
        let name = if message.token.is_empty() { &claim.token } else { claim_key };
        let mark = keys::pushed(&message.list, name);
        let command = Command::script(&SCRIPTS.complete_push_result, &[&message.list, &mark])
            .arg(result)
            .arg(message.ttl)
            .arg(PUSHED_TTL);
        store.connection.query::<bool>(command, Durability::Replicated).await?;
        Ok(true)
    }

    /// Deletes the marks of a message that has ended, and its body if `with_body`. They expire by
    /// themselves, so an error is ignored.
    pub(super) async fn delete_marks(&self, store: &RedisStore, with_body: bool) {
        let message = &self.message;
        let mut commands = Vec::new();
        if !message.token.is_empty() {
            for mark in [keys::active(&message.id), keys::cancel(&message.id)] {
                let command = Command::script(&SCRIPTS.complete_delete_mark, &[&mark]);
                commands.push(command.arg(&message.token));
            }
        }
        let body = message.body.as_ref().filter(|_| with_body);
        commands.extend(body.map(|key| Command::new("DEL", key)));
        _ = store.connection.run(commands, Durability::Primary).await;
    }
}
