//! [`Store::dead_letter`](crate::Store::dead_letter): stores the result and keeps the message as a
//! dead letter.

use super::RedisStore;
use super::claim_end::{ClaimEnd, ENDED_TTL, ResultList};
use super::connection::Durability;
use super::list_dead_letters::Reason;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::ClaimRef;
use crate::error::{ErrorKind, StoreError};
use crate::message::Outcome;
use crate::moment::Moment;
use crate::token;

pub(super) async fn dead_letter(
    store: &RedisStore,
    claim: ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> Result<bool, StoreError> {
    let first = (outcome.clone(), ResultList::OfMessage);
    match try_dead_letter(store, &claim, first, now).await {
        Err(error) if error.kind == ErrorKind::Broken => {
            try_dead_letter(store, &claim, (outcome, ResultList::OfQueue), now).await
        }
        dead => dead,
    }
}

async fn try_dead_letter(
    store: &RedisStore,
    claim: &ClaimRef,
    (outcome, list): (Outcome, ResultList),
    now: Moment,
) -> Result<bool, StoreError> {
    let Some(end) = ClaimEnd::new(store, claim, list) else { return Ok(false) };
    let (keys, message) = (&end.keys, &end.message);
    let reason = Reason {
        id: message.id.clone(),
        at: now.millis(),
        why: outcome.why(),
        failures: message.failures.saturating_add(1),
    };
    let result = end.result(outcome)?;
    if !end.push_result(store, &result).await? {
        return Ok(false);
    }
    let (ended, receipt) = (end.ended_key(), end.receipt_key());
    let claimed = [&keys.claimed, &keys.owners, &keys.index, &keys.deliveries, &ended, &receipt];
    let dead = [&keys.dead, &keys.dead_reasons, &keys.dead_members, &keys.dead_count];
    let mut names: Vec<&str> = claimed.into_iter().chain(dead).map(String::as_str).collect();
    names.extend(end.list_in_slot());
    let command = Command::script(&SCRIPTS.dead_letter, &names)
        .arg(&end.claim_key)
        .arg(&claim.token)
        .arg(token::owner())
        .arg(ENDED_TTL)
        .arg(&message.token)
        .arg(reason.encode())
        .arg(&result)
        .arg(message.ttl);
    if let Some(body) = &message.body {
        // A redrive needs the body, however late it comes.
        let persist = vec![Command::new("PERSIST", body)];
        store.connection.run(persist, Durability::Replicated).await?;
    }
    let held = store.connection.query(command, Durability::Replicated).await?;
    if held {
        end.delete_marks(store, false).await;
    }
    Ok(held)
}
