//! [`Store::depth`](crate::Store::depth): the number of messages in each state.

use super::RedisStore;
use super::check_retries::with_retries;
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
    let sets = [&keys.pending, &keys.index, &keys.dead];
    let commands = sets.map(|set| Command::new("ZCARD", set)).into();
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let mut count = || next(&mut replies);
    let (pending, claimed, dead) = (count()?, count()?, count()?);
    let retry = with_retries(store, &keys, count_retries(store, &keys).await).await?;
    Ok(Depth { pending, retry: retry.unwrap_or_default(), claimed, dead })
}

/// Counts the released messages of one queue, perhaps in a set that others share. The count is
/// exact for a small set, and extrapolated from the first messages of a large one.
async fn count_retries(store: &RedisStore, keys: &Keys) -> Result<u64, StoreError> {
    let all = Command::new("ZCARD", &keys.retries);
    let all: u64 = store.connection.query(all, Durability::Primary).await?;
    if all == 0 || !store.layout.has_shared_retries() {
        return Ok(all);
    }
    let command = Command::new("ZRANGE", &keys.retries).arg(0).arg(EXAMINED_MAX - 1);
    let members: Vec<Vec<u8>> = store.connection.query(command, Durability::Primary).await?;
    let examined = members.len() as u64;
    let readable = members.into_iter().filter_map(|member| pending::decode(member, "").ok());
    let own = readable
        .filter(|member| store.layout.home_queue(&member.decoded, keys) == keys.pending)
        .count() as u64;
    Ok(if examined < EXAMINED_MAX { own } else { own * all / examined })
}
