//! [`Store::purge_dead_letters`](crate::Store::purge_dead_letters): deletes dead letters.

use super::RedisStore;
use super::connection::{Durability, parse};
use super::envelope::{self, Payload};
use super::keys::Keys;
use super::list_dead_letters::{DeadMember, SelectedPages};
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::Selection;
use crate::error::StoreError;

pub(super) async fn purge_dead_letters(
    store: &RedisStore,
    queue: &str,
    selection: Selection,
) -> Result<u64, StoreError> {
    let keys = store.layout.queue(queue);
    let mut pages = SelectedPages::new(store, &keys, selection);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += purge_page(store, &keys, &page).await?;
    }
    Ok(count)
}

/// Deletes dead letters and their bodies. Returns how many still existed: another operator may have
/// redriven or purged some.
async fn purge_page(
    store: &RedisStore,
    keys: &Keys,
    page: &[DeadMember],
) -> Result<u64, StoreError> {
    let (commands, bodies): (Vec<Command>, Vec<Option<Command>>) =
        page.iter().map(|dead| purge_one(dead, keys)).unzip();
    let (mut count, mut body_commands) = (0, Vec::new());
    let replies = store.connection.run(commands, Durability::Replicated).await?;
    for (purged, body) in replies.zip(bodies) {
        if parse::<bool>(purged)? {
            count += 1;
            body_commands.extend(body);
        }
    }
    store.connection.run(body_commands, Durability::Replicated).await?;
    Ok(count)
}

/// The commands that delete a dead letter, and its body if that is stored apart.
fn purge_one(dead: &DeadMember, keys: &Keys) -> (Command, Option<Command>) {
    let text = String::from_utf8_lossy(&dead.member);
    let message = envelope::decode(&text, &keys.pending).ok();
    let token = message.as_ref().map_or("", |message| message.token.as_str());
    let receipt = keys.receipt(&dead.id);
    let names = [&keys.dead, &keys.dead_reasons, &keys.dead_members, &receipt];
    let command = Command::script(&SCRIPTS.purge_dead_letters, &names.map(String::as_str));
    let body = match message.as_ref().map(|message| &message.body) {
        Some(Payload::Apart(body)) => Some(Command::new("DEL", body)),
        _ => None,
    };
    (command.arg(dead.number).arg(token), body)
}
