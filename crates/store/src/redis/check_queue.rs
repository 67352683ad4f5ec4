//! [`Store::check_queue`](crate::Store::check_queue): whether the keys of a queue have their types.
//! Another program may use a key of the same name.

use super::RedisStore;
use super::connection::{Durability, next};
use super::keys::Keys;
use super::pipeline::Command;
use crate::error::StoreError;

const STRING: &str = "string";
const LIST: &str = "list";
const HASH: &str = "hash";
pub(super) const SORTED_SET: &str = "zset";
/// The type of a key that does not exist.
const NONE: &str = "none";

pub(super) async fn check_queue(
    store: &RedisStore,
    queue: &str,
) -> Result<Option<String>, StoreError> {
    let (keys, results) = (store.layout.queue(queue), store.layout.route(queue, "").list);
    let expected = keys.types();
    let expected: Vec<(&str, &str)> = expected.into_iter().chain([(&*results, LIST)]).collect();
    check_types(store, expected).await
}

/// What is wrong with the first of these keys that has another type.
pub(super) async fn check_types(
    store: &RedisStore,
    expected: Vec<(&str, &str)>,
) -> Result<Option<String>, StoreError> {
    let commands = expected.iter().map(|(key, _)| Command::new("TYPE", key)).collect();
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    for (key, wanted) in expected {
        let found: String = next(&mut replies)?;
        if found != wanted && found != NONE {
            let (found, wanted) = (described(&found), described(wanted));
            return Ok(Some(format!(
                "the key {key:?} is {found} and must be {wanted}: another program uses this name. \
                 Rename the key (RENAME {key} {key}.old) or give the queue other names"
            )));
        }
    }
    Ok(None)
}

/// A type of Redis in words.
fn described(kind: &str) -> String {
    match kind {
        SORTED_SET => "a sorted set".into(),
        other => format!("a {other}"),
    }
}

// === impl Keys ===

impl Keys {
    /// The keys of the queue with fixed names, and their types.
    fn types(&self) -> [(&str, &'static str); 9] {
        [
            (&self.pending, SORTED_SET),
            (&self.claimed, HASH),
            (&self.owners, HASH),
            (&self.index, SORTED_SET),
            (&self.deliveries, HASH),
            (&self.dead, SORTED_SET),
            (&self.dead_reasons, HASH),
            (&self.dead_members, HASH),
            (&self.dead_count, STRING),
        ]
    }
}
