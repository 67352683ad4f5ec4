//! The queues in a store that other processes use, too: Redis or Pub/Sub. A server that is
//! unavailable at the start is used as soon as it responds.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "pubsub")]
use store::PubSubStore;
use store::{ErrorKind, RedisStore, Store, StoreError};
use tokio::time::timeout;

use super::error::DurableQueuesError;
use super::{DispatchContext, PAUSE, later, redis};
use crate::config::BATCH_QUEUE;
use crate::config::settings::dispatch::Dispatch;
use crate::dispatch::Dispatcher;
use crate::state::State;
use crate::task;

/// How long the start waits for the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// See the module's description.
#[derive(Debug)]
pub(super) struct SharedQueues {
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) store: SharedStore,
    /// Whether the server responded at the start.
    checked: bool,
}

/// A shared store.
#[derive(Clone, Debug)]
pub(super) enum SharedStore {
    Redis(Arc<RedisStore>),
    #[cfg(feature = "pubsub")]
    PubSub(Arc<PubSubStore>),
}

// === impl SharedStore ===

impl SharedStore {
    /// The store of the configuration, if it has one.
    fn open(settings: &Dispatch) -> Result<Option<Self>, DurableQueuesError> {
        if let Some(redis) = &settings.redis {
            return redis::open(redis, &settings.queues).map(Self::Redis).map(Some);
        }
        #[cfg(feature = "pubsub")]
        if let Some(pubsub) = &settings.pubsub {
            return super::pubsub::open(pubsub, settings).map(Self::PubSub).map(Some);
        }
        Ok(None)
    }

    /// The name of the software.
    fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "Redis",
            #[cfg(feature = "pubsub")]
            Self::PubSub(_) => "Pub/Sub",
        }
    }

    /// The section of the configuration.
    pub(super) fn section(&self) -> &'static str {
        match self {
            Self::Redis(_) => "dispatch.redis",
            #[cfg(feature = "pubsub")]
            Self::PubSub(_) => "dispatch.pubsub",
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Redis(store) => Arc::clone(store) as Arc<_>,
            #[cfg(feature = "pubsub")]
            Self::PubSub(store) => Arc::clone(store) as Arc<_>,
        }
    }

    /// Checks the server, and logs settings that may lose messages.
    async fn check_server(&self) -> Result<(), StoreError> {
        let check = async {
            match self {
                Self::Redis(store) => store.check_server().await,
                #[cfg(feature = "pubsub")]
                Self::PubSub(store) => store.check_server().await,
            }
        };
        let silent = || {
            let text = format!("{:?} does not respond", self.store());
            StoreError::new(ErrorKind::Unavailable, text)
        };
        let answer = timeout(CONNECT_TIMEOUT, check).await;
        for caution in answer.unwrap_or_else(|_| Err(silent()))? {
            tracing::warn!("{caution}");
        }
        Ok(())
    }

    /// The error of a server.
    fn error(&self, source: StoreError) -> DurableQueuesError {
        DurableQueuesError::Server { name: self.name(), source }
    }

    /// Receives messages, from a server that does not let them be claimed one by one.
    fn receive(&self) {
        #[cfg(feature = "pubsub")]
        if let Self::PubSub(store) = self {
            super::pubsub::receive(store);
        }
    }

    /// Checks the settings of the server until it responds. An operator may correct them meanwhile.
    async fn check_until_available(self) {
        let (mut pause, mut logged) = (PAUSE, String::new());
        let name = self.name();
        loop {
            match self.check_server().await {
                Ok(()) => return,
                // The dispatcher reports a server that is unavailable.
                Err(error) if is_temporary(&error) || error.text == logged => {}
                Err(error) => {
                    tracing::error!(
                        %error, "{name} does not match the configuration, trying again"
                    );
                    logged = error.text;
                }
            }
            tokio::time::sleep(pause).await;
            pause = later(pause);
        }
    }
}

// === impl SharedQueues ===

impl SharedQueues {
    /// Connects to the server, if one is configured; fails if another try cannot succeed.
    pub(super) async fn open(
        context: &DispatchContext,
    ) -> Result<Option<Arc<Self>>, DurableQueuesError> {
        let Some(store) = SharedStore::open(&context.settings)? else { return Ok(None) };
        // Errors of the configuration are reported before the connection is tried.
        let dispatcher = context.dispatcher(store.store(), |queue| queue.name != BATCH_QUEUE)?;
        let check = store.check_server().await;
        let checked = check.is_ok();
        match check {
            Ok(()) => {}
            Err(error) if is_temporary(&error) => {
                tracing::error!(%error, "{} is unavailable, trying again", store.name());
                dispatcher.set_store_error(store.error(error).to_string());
            }
            Err(error) => return Err(store.error(error)),
        }
        Ok(Some(Arc::new(Self { dispatcher, store, checked })))
    }

    /// Sends messages until shutdown.
    pub(super) async fn run(self: Arc<Self>, state: Arc<State>) {
        if !self.checked {
            task::spawn(self.store.clone().check_until_available());
        }
        self.store.receive();
        Arc::clone(&self.dispatcher).run(state.closing()).await;
    }
}

/// Whether another try may succeed.
fn is_temporary(error: &StoreError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Full)
}
