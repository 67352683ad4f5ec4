//! The subscription that tells of changes, so that dispatchers need not poll.
//!
//! It has a connection of its own: a server disconnects a subscriber with too many bytes of replies
//! in its output buffer, and messages are large.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind};
use tokio::sync::{Mutex, Notify};

use super::keys::NUDGE;

/// How long a server has to accept the connection, and to reply to each command.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A subscription to the channel [`NUDGE`].
#[derive(Default)]
pub(super) struct Subscription {
    changed: Arc<Notify>,
    subscriber: Mutex<Option<Subscriber>>,
}

struct Subscriber {
    /// Kept because dropping it closes the connection.
    _connection: MultiplexedConnection,
    disconnected: Arc<AtomicBool>,
}

// === impl Subscription ===

impl Subscription {
    /// Notified at every publication.
    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Subscribes to this server, in place of the previous one. A failure is no error: dispatchers
    /// then poll.
    pub(super) async fn subscribe(&self, server: &ConnectionInfo) {
        let mut subscriber = self.subscriber.lock().await;
        *subscriber = self.open(server).await.ok();
        // A publication between the two subscriptions would be missed.
        self.changed.notify_waiters();
    }

    /// Subscribes again if the subscription broke; returns whether it works now.
    pub(super) async fn ensure(&self, server: &ConnectionInfo) -> bool {
        let mut subscriber = self.subscriber.lock().await;
        let broken = |open: &Subscriber| open.disconnected.load(Ordering::Relaxed);
        if subscriber.as_ref().is_none_or(broken) {
            *subscriber = self.open(server).await.ok();
        }
        subscriber.is_some()
    }

    async fn open(&self, server: &ConnectionInfo) -> RedisResult<Subscriber> {
        let disconnected = Arc::new(AtomicBool::new(false));
        let (changed, closed) = (Arc::clone(&self.changed), Arc::clone(&disconnected));
        let on_push = move |push: PushInfo| {
            match push.kind {
                PushKind::Message => changed.notify_waiters(),
                PushKind::Disconnection => closed.store(true, Ordering::Relaxed),
                _ => {}
            }
            Ok::<(), Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT))
            .set_push_sender(on_push);
        // Only RESP3 delivers publications on a multiplexed connection.
        let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(server.clone().set_redis_settings(settings))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        connection.subscribe(NUDGE).await?;
        Ok(Subscriber { _connection: connection, disconnected })
    }
}
