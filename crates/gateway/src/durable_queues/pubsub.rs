//! Google Cloud Pub/Sub, as the configuration describes it: the way to the server, with
//! credentials.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{CallError, CallFuture, PubSubCalls, PubSubQueue, PubSubSettings, PubSubStore};

use super::error::DurableQueuesError;
use super::google_credentials::GoogleCredentials;
use crate::clock::moment;
use crate::config::BATCH_QUEUE;
use crate::config::settings::dispatch::{Dispatch, PubSub, Queue};
use crate::task;
use crate::upstream::client::BaseUrl;
use crate::upstream::grpc_client::{GrpcCall, GrpcClient, GrpcError};

const SERVER: &str = "https://pubsub.googleapis.com";
/// The variable that names an emulator, as all clients of Google read it.
const EMULATOR: &str = "PUBSUB_EMULATOR_HOST";
/// The longest response: a pull brings many messages, of up to 10 MB each.
const RESPONSE_MAX: usize = 256 << 20;

/// The way to a server.
#[derive(Debug)]
struct GoogleCalls {
    client: GrpcClient,
    /// `None` for an emulator, which gets no credentials.
    credentials: Option<GoogleCredentials>,
}

/// The store of these queues.
pub(super) fn open(
    pubsub: &PubSub,
    settings: &Dispatch,
) -> Result<Arc<PubSubStore>, DurableQueuesError> {
    let calls = GoogleCalls::new(pubsub, |name| {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    })?;
    let queue =
        |queue: &Queue| PubSubQueue { name: queue.name.clone(), results: queue.results.clone() };
    let ours = settings.queues.iter().filter(|queue| queue.name != BATCH_QUEUE);
    let settings = PubSubSettings {
        project: pubsub.project.clone(),
        results: pubsub.results.clone(),
        dead_letters: pubsub.dead_letters.clone(),
        lease: settings.lease,
        queues: ours.map(queue).collect(),
    };
    Ok(PubSubStore::new(settings, Arc::new(calls)))
}

/// Receives the messages of each queue, until the store is closed.
pub(super) fn receive(store: &Arc<PubSubStore>) {
    for queue in store.queues() {
        let store = Arc::clone(store);
        task::spawn(async move { store.receive(&queue, moment).await });
    }
}

// === impl GoogleCalls ===

impl GoogleCalls {
    fn new(
        pubsub: &PubSub,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, DurableQueuesError> {
        let emulator = || variable(EMULATOR).map(|place| format!("http://{place}"));
        let url = pubsub.endpoint.clone().or_else(emulator).unwrap_or_else(|| SERVER.into());
        let base = BaseUrl::parse(&url).map_err(DurableQueuesError::PubSubAddress)?;
        let is_google = base.origin().starts_with("https:");
        let credentials =
            is_google.then(|| GoogleCredentials::new(pubsub.credentials.as_deref(), variable));
        let credentials = credentials.transpose().map_err(DurableQueuesError::Credentials)?;
        Ok(Self { client: GrpcClient::new(base), credentials })
    }
}

impl PubSubCalls for GoogleCalls {
    fn call(&self, method: &'static str, message: Bytes, limit: Duration) -> CallFuture<'_> {
        Box::pin(async move {
            let authorization = match &self.credentials {
                Some(credentials) => Some(credentials.authorization().await.map_err(|error| {
                    CallError { code: CallError::UNAVAILABLE, text: error.to_string() }
                })?),
                None => None,
            };
            let call = GrpcCall { method, message, authorization, limit, most: RESPONSE_MAX };
            self.client.call(call).await.map_err(|error| failed(method, error))
        })
    }
}

/// The error of a call. A server that cannot be reached has no status of its own.
fn failed(method: &str, error: GrpcError) -> CallError {
    let code = match &error {
        GrpcError::Failed(status) => status.code,
        GrpcError::Client(_) | GrpcError::Http(_) | GrpcError::NoStatus => CallError::UNAVAILABLE,
        GrpcError::Garbled => CallError::INTERNAL,
    };
    let name = method.rsplit('/').next().unwrap_or_default();
    CallError { code, text: format!("{name}: {error}") }
}
