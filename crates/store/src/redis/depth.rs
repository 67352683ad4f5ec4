//! [`Store::depth`](crate::Store::depth): the number of messages in each state.

use super::RedisStore;
use super::connection::{Durability, next};
use super::keys::Keys;
use super::pending;
use super::pipeline::Command;
use crate::Depth;
use crate::error::StoreError;

/// How many released messages of all queues are examined to count those of one queue.
const EXAMINED_MAX: u64 = 4096;

pub(super) async fn depth(store: &RedisStore, queue: &str) -> Result<Depth, StoreError> {
    let keys = store.layout.queue(queue);
    let commands = vec![
        Command::new("ZCARD", &keys.pending),
        Command::new("ZCARD", &keys.retries),
        Command::new("ZCARD", &keys.index),
        Command::new("ZCARD", &keys.dead),
    ];
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let pending = next(&mut replies)?;
    let mut retry: u64 = next(&mut replies)?;
    let (claimed, dead) = (next(&mut replies)?, next(&mut replies)?);
    if retry > 0 && store.layout.has_shared_retries() {
        retry = count_retries(store, &keys, retry).await?;
    }
    Ok(Depth { pending, retry, claimed, dead })
}

/// Counts the released messages of one queue among `all` of a shared set. The count is exact for a
/// small set, and extrapolated from the first messages of a large one.
async fn count_retries(store: &RedisStore, keys: &Keys, all: u64) -> Result<u64, StoreError> {
    let command = Command::new("ZRANGE", &keys.retries).arg(0).arg(EXAMINED_MAX - 1);
    let members: Vec<Vec<u8>> = store.connection.query(command, Durability::Primary).await?;
    let examined = members.len() as u64;
    let readable = members.into_iter().filter_map(|member| pending::decode(member, "").ok());
    let own = readable
        .filter(|member| store.layout.home_queue(&member.decoded, keys) == keys.pending)
        .count() as u64;
    Ok(if examined < EXAMINED_MAX { own } else { own * all / examined })
}
