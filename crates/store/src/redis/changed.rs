//! [`Store::changed`](crate::Store::changed): resolves at a publication, or after a while.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::RedisStore;

/// How long a message of a foreign producer may go unnoticed: foreign producers do not publish.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn changed(store: &RedisStore) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    // Created now and not at the first poll, so that it resolves for changes from now on.
    let notified = store.connection.changed().notified();
    let published = async {
        store.connection.ensure_subscribed().await;
        notified.await;
    };
    // A timeout resolves the future, too.
    Box::pin(async { _ = timeout(POLL_INTERVAL, published).await })
}
