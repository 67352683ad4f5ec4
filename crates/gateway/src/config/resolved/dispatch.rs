//! The batch side of the configuration: where work waits, what lets it go, and how it is sent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flow::Band;

use crate::config::{Source, keys, resolve};
pub use crate::gates::{
    AimdGate, BudgetGate, Capacity, ConstantGate, GateKind, GateSettings, GatewayGate,
    MetricMeaning, QueryGate, RedisGate, SaturationGate, ScrapeGate, Unit,
};
use crate::schema::Section;

/// The Batch API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The folder of files and queue. There is no Batch API without one.
    pub folder: Option<PathBuf>,
    /// The largest file that may be uploaded, in bytes.
    pub file_limit: u64,
    /// The most that all files together may take, in bytes.
    pub files_limit: u64,
    /// The most requests of a batch.
    pub lines_max: u32,
    /// The longest line of a batch, in bytes.
    pub line_limit: usize,
    /// For how long finished batches and their files are kept.
    pub keep: Duration,
}

/// The dispatcher.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Where its pages are, as a process of its own.
    pub listen: SocketAddr,
    /// The queues' server; without one the queues are in [`Batch::folder`].
    pub redis: Option<Redis>,
    /// The most requests that are under way at once.
    pub workers: usize,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long a claim lasts without renewal.
    pub lease: Duration,
    /// How often a message may fail.
    pub attempts_max: u32,
    /// How long a message waits after its first failure; twice as long after each further one.
    pub backoff: Duration,
    /// The longest such wait.
    pub backoff_max: Duration,
    /// The most bytes of an answer.
    pub answer_limit: usize,
    /// The queues.
    pub queues: Vec<Queue>,
    /// What lets messages go, by name.
    pub gates: Vec<GateSettings>,
}

/// Redis or Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Where it is; of several, whichever is the primary.
    pub urls: Vec<String>,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// How many replicas must have a write before it counts.
    pub replicas: u32,
    /// Where results go unless the queue or the message says otherwise.
    pub results: String,
    /// Where messages wait for another try.
    pub retries: String,
}

/// A queue and where its messages go.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name, which is its key in Redis.
    pub name: String,
    /// Its share beside other queues.
    pub weight: f64,
    /// The shares of tenants inside it; one for all others.
    pub tenants: Vec<(String, f64)>,
    /// The server that requests go to; this gateway itself unless given.
    pub target: Option<String>,
    /// The path for messages that name none.
    pub path: String,
    /// The band that requests ask for.
    pub band: Band,
    /// The objective that requests name, if any.
    pub objective: Option<String>,
    /// The gates that all must let a message go.
    pub gates: Vec<String>,
    /// Where results go, before what a message says.
    pub results: Option<String>,
    /// For how long a list of results is kept after the last one came.
    pub results_ttl: Option<Duration>,
}

// === impl Batch ===

impl Default for Batch {
    fn default() -> Self {
        resolve::defaults(&keys::BATCH, resolve::batch::batch)
    }
}

// === impl Dispatch ===

impl Default for Dispatch {
    fn default() -> Self {
        let (source, batch) = (Source::default(), Batch::default());
        let read = |section: &Section<'_>| resolve::dispatch::dispatch(section, &source, &batch);
        resolve::defaults(&keys::DISPATCH, read)
    }
}
