//! The kinds of gates. Each kind is one file with its settings, its check and its reading.
//!
//! A new kind is a file in `kinds/`, its three lines in this file, and its row in
//! `docs/DISPATCH.md`. The parser of the configuration, `tidegate check`, the reference of the
//! configuration and the poller take everything else from the kind itself.

mod aimd;
mod constant;
pub(crate) mod gateway;
mod prometheus_budget;
mod prometheus_query;
mod prometheus_saturation;
pub(super) mod redis;
pub(super) mod scrape;

use std::pin::Pin;
use std::sync::Arc;

use flow::aimd::Aimd;
use flow::budget::Basis;
use flow::start_limiter::StartLimiter;

pub use self::aimd::AimdGate;
pub use self::constant::ConstantGate;
pub use self::gateway::GatewayGate;
use self::gateway::{LocalLoad, LocalScheduler};
pub use self::prometheus_budget::BudgetGate;
pub use self::prometheus_query::QueryGate;
pub use self::prometheus_saturation::SaturationGate;
pub use self::redis::RedisGate;
pub use self::scrape::{MetricMeaning, ScrapeGate};
use super::error::{ReadError, SetupError};
use super::reading::Reading;
use super::settings::GateSettings;
use crate::clock::{Clock, span};
use crate::schema::{Section, Variant};
use crate::upstream::client::Client;

/// The time that a request may need to reach the system, or the news of its end to come back.
/// Readings are applied this much later, because the budget must know all requests that had ended
/// when they were taken.
pub(super) const TRANSIT: std::time::Duration = std::time::Duration::from_millis(20);

/// The settings of a gate's kind.
#[derive(Clone, Debug, PartialEq)]
pub enum GateKind {
    /// The responses set a window.
    Aimd(AimdGate),
    /// A fixed share.
    Constant(ConstantGate),
    /// The backends of this process.
    Gateway(GatewayGate),
    /// The metrics of an endpoint picker, from Prometheus.
    PrometheusBudget(BudgetGate),
    /// An expression, from Prometheus.
    PrometheusQuery(QueryGate),
    /// The saturation of a pool, from Prometheus.
    PrometheusSaturation(SaturationGate),
    /// A number in Redis.
    Redis(RedisGate),
    /// A metric of a metrics page.
    Scrape(ScrapeGate),
}

/// All kinds, in the order of the documents.
const KINDS: &[KindDeclaration] = &[
    gateway::KIND,
    constant::KIND,
    redis::KIND,
    scrape::KIND,
    prometheus_saturation::KIND,
    prometheus_budget::KIND,
    prometheus_query::KIND,
    aimd::KIND,
];

/// The names and the keys of all kinds, for the schema of a gate.
pub(super) const VARIANTS: &[Variant] = &{
    let mut variants = [KINDS[0].variant; KINDS.len()];
    let mut at = 0;
    while at < KINDS.len() {
        variants[at] = KINDS[at].variant;
        at += 1;
    }
    variants
};

/// What the configuration needs to know of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindDeclaration {
    /// The name and the keys that only this kind has.
    pub(super) variant: Variant,
    /// Reads these keys. Returns `None` if a required key is missing, which was reported.
    pub(super) read: fn(&Section<'_>) -> Option<GateKind>,
    /// Whether the source itself knows the capacity of the system.
    pub(super) knows_capacity: bool,
    /// Whether the source counts the servers that are ready, which `capacity_per_server` needs.
    pub(super) counts_servers: bool,
}

/// A kind, as the gates see it.
pub(super) trait Kind {
    fn declaration(&self) -> &'static KindDeclaration;

    /// Opens the source of its readings. Settings that cannot work are errors.
    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError>;

    /// The kind's part of the line in `tidegate check`, if it differs from the usual one.
    fn summary(&self) -> Option<String> {
        None
    }
}

/// The parts of the process that gates read through.
#[derive(Clone, Debug)]
pub(crate) struct GateContext {
    /// The scheduler of this process; `None` in a process without backends.
    pub(crate) local: Option<Arc<dyn LocalScheduler>>,
    pub(crate) clock: Clock,
    pub(crate) client: Arc<Client>,
}

/// A gate's source and the parts of its state that depend on the kind.
#[derive(Debug)]
pub(super) struct OpenGate {
    pub(super) source: Source,
    /// The source, for people.
    pub(super) description: String,
    pub(super) basis: Basis,
    /// The window of a gate that learns from responses.
    pub(super) window: Option<Aimd>,
    /// The start limiter of a gate that knows which requests are about to start.
    pub(super) start_limiter: Option<StartLimiter>,
}

/// Where the readings of a gate come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A free share and a capacity that never change.
    Fixed { free: f64, capacity: f64 },
    /// The window that the responses set.
    Responses,
    /// This process.
    Local(LocalLoad),
    /// Another server. A task reads it, because that takes time.
    Polled(Box<tokio::sync::Mutex<dyn PolledSource>>),
}

/// A source that takes time to read.
pub(super) trait PolledSource: std::fmt::Debug + Send {
    fn read(&mut self) -> ReadingFuture<'_>;
}

pub(super) type ReadingFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Reading, ReadError>> + Send + 'a>>;

/// The declaration of a kind by its name.
pub(super) fn declaration(name: &str) -> Option<&'static KindDeclaration> {
    KINDS.iter().find(|kind| kind.variant.name == name)
}

/// The basis of readings that contain our own requests.
pub(super) fn measured(all: bool) -> Basis {
    Basis::Measured { transit: span(TRANSIT), all }
}

// === impl GateKind ===

impl GateKind {
    /// The name of the kind in a configuration.
    pub fn name(&self) -> &'static str {
        self.as_kind().declaration().variant.name
    }

    /// The kind's part of the line in `tidegate check`, if it differs from the usual one.
    pub(crate) fn summary(&self) -> Option<String> {
        self.as_kind().summary()
    }

    /// Whether the gate reads the process that it is in.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Gateway(_))
    }

    pub(super) fn as_kind(&self) -> &dyn Kind {
        match self {
            Self::Aimd(kind) => kind,
            Self::Constant(kind) => kind,
            Self::Gateway(kind) => kind,
            Self::PrometheusBudget(kind) => kind,
            Self::PrometheusQuery(kind) => kind,
            Self::PrometheusSaturation(kind) => kind,
            Self::Redis(kind) => kind,
            Self::Scrape(kind) => kind,
        }
    }
}

// === impl Source ===

impl Source {
    pub(super) fn polled(source: impl PolledSource + 'static) -> Self {
        Self::Polled(Box::new(tokio::sync::Mutex::new(source)))
    }

    /// Whether several dispatchers read the same number. The load of this process and the
    /// responses to its own requests are not shared.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Fixed { .. } | Self::Polled(_))
    }
}

// === impl OpenGate ===

impl OpenGate {
    pub(super) fn new(source: Source, description: String, basis: Basis) -> Self {
        Self { source, description, basis, window: None, start_limiter: None }
    }
}
