//! The status of each backend, for the admin pages and D-Bus.

use flow::{BackendId, BackendTraits, EngineReading, Span, Time};

use super::backend_state::{BackendState, ServedModels};
use super::fleet_state::FleetState;
use super::health_state::{Health, HealthStatus};
use crate::config::settings::BackendKind;

/// A backend as the admin page shows it.
#[derive(Clone, Debug)]
pub(crate) struct BackendStatus {
    pub(crate) backend: BackendId,
    /// The configured name.
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) kind: BackendKind,
    pub(crate) ready: bool,
    /// `ready`, `starting`, `full`, `ejected 3.2 s more: it answered 500`, `unready: connection
    /// refused`, …
    pub(crate) state: String,
    /// The models that it lists; `*` for any.
    pub(crate) models: Vec<String>,
    /// The age and the result of the last health check.
    pub(crate) last_check: Option<(Span, String)>,
    /// The age and the content of the last reading of its metrics.
    pub(crate) last_reading: Option<(Span, EngineReading)>,
    /// Why the last scrape failed.
    pub(crate) scrape_error: Option<String>,
    pub(crate) traits: BackendTraits,
    /// Failed requests in a row.
    pub(crate) failures: u32,
    /// The smoothed time to the first byte of its responses.
    pub(crate) latency: Option<Span>,
}

// === impl FleetState ===

impl FleetState {
    pub(super) fn statuses(&self, now: Time) -> Vec<BackendStatus> {
        let view = |(&id, backend): (&BackendId, &BackendState)| self.view(id, backend, now);
        self.backends.iter().map(view).collect()
    }

    fn view(&self, id: BackendId, backend: &BackendState, now: Time) -> BackendStatus {
        let status = backend.health.status(now);
        let models_known = !matches!(backend.models, ServedModels::Unknown);
        let on_trial = backend.is_on_trial(&self.served(now), now);
        let state = match status {
            HealthStatus::Ready if !models_known => "starting: its model list is unknown".into(),
            _ => backend.health.text(now),
        };
        let age = |at: Time| now.since(at);
        BackendStatus {
            backend: id,
            id: backend.spec.id.clone(),
            url: backend.spec.url.clone(),
            kind: backend.endpoint.kind,
            ready: models_known && (status == HealthStatus::Ready || on_trial),
            state,
            models: backend.models.names(),
            last_check: backend.last_check.clone().map(|(at, said)| (age(at), said)),
            last_reading: backend.last_reading.map(|(at, reading)| (age(at), reading)),
            scrape_error: backend.scrape_error.clone(),
            traits: backend.spec.traits,
            failures: backend.health.failures(),
            latency: backend.endpoint.stats.latency(),
        }
    }
}

// === impl ServedModels ===

impl ServedModels {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Any => vec!["*".into()],
            Self::Listed(list) => list.iter().map(|listed| listed.id.clone()).collect(),
        }
    }
}

// === impl Health ===

impl Health {
    /// The state in words, with the cause of an ejection.
    pub(super) fn text(&self, now: Time) -> String {
        match self.status(now) {
            HealthStatus::Ready => "ready".into(),
            HealthStatus::Down(down) => down.to_string(),
            HealthStatus::Ejected(until) => {
                let left = until.since(now).secs_f64();
                format!("ejected {left:.1} s more: {}", self.cause())
            }
            HealthStatus::Full(_) => "full".into(),
            HealthStatus::OnTrial => format!("on trial after an ejection: {}", self.cause()),
        }
    }
}
