//! Hearing that there is something new, so that nobody has to ask all the time.
//!
//! On a connection of its own: a server cuts off whoever hears of news and has too many bytes of
//! answers on the way, and messages are large.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind};
use tokio::sync::{Mutex, Notify};

use super::keys::NUDGE;

/// How long a server has for each step of the way there.
const PATIENCE: Duration = Duration::from_secs(2);

/// What hears.
#[derive(Default)]
pub(super) struct Ear {
    woken: Arc<Notify>,
    line: Mutex<Option<Open>>,
}

struct Open {
    /// Kept, because it ends when nobody has it.
    _line: MultiplexedConnection,
    deaf: Arc<AtomicBool>,
}

// === impl Ear ===

impl Ear {
    /// What is called when there is something new.
    pub(super) fn woken(&self) -> &Notify {
        &self.woken
    }

    /// Listens to this server from now on. Whoever cannot asks from time to time instead, so that
    /// it is no failure.
    pub(super) async fn turn_to(&self, server: &ConnectionInfo) {
        let mut line = self.line.lock().await;
        *line = self.open(server).await.ok();
        // Something may have been said while nobody heard.
        self.woken.notify_waiters();
    }

    /// Listens again if it no longer does; says whether it does now.
    pub(super) async fn mend(&self, server: &ConnectionInfo) -> bool {
        let mut line = self.line.lock().await;
        if line.as_ref().is_none_or(|line| line.deaf.load(Ordering::Relaxed)) {
            *line = self.open(server).await.ok();
        }
        line.is_some()
    }

    async fn open(&self, server: &ConnectionInfo) -> RedisResult<Open> {
        let (woken, deaf) = (Arc::clone(&self.woken), Arc::new(AtomicBool::new(false)));
        let cut = Arc::clone(&deaf);
        let heard = move |push: PushInfo| {
            match push.kind {
                PushKind::Message => woken.notify_waiters(),
                PushKind::Disconnection => cut.store(true, Ordering::Relaxed),
                _ => {}
            }
            Ok::<(), Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE))
            .set_push_sender(heard);
        // Only the newer protocol tells news beside answers; the library wants it for this.
        let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(server.clone().set_redis_settings(settings))?;
        let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
        line.subscribe(NUDGE).await?;
        Ok(Open { _line: line, deaf })
    }
}
