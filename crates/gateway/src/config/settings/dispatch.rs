//! The configuration of batch work: the Batch API, the dispatcher, its queues and its gates.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flow::Band;

use crate::config::{Source, resolve, sections};
pub use crate::gates::{
    AimdGate, BudgetGate, Capacity, ConstantGate, GateKind, GateSettings, GatewayGate,
    MetricMeaning, QueryGate, RedisGate, SaturationGate, ScrapeGate, Unit,
};
use crate::schema::Section;

/// The Batch API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The folder of files and queue. Without it there is no Batch API.
    pub folder: Option<PathBuf>,
    /// The largest file that may be uploaded, in bytes.
    pub file_limit: u64,
    /// All files together, in bytes.
    pub files_limit: u64,
    /// The most requests of a batch.
    pub lines_max: u32,
    /// The longest line of a batch, in bytes.
    pub line_limit: usize,
    /// How long finished batches and their files are kept.
    pub keep: Duration,
}

/// The dispatcher.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// The address of the status pages of `tidegate dispatch`.
    pub listen: SocketAddr,
    /// The server of the queues, if they are in Redis. Without a server they are in
    /// [`Batch::folder`].
    pub redis: Option<Redis>,
    /// The project of the queues, if they are in Pub/Sub.
    pub pubsub: Option<PubSub>,
    /// The most requests in flight.
    pub workers: usize,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long a claim lasts without renewal.
    pub lease: Duration,
    /// Failures until a message becomes a dead letter; without it the deadline decides.
    pub attempts_max: Option<u32>,
    /// How long a message waits after its first failure. Each further failure doubles it.
    pub backoff: Duration,
    /// The longest wait after a failure.
    pub backoff_max: Duration,
    /// The largest response, in bytes.
    pub answer_limit: usize,
    /// The queues.
    pub queues: Vec<Queue>,
    /// The gates that limit dispatch.
    pub gates: Vec<GateSettings>,
}

/// Redis or Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// The addresses of the servers. The primary among them is used.
    pub urls: Vec<String>,
    /// The root certificates for addresses with TLS; by default those of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether the servers form a cluster.
    pub cluster: bool,
    /// The name of the primary, if the addresses are those of sentinels.
    pub sentinel: Option<String>,
    /// How many replicas must confirm a write.
    pub replicas: u32,
    /// The list of results, unless the queue or the message names another.
    pub results: String,
    /// The set of messages that wait for another attempt.
    pub retries: String,
}

/// Google Cloud Pub/Sub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubSub {
    /// The id of the project.
    pub project: String,
    /// The topic of results, unless the queue or the message names another.
    pub results: String,
    /// The topic of dead letters.
    pub dead_letters: Option<String>,
    /// The key of a service account; by default the account of the machine.
    pub credentials: Option<PathBuf>,
    /// The address of the server; by default an emulator or Google.
    pub endpoint: Option<String>,
}

/// A queue and the target of its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name, which is its key in Redis or its subscription in Pub/Sub.
    pub name: String,
    /// Its share among all queues.
    pub weight: f64,
    /// The shares of tenants inside it; 1 for all others.
    pub tenants: Vec<(String, f64)>,
    /// The server that requests are sent to; by default this gateway.
    pub target: Option<String>,
    /// The path for messages without one; without it their payload decides.
    pub path: Option<String>,
    /// The band of the requests.
    pub band: Band,
    /// The objective of the requests, if any.
    pub objective: Option<String>,
    /// The gates by name. A message is sent when all of them allow it.
    pub gates: Vec<String>,
    /// The list of results, even if a message names another.
    pub results: Option<String>,
    /// How long a list of results is kept after its last result.
    pub results_ttl: Option<Duration>,
}

// === impl Batch ===

impl Default for Batch {
    fn default() -> Self {
        resolve::defaults(&sections::BATCH, resolve::batch::batch)
    }
}

// === impl Dispatch ===

impl Dispatch {
    /// Whether the queues are in a store that other processes use, too.
    pub fn has_shared_store(&self) -> bool {
        self.redis.is_some() || self.pubsub.is_some()
    }
}

impl Default for Dispatch {
    fn default() -> Self {
        let (source, batch) = (Source::default(), Batch::default());
        let read = |section: &Section<'_>| resolve::dispatch::dispatch(section, &source, &batch);
        resolve::defaults(&sections::DISPATCH, read)
    }
}
