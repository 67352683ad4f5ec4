//! The settings of the engine.

use std::fmt;
use std::time::Duration;

use super::keys;
use super::topology::without_password;

/// The servers, and the names of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// The addresses. Of several servers, the engine uses the one that takes writes.
    pub urls: Vec<String>,
    /// The root certificates for addresses that begin with `rediss://`, in PEM; by default those of
    /// the system.
    pub roots: Option<Vec<u8>>,
    /// Whether the servers are a cluster.
    pub cluster: bool,
    /// The name of the service whose primary the servers name, if they are sentinels.
    pub sentinel: Option<String>,
    /// The number of replicas that must have a write before the engine reports it.
    pub replicas: u32,
    /// The list for results, unless the queue or the message names another.
    pub results: String,
    /// The set of released messages that are not due yet.
    pub retries: String,
    /// The queues that are known beforehand.
    pub queues: Vec<RedisQueue>,
}

/// Where the results of a queue go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisQueue {
    /// The name of the queue.
    pub name: String,
    /// The list for its results. It takes precedence over the list that a message names.
    pub results: Option<String>,
    /// How long the list is kept after its last result.
    pub results_ttl: Option<Duration>,
}

// === impl RedisSettings ===

impl RedisSettings {
    /// The addresses without passwords.
    pub(super) fn shown_urls(&self) -> Vec<String> {
        self.urls.iter().map(|url| without_password(url)).collect()
    }
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            urls: vec!["redis://127.0.0.1:6379".into()],
            roots: None,
            cluster: false,
            sentinel: None,
            replicas: 0,
            results: keys::RESULTS.into(),
            retries: keys::RETRIES.into(),
            queues: Vec::new(),
        }
    }
}

impl fmt::Debug for RedisSettings {
    /// Leaves out the passwords of the addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("urls", &self.shown_urls())
            .field("cluster", &self.cluster)
            .field("sentinel", &self.sentinel)
            .field("replicas", &self.replicas)
            .field("results", &self.results)
            .field("retries", &self.retries)
            .field("queues", &self.queues)
            .finish()
    }
}
