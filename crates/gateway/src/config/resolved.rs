//! Configuration as it is used: checked, complete, in the types of those who use it.
//!
//! Nothing here knows how a file spells it. A value that exists can be used as it is.

pub mod dispatch;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use flow::identity::{Attribute, ClassRule};
use flow::{BackendTraits, Band, ModelNames, Settings};

/// Everything the gateway is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// The listener and its limits.
    pub server: Server,
    /// The visibility routes.
    pub admin: Admin,
    /// The endpoint picker.
    pub epp: Epp,
    /// What the core is told.
    pub flow: Settings,
    /// Which flow a request belongs to.
    pub identity: Identity,
    /// What requested model names stand for.
    pub names: ModelNames,
    /// The band of each objective by its name.
    pub objectives: BTreeMap<String, Band>,
    /// What a request costs in the queue.
    pub cost: Cost,
    /// The model servers.
    pub fleet: FleetSettings,
    /// The Batch API.
    pub batch: dispatch::Batch,
    /// The dispatcher.
    pub dispatch: dispatch::Dispatch,
    /// What is written down.
    pub log: Log,
    /// The message bus on which the queue and the backends are shown, if any.
    pub dbus: Option<Bus>,
    /// What was accepted but has no effect, for the log: keys that event-driven dispatch makes
    /// needless, settings that were replaced.
    pub notices: Vec<String>,
}

/// The listener and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where clients come in.
    pub listen: SocketAddr,
    /// How many threads serve; as many as there are cores unless given.
    pub workers: Option<usize>,
    /// The largest request body, in bytes.
    pub body_limit: usize,
    /// The most that all request bodies may take together, in bytes.
    pub bodies_limit: usize,
    /// The largest request head, in bytes.
    pub header_limit: usize,
    /// The most client connections at once.
    pub connections_max: usize,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    pub body_timeout: Duration,
    /// How long a client may take no byte of its answer.
    pub write_timeout: Duration,
    /// How long streams may go on after shutdown began.
    pub grace: Duration,
    /// Whether answers tell the headroom of their band.
    pub headroom_headers: bool,
    /// Whether answers carry an ORCA load report.
    pub orca: bool,
}

/// The visibility routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Where they are served, if not beside the API.
    pub listen: Option<SocketAddr>,
    /// Whether `/ready` fails while a newcomer of the normal band would be refused.
    pub ready_fails_when_saturated: bool,
}

/// The endpoint picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epp {
    /// Where Envoy comes in.
    pub listen: SocketAddr,
    /// Where health is asked for.
    pub health_listen: SocketAddr,
    /// Where the visibility routes are.
    pub metrics_listen: SocketAddr,
    /// How many endpoints are named behind the one that is chosen.
    pub fallbacks: usize,
    /// How long requests are still taken after shutdown began, so that Envoy can look elsewhere.
    pub drain: Duration,
    /// Whether a conformance suite may choose endpoints.
    pub conformance: bool,
    /// Whether metrics also have the names that other pickers' dashboards know.
    pub llm_d_metrics: bool,
}

/// Which flow a request belongs to, and which class that flow is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The parts of a flow's name.
    pub parts: Vec<Attribute>,
    /// The classes, the first that matches wins.
    pub rules: Vec<ClassRule>,
}

/// What a request costs in the queue.
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

/// The model servers, and how they are watched.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetSettings {
    /// Those that are named.
    pub backends: Vec<BackendSpec>,
    /// A file that lists more of them, watched for changes.
    pub endpoints_file: Option<PathBuf>,
    /// Whether a backend needs an address, because others are told where it is.
    pub addressed: bool,
    /// Whether to look for servers on the well-known local ports.
    pub discover: bool,
    /// How often a backend is checked.
    pub health_interval: Duration,
    /// How long a check may take.
    pub health_timeout: Duration,
    /// How often an engine's metrics are read.
    pub scrape_interval: Duration,
    /// Failures in a row that eject a backend.
    pub eject_after: u32,
    /// How long the first ejection lasts; each further one lasts twice as long, up to ten times.
    pub eject_for: Duration,
    /// For how long a backend that comes back is chosen less than it would be.
    pub slow_start: Duration,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a backend may take to begin its answer.
    pub answer_timeout: Duration,
    /// How long a stream may stand still.
    pub stall_timeout: Duration,
    /// The most attempts for one request.
    pub attempts_max: u32,
    /// Further attempts for each first one, at most, over all requests.
    pub retry_share: f64,
}

/// One model server as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSpec {
    /// Its name.
    pub id: String,
    /// Where it is: `http://host:port` and perhaps a path.
    pub url: String,
    /// What it is.
    pub kind: BackendKind,
    /// The models it serves; learnt from it when empty. `*` stands for any.
    pub models: Vec<String>,
    /// What is said of its speed and power.
    pub traits: BackendTraits,
    /// Whether it is spoken to in HTTP/2.
    pub http2: bool,
}

/// What a model server is, which says where its health, its models and its metrics are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackendKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Ollama.
    Ollama,
    /// llama.cpp's server.
    LlamaCpp,
    /// A remote API: no metrics, and never tuned by itself.
    OpenAi,
    /// Anything that speaks HTTP.
    #[default]
    Generic,
}

/// What is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Whether every request gets a line.
    pub access: bool,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// A message bus of D-Bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bus {
    /// That of the user.
    #[default]
    Session,
    /// That of the machine.
    System,
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080)),
            workers: None,
            body_limit: 32 << 20,
            bodies_limit: 1 << 30,
            header_limit: 64 << 10,
            connections_max: 32_768,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            headroom_headers: false,
            orca: false,
        }
    }
}

// === impl Epp ===

impl Default for Epp {
    fn default() -> Self {
        let local = |port| SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        Self {
            listen: local(9002),
            health_listen: local(9003),
            metrics_listen: local(9090),
            fallbacks: 0,
            drain: Duration::from_secs(3),
            conformance: false,
            llm_d_metrics: false,
        }
    }
}

// === impl Identity ===

impl Default for Identity {
    fn default() -> Self {
        Self { parts: vec![Attribute::Model], rules: Vec::new() }
    }
}

// === impl FleetSettings ===

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            backends: Vec::new(),
            endpoints_file: None,
            addressed: false,
            discover: false,
            health_interval: Duration::from_secs(5),
            health_timeout: Duration::from_secs(2),
            scrape_interval: Duration::from_millis(250),
            eject_after: 3,
            eject_for: Duration::from_secs(5),
            slow_start: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(600),
            stall_timeout: Duration::from_secs(300),
            attempts_max: 3,
            retry_share: 0.2,
        }
    }
}

// === impl Log ===

impl Default for Log {
    fn default() -> Self {
        Self { access: true, format: LogFormat::Text }
    }
}
