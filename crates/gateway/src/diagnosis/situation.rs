//! The state of the gateway at one moment, as plain data. `/status` shows it as JSON.

use serde::Serialize;

pub(crate) use super::backend_condition::{BackendCondition, EngineState};
pub(crate) use super::batch_attempts::BatchAttempts;
pub(crate) use super::store_trouble::StoreTrouble;

/// One number for each band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ByBand {
    pub(crate) critical: u32,
    pub(crate) high: u32,
    pub(crate) normal: u32,
    pub(crate) best_effort: u32,
}

/// See the module documentation. Lists are bounded: the fields `…_left_out` count the rest.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Situation {
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) version: &'static str,
    /// A name that no other process has.
    pub(crate) instance: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) shutting_down: bool,
    /// Whether the process sends requests to backends. A dispatcher without a gateway does not.
    pub(crate) has_backends: bool,
    pub(crate) queue: QueueState,
    pub(crate) stock: StockState,
    /// From critical to best-effort.
    pub(crate) bands: Vec<BandState>,
    /// The flows with the most waiting requests.
    pub(crate) flows: Vec<FlowState>,
    pub(crate) flows_left_out: usize,
    pub(crate) models: Vec<ModelState>,
    pub(crate) models_left_out: usize,
    pub(crate) tenants: Vec<TenantState>,
    pub(crate) tenants_left_out: usize,
    /// Those that are not ready come first.
    pub(crate) backends: Vec<BackendCondition>,
    pub(crate) backends_left_out: usize,
    pub(crate) backends_ready: usize,
    pub(crate) backends_total: usize,
    /// Why the backends of a cluster are not known.
    pub(crate) discovery: Vec<String>,
    /// Objects of the cluster that are left out.
    pub(crate) discovery_left_out: Vec<String>,
    /// The pools, services and selectors without an endpoint.
    pub(crate) discovery_empty: Vec<String>,
    /// Why requests were not served, the most frequent reason of the last minute first.
    pub(crate) refusals: Vec<RefusalCount>,
    /// What clients did wrong most often in the last minute, one entry for each reason.
    pub(crate) client_mistakes: Vec<ClientMistake>,
    /// The last text in the place of a priority that names no band, and the requests with one.
    pub(crate) unknown_priority: String,
    pub(crate) unknown_priorities_last_minute: u64,
    /// Requests of the last minute whose clients left without an answer.
    pub(crate) left_last_minute: u64,
    /// Reads and calls that do not queue and ended well in the last minute.
    #[serde(skip)]
    pub(crate) reads_last_minute: u64,
    pub(crate) gates: Vec<GateCondition>,
    pub(crate) batch_queues: Vec<BatchQueueState>,
    /// Files and stores that cannot be used.
    pub(crate) stores: Vec<StoreTrouble>,
    /// API keys that expire soon or have expired.
    pub(crate) keys: Vec<KeyExpiry>,
    /// Certificates that clients refuse, or will refuse soon.
    pub(crate) certificates: Vec<CertificateExpiry>,
    pub(crate) reload: ReloadState,
    pub(crate) connections: ConnectionState,
    /// Requests whose X-Workload-Context had no effect, if one came lately.
    pub(crate) workload_contexts_unused: u64,
}

/// The connections of clients.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ConnectionState {
    pub(crate) open: usize,
    /// How many there may be.
    pub(crate) most: usize,
    /// How many there should be, if there may be fewer.
    pub(crate) expected: Option<usize>,
    /// How many files the process may open.
    pub(crate) open_files_max: usize,
}

/// Changes of the configuration that are not in force.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ReloadState {
    /// The first problems of the changed configuration, and how many there are.
    pub(crate) problems: Vec<String>,
    pub(crate) problems_total: usize,
    /// Keys that have changed, and that only a restart can apply.
    pub(crate) awaits_restart: Vec<String>,
}

