//! [`Store::cancel`](crate::Store::cancel): marks the active generation of a request as cancelled.

use super::connection::Durability;
use super::pipeline::Command;
use super::{RedisStore, keys};
use crate::error::StoreError;

/// How long the mark is kept, in seconds: seven days, as llm-d-async does.
const MARK_TTL: u64 = 604_800;

pub(super) async fn cancel(store: &RedisStore, id: &str) -> Result<bool, StoreError> {
    let command = Command::new("GET", &keys::active(id));
    let active: Option<String> = store.connection.query(command, Durability::Primary).await?;
    let Some(token) = active else { return Ok(false) };
    let mark = Command::new("SET", &keys::cancel(id)).arg(token).arg("EX").arg(MARK_TTL);
    let commands = vec![mark, Command::publish_change("")];
    store.connection.run(commands, Durability::Replicated).await?;
    Ok(true)
}
