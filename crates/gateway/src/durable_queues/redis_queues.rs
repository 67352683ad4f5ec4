//! The queues in Redis. A server that is unavailable at the start is used as soon as it responds.

use std::sync::Arc;
use std::time::Duration;

use store::{ErrorKind, RedisQueue, RedisSettings, RedisStore, StoreError};
use tokio::time::timeout;

use super::error::DurableQueuesError;
use super::{DispatchContext, PAUSE, later};
use crate::config::BATCH_QUEUE;
use crate::config::settings::dispatch::{Dispatch, Queue, Redis};
use crate::dispatch::Dispatcher;
use crate::state::State;
use crate::task;
use crate::tls;

/// How long the start waits for the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// See the module's description.
#[derive(Debug)]
pub(super) struct RedisQueues {
    pub(super) dispatcher: Arc<Dispatcher>,
    store: Arc<RedisStore>,
    /// Whether the server responded at the start.
    checked: bool,
}

// === impl RedisQueues ===

impl RedisQueues {
    /// Connects to the server; fails if another try cannot succeed.
    pub(super) async fn open(
        context: &DispatchContext,
        redis: &Redis,
    ) -> Result<Arc<Self>, DurableQueuesError> {
        let store = RedisStore::new(settings(redis, &context.settings)?);
        let store = store.map_err(DurableQueuesError::Redis)?;
        // Errors of the configuration are reported before the connection is tried.
        let kept = Arc::clone(&store) as Arc<_>;
        let dispatcher = context.dispatcher(kept, |queue| queue.name != BATCH_QUEUE)?;
        let check = check_server(&store).await;
        let checked = check.is_ok();
        match check {
            Ok(()) => {}
            Err(error) if is_temporary(&error) => {
                tracing::error!(%error, "Redis is unavailable, trying again");
                dispatcher.set_store_error(DurableQueuesError::Redis(error).to_string());
            }
            Err(error) => return Err(DurableQueuesError::Redis(error)),
        }
        Ok(Arc::new(Self { dispatcher, store, checked }))
    }

    /// Sends messages until shutdown.
    pub(super) async fn run(self: Arc<Self>, state: Arc<State>) {
        if !self.checked {
            task::spawn(check_until_available(Arc::clone(&self.store)));
        }
        Arc::clone(&self.dispatcher).run(state.closing()).await;
    }
}

/// Checks the settings of the server until it responds. An operator may correct them meanwhile.
async fn check_until_available(store: Arc<RedisStore>) {
    let (mut pause, mut logged) = (PAUSE, String::new());
    loop {
        match check_server(&store).await {
            Ok(()) => return,
            // The dispatcher reports a server that is unavailable.
            Err(error) if is_temporary(&error) || error.text == logged => {}
            Err(error) => {
                tracing::error!(%error, "Redis does not match the configuration, trying again");
                logged = error.text;
            }
        }
        tokio::time::sleep(pause).await;
        pause = later(pause);
    }
}

/// Checks the server, and logs settings that may lose messages.
async fn check_server(store: &RedisStore) -> Result<(), StoreError> {
    let silent = || StoreError::new(ErrorKind::Unavailable, format!("{store:?} does not respond"));
    let answer = timeout(CONNECT_TIMEOUT, store.check_server()).await;
    for caution in answer.unwrap_or_else(|_| Err(silent()))? {
        tracing::warn!("{caution}");
    }
    Ok(())
}

/// Whether another try may succeed.
fn is_temporary(error: &StoreError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Full)
}

fn settings(redis: &Redis, dispatch: &Dispatch) -> Result<RedisSettings, DurableQueuesError> {
    let roots = redis.ca_file.as_deref().map(tls::read_certificates).transpose();
    let queue = |queue: &Queue| RedisQueue {
        name: queue.name.clone(),
        results: queue.results.clone(),
        results_ttl: queue.results_ttl,
    };
    Ok(RedisSettings {
        urls: redis.urls.clone(),
        roots: roots.map_err(DurableQueuesError::RedisRoots)?,
        cluster: redis.cluster,
        sentinel: redis.sentinel.clone(),
        replicas: redis.replicas,
        results: redis.results.clone(),
        retries: redis.retries.clone(),
        queues: dispatch.queues.iter().map(queue).collect(),
    })
}
