//! The configuration in the types that the program uses: complete and checked.
//!
//! Nothing here depends on the spelling in a file. The defaults come from the table of keys.

mod backend_spec;
mod cluster;
pub mod dispatch;
mod logs;
mod profile;
mod scaler;
pub mod tenants;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::identity::{Attribute, ClassRule};
use flow::{Band, ModelNames, ResolvedModel, Settings, Span};

use self::tenants::{Auth, Tenant};
use super::values::Values;
use super::{Source, resolve, sections};
use crate::api_keys::KeyRing;
use crate::jwt::TokenVerifier;
use crate::schema::{Finding, Report, Table};

pub use backend_spec::{BackendKind, BackendSpec};
pub use cluster::{ClusterRules, DrainCause, Kubernetes, KubernetesTarget, PoolGroup};
pub use logs::{Log, LogFormat, TraceProtocol, Traces};
pub use profile::{Conventions, Profile};
pub use scaler::{Scaler, Wake};
pub use tls::{ClientCertificates, EppTls, ServerTls};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The listener and its limits.
    pub server: Server,
    /// The status pages.
    pub admin: Admin,
    /// Where the keys of clients and operators are stored.
    pub auth: Auth,
    /// The tenants; none if requests need no key.
    pub tenants: Vec<Arc<Tenant>>,
    /// The file with what tenants have used.
    pub usage_file: Option<PathBuf>,
    /// The keys that were read.
    pub keys: Arc<KeyRing>,
    /// The verifier of tokens, if there is an issuer.
    pub tokens: Option<Arc<TokenVerifier>>,
    /// The endpoint picker.
    pub epp: Epp,
    /// What an autoscaler is told.
    pub scaler: Scaler,
    /// The settings of the core.
    pub flow: Settings,
    /// The flow that a request belongs to.
    pub identity: Identity,
    /// The models that requested names stand for.
    pub names: ModelNames,
    /// Whether no tenant gains from what another one's prompts left in a cache.
    pub cache_per_tenant: bool,
    /// The band of each objective by its name.
    pub objectives: BTreeMap<String, Band>,
    /// What objects of a cluster say about requests. It is no part of the file.
    pub cluster: Arc<ClusterRules>,
    /// The bands of particular requests.
    pub band_rules: Vec<BandRule>,
    /// The cost of a request in the queue.
    pub cost: Cost,
    /// Whether tokens that a backend had in its cache count in costs, rates and quotas.
    pub charge_cached: bool,
    /// The waits for configured models without a backend.
    pub hold: Hold,
    /// The model servers.
    pub fleet: FleetSettings,
    /// The Batch API.
    pub batch: dispatch::Batch,
    /// The dispatcher.
    pub dispatch: dispatch::Dispatch,
    /// The log.
    pub log: Log,
    /// What a design writes otherwise.
    pub conventions: Conventions,
    /// Where traces are sent; `None` if they are off.
    pub traces: Option<Traces>,
    /// The message bus on which the queue and the backends are shown, if any.
    pub dbus: Option<Bus>,
    /// Values that are accepted but may not do what was meant, for the log and `tidegate check`.
    pub notices: Vec<Finding>,
    /// Keys that have changed since the start, and that only a restart can apply.
    pub awaits_restart: Vec<String>,
    /// The values as they were written, and where.
    pub values: Values,
}

/// The listener and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address on which clients connect.
    pub listen: SocketAddr,
    /// The number of threads; by default the number of cores.
    pub workers: Option<usize>,
    /// The largest request body, in bytes.
    pub body_limit: usize,
    /// The most memory for all request bodies together, in bytes.
    pub bodies_limit: usize,
    /// The largest request head, in bytes.
    pub header_limit: usize,
    /// The most client connections at once; by default what the open files allow.
    pub connections_max: Option<usize>,
    /// How long a client may take to send a request head.
    pub header_timeout: Duration,
    /// How long a client may take to send a request body.
    pub body_timeout: Duration,
    /// How long a client may accept no byte of its response.
    pub write_timeout: Duration,
    /// How long streams may continue after a shutdown begins.
    pub grace: Duration,
    /// The origins of websites that may use the API from a browser.
    pub cors_origins: Vec<String>,
    /// Whether responses state the headroom of their band.
    pub headroom_headers: bool,
    /// Whether responses carry an ORCA load report.
    pub orca: bool,
    /// TLS for clients.
    pub tls: Option<ServerTls>,
}

