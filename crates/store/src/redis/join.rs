//! [`Store::join`](crate::Store::join): the members of a group of dispatchers, a sorted set of
//! names by the time until which each is present.

use super::RedisStore;
use super::connection::{Durability, next};
use super::pipeline::Command;
use crate::Membership;
use crate::error::StoreError;
use crate::moment::Moment;

/// How long an unused group is kept, in seconds.
const GROUP_TTL: u64 = 24 * 3600;

pub(super) async fn join(
    store: &RedisStore,
    (group, name): (&str, &str),
    until: Moment,
    now: Moment,
) -> Result<Membership, StoreError> {
    let key = format!("{{tidegate}}:dispatchers:{group}");
    let commands = vec![
        Command::new("ZADD", &key).arg(until.millis()).arg(name),
        Command::new("ZREMRANGEBYSCORE", &key).arg("-inf").arg(now.millis()),
        Command::new("EXPIRE", &key).arg(GROUP_TTL),
        Command::new("ZRANGE", &key).arg(0).arg(-1),
    ];
    let mut replies = store.connection.run(commands, Durability::Primary).await?.skip(3);
    let mut names: Vec<String> = next(&mut replies)?;
    // The order by time changes with every call, the order by name does not.
    names.sort_unstable();
    let rank = names.iter().position(|present| present == name).unwrap_or(0);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Membership { rank: count(rank), size: count(names.len().max(1)) })
}
