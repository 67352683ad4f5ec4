//! Unreadable messages: each becomes a dead letter, so that an operator can see and purge it.

use super::RedisStore;
use super::connection::Durability;
use super::keys::Keys;
use super::list_dead_letters::Reason;
use super::pending::UnreadableMember;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::error::StoreError;
use crate::llm_d_async::unreadable;
use crate::moment::Moment;
use crate::token;

/// Moves unreadable members of the sorted set `from` to the dead letters.
pub(super) async fn quarantine(
    store: &RedisStore,
    keys: &Keys,
    (from, members): (&str, Vec<UnreadableMember>),
    now: Moment,
) -> Result<(), StoreError> {
    let names = [from, &keys.dead, &keys.dead_reasons, &keys.dead_members, &keys.dead_count];
    let commands = members.into_iter().map(|UnreadableMember { bytes, error }| {
        let (id, begins) = unreadable::describe(&bytes);
        let id = id.unwrap_or_else(|| format!("unreadable-{}", token::owner()));
        let why = format!("it cannot be read: {error}; it begins with {begins}");
        let reason = Reason { id, at: now.millis(), why, failures: 0 };
        Command::script(&SCRIPTS.dead_letter_unreadable, &names).arg(bytes).arg(reason.encode())
    });
    store.connection.run(commands.collect(), Durability::Replicated).await?;
    Ok(())
}
