//! [`Store::complete`](crate::Store::complete): stores the result and ends the message.

use super::RedisStore;
use super::claim_end::{ClaimEnd, ENDED_TTL, ResultList};
use super::connection::Durability;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::ClaimRef;
use crate::error::{ErrorKind, StoreError};
use crate::message::Outcome;
use crate::token;

/// How long the receipt of a completed message is kept, in seconds.
const RECEIPT_TTL: u64 = 3600;

pub(super) async fn complete(
    store: &RedisStore,
    claim: ClaimRef,
    outcome: Outcome,
) -> Result<bool, StoreError> {
    match try_complete(store, &claim, outcome.clone(), ResultList::OfMessage).await {
        Err(error) if error.kind == ErrorKind::Broken => {
            try_complete(store, &claim, outcome, ResultList::OfQueue).await
        }
        completed => completed,
    }
}

async fn try_complete(
    store: &RedisStore,
    claim: &ClaimRef,
    outcome: Outcome,
    list: ResultList,
) -> Result<bool, StoreError> {
    let Some(end) = ClaimEnd::new(store, claim, list) else { return Ok(false) };
    let result = end.result(outcome)?;
    if !end.push_result(store, &result).await? {
        return Ok(false);
    }
    let (ended, receipt) = (end.ended_key(), end.receipt_key());
    let (keys, message) = (&end.keys, &end.message);
    let mut names: Vec<&str> =
        vec![&keys.claimed, &keys.owners, &keys.index, &keys.deliveries, &ended, &receipt];
    names.extend(end.list_in_slot());
    let command = Command::script(&SCRIPTS.complete, &names)
        .arg(&end.claim_key)
        .arg(&claim.token)
        .arg(token::owner())
        .arg(ENDED_TTL)
        .arg(&message.token)
        .arg(RECEIPT_TTL)
        .arg(&result)
        .arg(message.ttl);
    let held = store.connection.query(command, Durability::Replicated).await?;
    if held {
        end.delete_marks(store, true).await;
    }
    Ok(held)
}