/// The status pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Their address, if it is not that of the API.
    pub listen: Option<SocketAddr>,
    /// Whether `/ready` fails while a new request of the normal band would be refused.
    pub ready_fails_when_saturated: bool,
    /// Whether the roles of the cluster say what a token of Kubernetes may do with the pages.
    pub kubernetes_tokens: bool,
    /// The pages that need no key, if the configuration states them.
    pub without_key: Option<OpenPages>,
    /// Whether the status pages at their own address need TLS.
    pub tls: bool,
    /// The names of client certificates that may read the pages.
    pub read_certificates: Vec<String>,
    /// The names of client certificates that may also change something.
    pub change_certificates: Vec<String>,
}

/// The pages that need no key of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPages {
    /// All pages that only read.
    All,
    /// The metrics and the probes.
    Metrics,
    /// `/health`, `/ready` and `/version`.
    Probes,
}

/// The endpoint picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epp {
    /// The address on which Envoy connects.
    pub listen: SocketAddr,
    /// The address for health checks.
    pub health_listen: SocketAddr,
    /// The address of the status pages.
    pub metrics_listen: SocketAddr,
    /// How many further endpoints the picker names after the chosen one.
    pub fallbacks: usize,
    /// How long requests are taken after a shutdown begins, so that Envoy can go elsewhere.
    pub drain: Duration,
    /// Whether a conformance suite may choose endpoints.
    pub conformance: bool,
    /// Whether metrics also have the names of llm-d's dashboards.
    pub llm_d_metrics: bool,
    /// Whether Envoy speaks TLS.
    pub tls: EppTls,
    /// The folder of the certificate; without one it is made at the start.
    pub cert_path: Option<PathBuf>,
}

/// The flow that a request belongs to, and the class of that flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The parts of a flow's name.
    pub parts: Vec<Attribute>,
    /// The parts that tell the sessions of a flow apart; none if they do not share its grants.
    pub session_parts: Vec<SessionPart>,
    /// The classes; the first that matches counts.
    pub rules: Vec<ClassRule>,
}

/// A part that tells the sessions of a flow apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPart {
    /// The session that the request names in a header or in its body.
    Session,
    /// Another attribute of the request.
    Attribute(Attribute),
}

/// The band of requests whose attributes match all these patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandRule {
    /// Attributes and the patterns they must match; `*` stands for any run of characters.
    pub patterns: Vec<(Attribute, String)>,
    /// The band of requests that state none.
    pub band: Option<Band>,
    /// The highest band.
    pub band_max: Option<Band>,
}

/// The cost of a request in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// One each.
    #[default]
    Requests,
    /// Prompt and expected output, in tokens.
    Tokens,
    /// Its body, in bytes.
    Bytes,
}

/// The waits for configured models that no backend lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The longest wait.
    pub ttl: Span,
    /// The most requests that wait so.
    pub capacity: usize,
}

/// The model servers, and how they are watched.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetSettings {
    /// The backends of the configuration.
    pub backends: Vec<BackendSpec>,
    /// The models that requests may wait for although no backend lists them.
    pub configured_models: Vec<String>,
    /// How long a request waits without a backend, and how long the models of a pool may take to
    /// return after the first of them.
    pub hold_ttl: Duration,
    /// A file that lists more of them, watched for changes.
    pub endpoints_file: Option<PathBuf>,
    /// The cluster that has more of them.
    pub kubernetes: Option<Kubernetes>,
    /// Whether a backend needs an IP address, because Envoy is given its address.
    pub addressed: bool,
    /// Whether to look for servers on the well-known local ports.
    pub discover: bool,
    /// The time between two health checks of a backend.
    pub health_interval: Duration,
    /// How long a check may take.
    pub health_timeout: Duration,
    /// The time between two readings of a backend's metrics.
    pub scrape_interval: Duration,
    /// Consecutive failures that eject a backend.
    pub eject_after: u32,
    /// How long the first ejection lasts; each further one lasts twice as long, up to ten times.
    pub eject_for: Duration,
    /// The least time without a beginning response that ejects a backend.
    pub silence_limit: Duration,
    /// How long a backend that has returned gets fewer requests.
    pub slow_start: Duration,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a backend may take to begin its response.
    pub answer_timeout: Duration,
    /// How long a stream may stand still.
    pub stall_timeout: Duration,
    /// The most attempts for one request.
    pub attempts_max: u32,
    /// Further attempts for each first one, at most, over all requests.
    pub retry_share: f64,
}

