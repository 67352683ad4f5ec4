//! Scraping of the engines' metrics, one loop per backend.
//!
//! A value that cannot be read is not guessed: the core ignores a reading that is too old.

use std::sync::Arc;
use std::time::Duration;
use std::{error, fmt};

use flow::BackendId;
use http::StatusCode;

use super::Fleet;
use super::bounded_get::{GetError, GetLimits, get};
use super::endpoint::Endpoint;
use super::engine_metrics::{EngineMetrics, read};
use crate::config::settings::BackendKind;
use crate::jitter::Jitter;

const PATH: &str = "/metrics";
const BODY_MAX: usize = 4 << 20;
/// The longest interval. The interval of a server without metrics grows up to this.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Whether a server has metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsSupport {
    /// It has had metrics, or its kind has them.
    Supported,
    /// It may have metrics; it is asked once each time that it comes up.
    Unknown,
    Unsupported,
}

/// Why a scrape failed.
#[derive(Debug)]
pub(super) enum ScrapeError {
    /// There was no response.
    Get(GetError),
    /// The response was not a success.
    Status(StatusCode),
    /// The text has no metrics of a known engine.
    UnknownEngine,
}

/// What one scrape needs to know.
#[derive(Debug)]
struct ScrapeTarget {
    endpoint: Arc<Endpoint>,
    is_up: bool,
    every: Duration,
    time: Duration,
}

/// Scrapes one backend for as long as it exists.
pub(super) async fn scrape(fleet: Arc<Fleet>, id: BackendId) {
    let mut jitter = Jitter::new(u64::from(id.0));
    let mut support: Option<(BackendKind, MetricsSupport)> = None;
    let mut misses = 0u32;
    // Whether the server tells which models it has loaded, once it was asked.
    let mut tells: Option<(BackendKind, bool)> = None;
    while let Some(target) = fleet.scrape_target(id) {
        let kind = target.endpoint.kind;
        let known = support.filter(|(of, _)| target.is_up && *of == kind);
        let tried = known.map_or_else(|| MetricsSupport::of(kind), |(_, support)| support);
        support = Some((kind, tried));
        if target.is_up && tried != MetricsSupport::Unsupported {
            let metrics = fleet.scrape(id, &target).await;
            misses = if metrics { 0 } else { misses.saturating_add(1) };
            support = Some((kind, tried.after(metrics)));
        }
        tells = tells.filter(|(of, _)| target.is_up && *of == kind);
        if target.is_up && tells.is_none_or(|(_, tells)| tells) {
            let told = fleet.read_loaded(id, &target.endpoint, target.time).await;
            tells = Some((kind, told || tells.is_some() || kind == BackendKind::Ollama));
        }
        let pause =
            target.every.saturating_mul(1 << misses.min(16)).min(PAUSE_MAX.max(target.every));
        tokio::time::sleep(jitter.around(pause)).await;
    }
}

// === impl Fleet ===

impl Fleet {
    fn scrape_target(&self, id: BackendId) -> Option<ScrapeTarget> {
        let state = self.state();
        let backend = state.backends.get(&id)?;
        Some(ScrapeTarget {
            endpoint: backend.endpoint.clone(),
            is_up: !backend.health.is_down(),
            every: state.settings.scrape_interval,
            time: state.settings.health_timeout,
        })
    }

    /// Scrapes once; returns whether there were metrics.
    async fn scrape(&self, id: BackendId, target: &ScrapeTarget) -> bool {
        let metrics = {
            let Ok(_permit) = self.probes.acquire().await else { return false };
            fetch(&target.endpoint, target.time).await
        };
        if let Ok(metrics) = &metrics {
            self.scheduler.with(|controller, now| controller.reading(id, metrics.reading, now));
        }
        let read = metrics.is_ok();
        let now = self.clock.now();
        let new_adapters = self.state().scraped(id, metrics, now);
        if new_adapters {
            self.publish_changes();
        }
        read
    }
}

async fn fetch(endpoint: &Endpoint, time: Duration) -> Result<EngineMetrics, ScrapeError> {
    let limits = GetLimits { time, body: BODY_MAX };
    let response = get(endpoint, PATH, limits).await.map_err(ScrapeError::Get)?;
    if !response.status.is_success() {
        return Err(ScrapeError::Status(response.status));
    }
    read(&response.body).ok_or(ScrapeError::UnknownEngine)
}

// === impl MetricsSupport ===

impl MetricsSupport {
    fn of(kind: BackendKind) -> Self {
        match kind {
            BackendKind::Vllm | BackendKind::Sglang | BackendKind::LlamaCpp => Self::Supported,
            BackendKind::Generic | BackendKind::Auto => Self::Unknown,
            BackendKind::Ollama | BackendKind::OpenAi => Self::Unsupported,
        }
    }

    fn after(self, read: bool) -> Self {
        match self {
            Self::Unknown if read => Self::Supported,
            Self::Unknown => Self::Unsupported,
            other => other,
        }
    }
}

// === impl ScrapeError ===

impl fmt::Display for ScrapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get(error) => error.fmt(f),
            Self::Status(status) => write!(f, "{PATH} answered {status}"),
            Self::UnknownEngine => write!(f, "{PATH} has no metrics of a known engine"),
        }
    }
}

impl error::Error for ScrapeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Get(error) => Some(error),
            Self::Status(_) | Self::UnknownEngine => None,
        }
    }
}
