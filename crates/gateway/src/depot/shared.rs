//! The queues in Redis. A server that is away when the door opens is used when it comes.

use std::sync::Arc;
use std::time::Duration;

use store::{ErrorKind, RedisQueue, RedisSettings, RedisStore, StoreError};
use tokio::time::timeout;

use super::{Kit, PAUSE, later};
use crate::config::BATCH_QUEUE;
use crate::config::resolved::dispatch::{Dispatch, Queue, Redis};
use crate::dispatch::Dispatcher;
use crate::state::State;
use crate::task;

/// How long the door waits for the server before it opens without it.
const GREETING: Duration = Duration::from_secs(3);

/// See the module's description.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) dispatcher: Arc<Dispatcher>,
    store: Arc<RedisStore>,
    /// Whether the server was there at the start.
    greeted: bool,
}

// === impl Shared ===

impl Shared {
    /// Looks for the server, or says what can never be.
    pub(super) async fn open(kit: &Kit, redis: &Redis) -> Result<Arc<Self>, String> {
        let named = |error: &StoreError| format!("Redis: {error}");
        let store = RedisStore::new(settings(redis, &kit.settings));
        let store = store.map_err(|error| named(&error))?;
        // What is wrong in the configuration is told before anybody is waited for.
        let kept = Arc::clone(&store) as Arc<_>;
        let dispatcher = kit.dispatcher(kept, |queue| queue.name != BATCH_QUEUE)?;
        let greeting = greet(&store).await;
        let greeted = greeting.is_ok();
        match greeting {
            Ok(()) => {}
            Err(error) if passes(&error) => {
                tracing::error!(%error, "Redis cannot be used yet, trying again");
                dispatcher.is_in_trouble(named(&error));
            }
            Err(error) => return Err(named(&error)),
        }
        Ok(Arc::new(Self { dispatcher, store, greeted }))
    }

    /// Sends what is there, until the gate closes.
    pub(super) async fn run(self: Arc<Self>, state: Arc<State>) {
        if !self.greeted {
            task::spawn(get_to_know(Arc::clone(&self.store)));
        }
        Arc::clone(&self.dispatcher).run(state.closing()).await;
    }
}

/// Asks how the server is set, until it has said so. What is wrong now may be mended without us.
async fn get_to_know(store: Arc<RedisStore>) {
    let (mut pause, mut told) = (PAUSE, String::new());
    loop {
        match greet(&store).await {
            Ok(()) => return,
            // Of one that is away whoever sends complains.
            Err(error) if passes(&error) || error.text == told => {}
            Err(error) => {
                tracing::error!(%error, "Redis is not as it is configured here, trying again");
                told = error.text;
            }
        }
        tokio::time::sleep(pause).await;
        pause = later(pause);
    }
}

/// Asks for the server, and tells what of its settings may lose messages.
async fn greet(store: &RedisStore) -> Result<(), StoreError> {
    let silent = || StoreError::new(ErrorKind::Unavailable, format!("{store:?} does not answer"));
    let answer = timeout(GREETING, store.check_server()).await;
    for caution in answer.unwrap_or_else(|_| Err(silent()))? {
        tracing::warn!("{caution}");
    }
    Ok(())
}

/// Whether waiting helps.
fn passes(error: &StoreError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Full)
}

fn settings(redis: &Redis, dispatch: &Dispatch) -> RedisSettings {
    let queue = |queue: &Queue| RedisQueue {
        name: queue.name.clone(),
        results: queue.results.clone(),
        results_ttl: queue.results_ttl,
    };
    RedisSettings {
        urls: redis.urls.clone(),
        cluster: redis.cluster,
        replicas: redis.replicas,
        results: redis.results.clone(),
        retries: redis.retries.clone(),
        queues: dispatch.queues.iter().map(queue).collect(),
    }
}
