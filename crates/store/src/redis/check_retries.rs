//! [`Store::check_retries`](crate::Store::check_retries): whether the messages that wait for a
//! retry can be kept in their set. All queues may share it, so a queue does without it where
//! another program uses a key of the same name.

use super::RedisStore;
use super::check_queue::{SORTED_SET, check_types};
use super::keys::Keys;
use crate::error::{ErrorKind, StoreError};

pub(super) async fn check_retries(
    store: &RedisStore,
    queue: &str,
) -> Result<Option<String>, StoreError> {
    check(store, &store.layout.queue(queue)).await
}

async fn check(store: &RedisStore, keys: &Keys) -> Result<Option<String>, StoreError> {
    check_types(store, vec![(&keys.retries, SORTED_SET)]).await
}

/// A value that was read with this set; `None` if it failed because the set cannot be used.
pub(super) async fn with_retries<T>(
    store: &RedisStore,
    keys: &Keys,
    read: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if error.kind == ErrorKind::Broken => match check(store, keys).await? {
            Some(_) => Ok(None),
            None => Err(error),
        },
        read => read.map(Some),
    }
}