/// The queue as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct QueueState {
    pub(crate) depth: u32,
    pub(crate) capacity: u32,
    pub(crate) in_flight: u32,
    pub(crate) oldest_seconds: Option<f64>,
    /// Waiting requests that can no longer make their objective.
    pub(crate) late: u32,
    /// Requests that wait for a configured model without a backend.
    pub(crate) held: usize,
    /// Waiting requests that no ready backend can take.
    #[serde(skip)]
    pub(crate) unserved: u32,
    /// The longest wait of a request that states none.
    pub(crate) ttl_seconds: f64,
    /// The objective of normal requests for their first token, if they have one.
    pub(crate) objective_seconds: Option<f64>,
    /// The objective for the time from token to token, if there is one.
    pub(crate) token_objective_seconds: Option<f64>,
    pub(crate) flows: usize,
    /// Whether `queue.flow_by` tells clients apart, and not only models.
    pub(crate) flows_by_client: bool,
    /// Requests that arrived, that went to a backend, and whose service ended, in a second.
    pub(crate) arriving_per_second: f64,
    pub(crate) starting_per_second: f64,
    pub(crate) ending_per_second: f64,
    /// Requests that ended well in the last minute.
    pub(crate) served_last_minute: u64,
    /// The time until the queue is empty, if no request arrives; `None` while it is unknown.
    pub(crate) drains_in_seconds: Option<f64>,
    /// Whether it takes longer than that: late requests wait, and new ones go before them.
    pub(crate) drain_is_least: bool,
    /// The same time by the mean rate, also where only the least one can be told.
    #[serde(skip)]
    pub(crate) mean_drain_seconds: Option<f64>,
    /// By how many requests the queue grew in a second.
    pub(crate) growing_per_second: f64,
}

/// The stock at all ready backends, and its bounds.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct StockState {
    /// `auto` or `fixed`.
    pub(crate) mode: &'static str,
    /// `requests` or `tokens`.
    pub(crate) unit: &'static str,
    pub(crate) now: f64,
    pub(crate) lower: f64,
    pub(crate) watermark: f64,
    pub(crate) upper: f64,
    /// The bound that keeps requests in the queue at most backends, if any does.
    pub(crate) binding: Option<&'static str>,
}

/// One band.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BandState {
    pub(crate) name: &'static str,
    pub(crate) waiting: u32,
    pub(crate) late: u32,
    pub(crate) in_flight: u32,
    pub(crate) headroom: u32,
    pub(crate) oldest_seconds: Option<f64>,
    /// Requests that ended well, and requests that were not served, in a second.
    pub(crate) served_per_second: f64,
    pub(crate) refused_per_second: f64,
}

/// One flow.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FlowState {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) capacity: u32,
    /// In total, and by band.
    pub(crate) queue_depth: u32,
    pub(crate) waiting: ByBand,
    /// Waiting requests that no ready backend can take.
    #[serde(skip)]
    pub(crate) unserved: u32,
    pub(crate) in_flight: u32,
    pub(crate) oldest_seconds: Option<f64>,
    /// Requests that were refused, or that left the queue without a backend.
    pub(crate) refused: u32,
    pub(crate) refused_last_minute: u64,
    /// Its share of the places at backends, and of the waiting requests.
    pub(crate) share: f64,
    pub(crate) queue_share: f64,
    /// The share of its weight among the flows with requests.
    pub(crate) fair_share: f64,
    /// The lowest such share of the last minute: other flows may rest for a moment.
    pub(crate) least_fair_share: Option<f64>,
    /// Whether it was found to flood the queue at the last look, and in the last minute.
    #[serde(skip)]
    pub(crate) flooded: bool,
    #[serde(skip)]
    pub(crate) flooded_lately: bool,
}

/// One model.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ModelState {
    pub(crate) name: String,
    pub(crate) queue_depth: u32,
    pub(crate) waiting: ByBand,
    pub(crate) in_flight: u32,
    pub(crate) backends_ready: usize,
}

