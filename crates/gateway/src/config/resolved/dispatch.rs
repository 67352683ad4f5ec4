//! The batch side of the configuration: where work waits, what lets it go, and how it is sent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flow::Band;

use crate::config::{Source, keys, resolve};
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
    pub gates: Vec<Gate>,
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

/// One gate: how free something is, and how much may go by that.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// Where it looks.
    pub kind: GateKind,
    /// The share of the system that is left to others.
    pub baseline: f64,
    /// What the system can have at once.
    pub system: System,
    /// The unit of the budget.
    pub unit: Unit,
    /// How often it looks.
    pub interval: Duration,
    /// How old a reading may be.
    pub stale_after: Duration,
    /// How long nothing goes at least after an overload.
    pub hold: Duration,
}

/// Where a gate looks.
#[derive(Clone, Debug, PartialEq)]
pub enum GateKind {
    /// Nowhere: the same share is always free.
    Constant(f64),
    /// Into this process: how full the gateway's backends are, and who is about to begin there.
    Gateway {
        /// How many times as long as a start takes nothing more of ours begins.
        rest: f64,
    },
    /// A number that another program keeps in Redis.
    RedisKey {
        /// The server.
        url: String,
        /// The key.
        key: String,
    },
    /// At a page of metrics.
    Scrape {
        /// The page.
        url: String,
        /// Which number of it.
        metric: String,
        /// The labels that its lines must have.
        labels: Vec<(String, String)>,
        /// What it says.
        says: Says,
    },
    /// At the pool's saturation by Prometheus.
    PrometheusSaturation {
        /// The server.
        url: String,
        /// The pool's name.
        pool: String,
    },
    /// At how full the endpoint picker is, by Prometheus.
    PrometheusBudget {
        /// The server.
        url: String,
        /// The pool's name.
        pool: String,
        /// The requests that a model server takes at once.
        max_concurrency: f64,
    },
    /// At whatever an expression gives, as the free share.
    PrometheusQuery {
        /// The server.
        url: String,
        /// The expression.
        query: String,
    },
    /// At the answers: more while they are good, half of it when one says that it is too much.
    Aimd {
        /// The least that may be under way.
        min: u32,
        /// The most that may be under way.
        max: u32,
    },
}

/// What a number says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Says {
    /// How full something is, from 0 to 1.
    #[default]
    Saturation,
    /// How free something is, from 0 to 1.
    Budget,
    /// How many requests there are, of as many as the system can have.
    Count,
}

/// What the whole system can have at once.
#[derive(Clone, Debug, PartialEq)]
pub enum System {
    /// As much as the gate's own source says; for one that cannot, there must be another.
    Known,
    /// So much.
    Fixed(f64),
    /// So much for each server that is ready.
    PerServer {
        /// What one server can have.
        each: f64,
        /// The metric that says how many are ready; the usual ones are tried unless given.
        ready: Option<String>,
    },
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    #[default]
    Requests,
    /// Tokens of the prompt, as far as they can be told from its bytes.
    Tokens,
    /// Bytes.
    Bytes,
}

// === impl GateKind ===

impl GateKind {
    /// What it is called in a configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Constant(_) => "constant",
            Self::Gateway { .. } => "gateway",
            Self::RedisKey { .. } => "redis",
            Self::Scrape { .. } => "scrape",
            Self::PrometheusSaturation { .. } => "prometheus-saturation",
            Self::PrometheusBudget { .. } => "prometheus-budget",
            Self::PrometheusQuery { .. } => "prometheus-query",
            Self::Aimd { .. } => "aimd",
        }
    }
}

// === impl Gate ===

impl Gate {
    /// A gate of this kind that has no name yet and is otherwise as usual.
    pub fn of(kind: GateKind) -> Self {
        Self {
            name: String::new(),
            kind,
            baseline: 0.2,
            system: System::Known,
            unit: Unit::Requests,
            interval: Duration::from_secs(1),
            stale_after: Duration::from_secs(5),
            hold: Duration::from_secs(1),
        }
    }
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