/// A message bus of D-Bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bus {
    /// The bus of the user session.
    #[default]
    Session,
    /// The bus of the machine.
    System,
}

// === impl Config ===

impl Default for Config {
    /// The configuration without any setting, but without discovery: a caller that builds its own
    /// configuration names its backends.
    fn default() -> Self {
        let report = Report::new(None);
        let mut config = resolve::resolve(Table::new(), &Source::default(), &report);
        config.fleet.discover = false;
        config
    }
}

impl Config {
    /// The model that a requested name stands for. The configuration goes before the cluster.
    pub(crate) fn resolve_model<'a>(
        &'a self,
        name: &'a str,
        draw: u64,
    ) -> Option<ResolvedModel<'a>> {
        match !self.names.has_rule(name) && self.cluster.has_rule(name) {
            true => self.cluster.resolve(name, draw),
            false => self.names.resolve(name, draw),
        }
    }

    /// Whether there is batch work in this process.
    pub(crate) fn has_dispatcher(&self) -> bool {
        self.batch.folder.is_some() || self.dispatch.has_shared_store()
    }

    /// The name of the InferencePool that is served, or `tidegate` without one.
    pub(crate) fn pool_name(&self) -> &str {
        let targets = self.fleet.kubernetes.iter().flat_map(|cluster| &cluster.targets);
        let mut pools = targets.filter_map(|target| match target {
            KubernetesTarget::Pool { name, .. } => Some(name.as_str()),
            _ => None,
        });
        pools.next().unwrap_or("tidegate")
    }

    /// The names that have a rule, in the configuration or in the cluster.
    pub(crate) fn ruled_names(&self) -> impl Iterator<Item = &str> {
        let more = self.cluster.names.ruled();
        self.names.ruled().chain(more.filter(|name| !self.names.has_rule(name)))
    }
}

// === impl Admin ===

impl Admin {
    /// Whether any client certificate opens the pages.
    pub(crate) fn has_certificates(&self) -> bool {
        !self.read_certificates.is_empty() || !self.change_certificates.is_empty()
    }
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        resolve::defaults(&sections::SERVER, resolve::server::server)
    }
}

// === impl Epp ===

impl Default for Epp {
    fn default() -> Self {
        resolve::defaults(&sections::EPP, resolve::server::epp)
    }
}

// === impl Identity ===

impl Default for Identity {
    fn default() -> Self {
        Self { parts: vec![Attribute::Model], session_parts: Vec::new(), rules: Vec::new() }
    }
}

impl Identity {
    /// Whether clients can have flows of their own, and not only models.
    pub(crate) fn tells_clients_apart(&self) -> bool {
        let is_model = |part: &Attribute| matches!(part, Attribute::Model | Attribute::TargetModel);
        !self.parts.iter().all(is_model)
    }

    /// Whether a part of a flow, of a session or of a class is this one.
    pub(crate) fn uses(&self, wanted: &Attribute) -> bool {
        let is_wanted = |part: &SessionPart| *part == SessionPart::Attribute(wanted.clone());
        let mut patterns = self.rules.iter().flat_map(|rule| &rule.patterns);
        self.parts.contains(wanted)
            || self.session_parts.iter().any(is_wanted)
            || patterns.any(|(part, _)| part == wanted)
    }
}

// === impl FleetSettings ===

impl Default for FleetSettings {
    fn default() -> Self {
        let settings = resolve::defaults(&sections::ROOT, |root| {
            resolve::fleet::fleet(root, flow::Bounds::default())
        });
        Self { discover: false, ..settings }
    }
}
