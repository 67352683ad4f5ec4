//! [`Store::standing`](crate::Store::standing): whether claims are held and messages cancelled.

use redis::Value;

use super::RedisStore;
use super::claimed_message::ClaimedMessage;
use super::connection::{Durability, parse};
use super::keys::Keys;
use super::pipeline::Command;
use crate::error::StoreError;
use crate::{ClaimRef, Standing};

pub(super) async fn standing(
    store: &RedisStore,
    claims: Vec<ClaimRef>,
) -> Result<Vec<Standing>, StoreError> {
    let read_owner = |_: &ClaimRef, keys: &Keys, claim_key: &str| {
        Command::new("HGET", &keys.owners).arg(claim_key)
    };
    let is_owner = |claim: &ClaimRef, reply: Value| {
        Ok(parse::<Option<String>>(reply)?.as_ref() == Some(&claim.token))
    };
    check(store, &claims, read_owner, is_owner).await
}

/// Runs a command for each claim, whose reply says whether the claim is held.
pub(super) async fn check(
    store: &RedisStore,
    claims: &[ClaimRef],
    command: impl Fn(&ClaimRef, &Keys, &str) -> Command,
    is_held: impl Fn(&ClaimRef, Value) -> Result<bool, StoreError>,
) -> Result<Vec<Standing>, StoreError> {
    let messages: Vec<Option<ClaimedMessage>> = claims.iter().map(ClaimedMessage::decode).collect();
    let mut commands = Vec::new();
    for (claim, message) in claims.iter().zip(&messages) {
        let Some(message) = message else { continue };
        let keys = store.layout.queue(&claim.queue);
        commands.push(command(claim, &keys, &message.claim_key()));
        commands.push(message.read_cancelled());
    }
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let standings = claims.iter().zip(&messages).map(|(claim, message)| {
        let Some(message) = message else { return Ok(Standing::Lost) };
        let held = is_held(claim, replies.next().unwrap_or(Value::Nil))?;
        Ok(Standing::new(held, message.is_cancelled(&mut replies)?))
    });
    standings.collect()
}
