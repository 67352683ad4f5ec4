//! Redis or Valkey, as the configuration describes it.

use std::sync::Arc;

use store::{RedisQueue, RedisSettings, RedisStore};

use super::error::DurableQueuesError;
use crate::config::settings::dispatch::{Queue, Redis};
use crate::tls;

/// The store of these queues.
pub(super) fn open(redis: &Redis, queues: &[Queue]) -> Result<Arc<RedisStore>, DurableQueuesError> {
    let roots = redis.ca_file.as_deref().map(tls::read_certificates).transpose();
    let queue = |queue: &Queue| RedisQueue {
        name: queue.name.clone(),
        results: queue.results.clone(),
        results_ttl: queue.results_ttl,
    };
    let store = RedisStore::new(RedisSettings {
        urls: redis.urls.clone(),
        roots: roots.map_err(DurableQueuesError::RedisRoots)?,
        cluster: redis.cluster,
        sentinel: redis.sentinel.clone(),
        replicas: redis.replicas,
        results: redis.results.clone(),
        retries: redis.retries.clone(),
        queues: queues.iter().map(queue).collect(),
    });
    store.map_err(|source| DurableQueuesError::Server { name: "Redis", source })
}
