//! [`Store::release`](crate::Store::release): gives a claimed message back.

use super::RedisStore;
use super::check_retries::with_retries;
use super::claim_end::{ClaimEnd, ENDED_TTL, ResultList, not_encoded};
use super::connection::{Durability, next};
use super::envelope::{self, seconds};
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;
use crate::{ClaimRef, Release, token};

pub(super) async fn release(
    store: &RedisStore,
    claim: ClaimRef,
    release: Release,
    now: Moment,
) -> Result<bool, StoreError> {
    let Some(end) = ClaimEnd::new(store, &claim, ResultList::OfMessage) else { return Ok(false) };
    let Some((member, cancelled)) = read_claimed(store, &end).await? else { return Ok(false) };
    let decoded = envelope::decode(&member, &claim.queue).map_err(|error| {
        let text = format!("a claimed message: {error}");
        StoreError::new(ErrorKind::Broken, text).caused_by(error)
    })?;
    let member =
        envelope::encode_released(&member, &claim.queue, release.failed).map_err(not_encoded)?;
    let (ended, keys) = (end.ended_key(), &end.keys);
    // A cancelled message is pending at once, so that its result does not wait for the due time.
    let (target, score) = match release.due > now && !cancelled {
        true => (&keys.retries, seconds(release.due)),
        false => (&keys.pending, decoded.score),
    };
    let names = [&keys.claimed, &keys.owners, &keys.index, &keys.deliveries, &ended, target];
    let command = Command::script(&SCRIPTS.release, &names.map(String::as_str))
        .arg(&end.claim_key)
        .arg(&claim.token)
        .arg(token::owner())
        .arg(ENDED_TTL)
        .arg(member)
        .arg(score)
        .arg(u8::from(release.failed));
    let commands = vec![command, Command::publish_change(&claim.queue)];
    let released = store.connection.run(commands, Durability::Primary).await;
    match with_retries(store, keys, released).await? {
        Some(mut replies) => next(&mut replies),
        None => release_until_due(store, &end, release).await,
    }
}

/// The same without the set of the messages that wait for a retry: the message waits in its claim.
async fn release_until_due(
    store: &RedisStore,
    end: &ClaimEnd<'_>,
    release: Release,
) -> Result<bool, StoreError> {
    let ClaimEnd { claim, keys, claim_key, .. } = end;
    let names = [&keys.owners, &keys.index, &keys.deliveries];
    let command = Command::script(&SCRIPTS.release_until_due, &names.map(String::as_str))
        .arg(claim_key)
        .arg(&claim.token)
        .arg(token::owner())
        .arg(seconds(release.due))
        .arg(u8::from(release.failed));
    store.connection.query(command, Durability::Primary).await
}

/// Reads the claimed message, and whether it is cancelled; `None` when the claim was lost.
async fn read_claimed(
    store: &RedisStore,
    end: &ClaimEnd<'_>,
) -> Result<Option<(String, bool)>, StoreError> {
    let ClaimEnd { claim, message, keys, claim_key, .. } = end;
    let commands = vec![
        Command::new("HGET", &keys.owners).arg(claim_key),
        Command::new("HGET", &keys.claimed).arg(claim_key),
        message.read_cancelled(),
    ];
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let owner: Option<String> = next(&mut replies)?;
    let member: Option<String> = next(&mut replies)?;
    let cancelled = message.is_cancelled(&mut replies)?;
    let member = member.filter(|_| owner.as_ref() == Some(&claim.token));
    Ok(member.map(|member| (member, cancelled)))
}