/// What a tenant has used, where there are accounts.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct TenantState {
    pub(crate) name: String,
    /// Tokens by UTC.
    pub(crate) tokens_today: u64,
    pub(crate) tokens_this_month: u64,
    pub(crate) tokens_per_day: Option<u64>,
    pub(crate) tokens_per_month: Option<u64>,
    /// `day` or `month`, where the quota of this period is used up, and the time until the next.
    pub(crate) quota_used_up: Option<&'static str>,
    pub(crate) quota_ends_in_seconds: Option<f64>,
    /// What happens then: `wait` or `refuse`.
    pub(crate) on_quota: &'static str,
}

/// How many requests were not served for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RefusalCount {
    pub(crate) reason: &'static str,
    pub(crate) total: u64,
    pub(crate) last_minute: u64,
    /// Those of the last minute that were work for the queue. The others were reads and calls that
    /// do not queue, or were refused before they were read.
    #[serde(skip)]
    pub(crate) of_work: u64,
}

/// The flow, the model and the path of most requests that failed for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ClientMistake {
    pub(crate) reason: &'static str,
    pub(crate) flow: String,
    /// As the client wrote it.
    pub(crate) model: String,
    /// The path, if there is nothing at it; else empty.
    pub(crate) path: String,
    /// The path, or else the model, that it may have meant.
    pub(crate) suggestion: Option<String>,
}

/// A gate of the dispatcher.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct GateCondition {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Whether the gateway made it, and no file has it.
    pub(crate) implied: bool,
    pub(crate) open: bool,
    /// Whether it sends no more for now because its own requests use what it allows.
    pub(crate) spent: bool,
    /// Whether its last reading is too old to be used.
    pub(crate) stale: bool,
    /// The state as a text.
    pub(crate) state: String,
    pub(crate) source: String,
    /// The free share, and the share up to which the gate is closed; `None` if it is not known.
    pub(crate) value: Option<f64>,
    pub(crate) threshold: f64,
    pub(crate) in_flight: u64,
    /// The rest of its budget.
    pub(crate) left: u64,
    pub(crate) age_seconds: Option<f64>,
}

/// A queue of batch work.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BatchQueueState {
    pub(crate) name: String,
    pub(crate) gates: Vec<String>,
    pub(crate) pending: u64,
    pub(crate) retry: u64,
    pub(crate) in_flight: usize,
    pub(crate) dead: u64,
    /// Requests that have ended since the start, and in the last half minute.
    pub(crate) ended: u64,
    pub(crate) ended_lately: u64,
    /// Attempts since the start, and of the last minute.
    #[serde(skip)]
    pub(crate) attempts: BatchAttempts,
    pub(crate) attempts_last_minute: BatchAttempts,
    /// Why its target refuses requests.
    pub(crate) overload: Option<String>,
    /// Why its own data cannot be used, although its store can.
    pub(crate) trouble: Option<String>,
    /// Why messages that wait for a retry cannot be kept apart.
    pub(crate) retries_trouble: Option<String>,
}

/// A key that expires soon or has expired.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct KeyExpiry {
    pub(crate) name: String,
    /// The tenant whose key it is; `None` for a key of an operator.
    pub(crate) tenant: Option<String>,
    pub(crate) expires_in_seconds: f64,
}

/// A certificate of a listener that expires soon, has expired, or is not valid yet.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CertificateExpiry {
    pub(crate) file: String,
    /// Negative for one that is not valid any more.
    pub(crate) expires_in_seconds: f64,
    /// The last moment at which it is valid, for people.
    pub(crate) last_day: String,
    pub(crate) valid_yet: bool,
}

/// The state of batch work, which a dispatcher reports.
pub(crate) trait BatchWork: std::fmt::Debug + Send + Sync {
    /// Adds gates, queues and unusable stores.
    fn describe(&self, situation: &mut Situation);
}

// === impl ByBand ===

impl From<[u32; 4]> for ByBand {
    /// From best-effort to critical, as the core counts.
    fn from([best_effort, normal, high, critical]: [u32; 4]) -> Self {
        Self { critical, high, normal, best_effort }
    }
}
