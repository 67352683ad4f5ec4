//! The status of each backend, for the admin pages and D-Bus.

use flow::{BackendId, BackendTraits, EngineReading, Span, Time};
use serde::Serialize;

use super::backend_state::{BackendState, ServedModels};
use super::fleet_state::FleetState;
use super::health_state::{DownReason, Health, HealthStatus};
use crate::config::settings::{BackendKind, DrainCause};

/// A backend as the admin page shows it.
#[derive(Clone, Debug)]
pub(crate) struct BackendStatus {
    pub(crate) backend: BackendId,
    /// The configured name.
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) kind: BackendKind,
    pub(crate) ready: bool,
    pub(crate) state: StateWord,
    /// Why it is in this state, if there is more to say.
    pub(crate) reason: Option<String>,
    /// How long it stays ejected or full.
    pub(crate) returns_in: Option<Span>,
    /// Why it is drained, if it is.
    pub(crate) drain: Option<DrainCause>,
    /// For how long it has given no model list, where its list is unknown.
    pub(crate) list_failing: Option<Span>,
    /// The models that it lists; `*` for any.
    pub(crate) models: Vec<String>,
    /// The age and the result of the last health check.
    pub(crate) last_check: Option<(Span, String)>,
    /// The age and the content of the last reading of its metrics.
    pub(crate) last_reading: Option<(Span, EngineReading)>,
    /// Whether that reading has the use of the KV cache.
    pub(crate) kv_reported: bool,
    /// Why the last scrape failed.
    pub(crate) scrape_error: Option<String>,
    pub(crate) traits: BackendTraits,
    /// How many requests it runs at once, as configured.
    pub(crate) places: Option<u32>,
    /// Whether it was full twice in a row and has answered nothing in between.
    pub(crate) full_again: bool,
    /// Failed requests in a row, and the last failure.
    pub(crate) failures: u32,
    pub(crate) last_error: Option<String>,
    /// The time since the last byte of a response.
    pub(crate) quiet: Span,
    /// Requests there that are taken back if it stays silent.
    pub(crate) watched: usize,
    /// The smoothed time to the first byte of its responses.
    pub(crate) latency: Option<Span>,
    /// The same of its streams alone.
    pub(crate) stream_latency: Option<Span>,
    /// The same by the last streams; `None` if there was none of late.
    pub(crate) stream_latency_now: Option<Span>,
    /// The usual time to the first byte of its responses.
    pub(crate) usual_latency: Option<Span>,
}

/// The state of a backend in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateWord {
    Ready,
    Starting,
    Unready,
    Ejected,
    Full,
    OnTrial,
    /// It works, and gets no new requests.
    Draining,
    /// It was removed and still has requests.
    Leaving,
}

// === impl FleetState ===

impl FleetState {
    pub(super) fn statuses(&self, now: Time) -> Vec<BackendStatus> {
        let served = self.served(now);
        let view = |(&id, backend): (&BackendId, &BackendState)| {
            let status = BackendStatus::of(id, backend, backend.is_on_trial(&served, now), now);
            match self.drain_of(backend) {
                Some(cause) => status.drained(cause),
                None => status,
            }
        };
        self.backends.iter().map(view).collect()
    }
}

// === impl BackendStatus ===

impl BackendStatus {
    /// The same while it is drained. A server that ends or restarts meanwhile is no trouble.
    fn drained(self, cause: DrainCause) -> Self {
        let down = self.reason.filter(|_| self.state == StateWord::Unready);
        let reason = Some(down.map_or(cause.to_string(), |down| format!("{cause}; {down}")));
        let (state, drain) = (StateWord::Draining, Some(cause));
        Self { ready: false, state, reason, drain, returns_in: None, ..self }
    }

    /// Whether it is ready for more than the one request of a trial. Trials may begin before the
    /// time of an ejection is over.
    pub(crate) fn is_sound(&self) -> bool {
        self.ready && !matches!(self.state, StateWord::Ejected | StateWord::OnTrial)
    }

    /// Whether the requests that wait for it wait for a place there, and not for its recovery.
    pub(crate) fn has_places(&self) -> bool {
        self.is_sound() || (self.state == StateWord::Full && !self.full_again)
    }

    fn of(id: BackendId, backend: &BackendState, on_trial: bool, now: Time) -> Self {
        let status = backend.health.status(now);
        let models_known = !matches!(backend.models, ServedModels::Unknown);
        let (state, reason) = match status {
            HealthStatus::Ready if !models_known => {
                (StateWord::Starting, Some(backend.unknown_list()))
            }
            _ => (status.word(), backend.health.reason(now)),
        };
        let returns_in = match status {
            HealthStatus::Ejected(until) | HealthStatus::Full(until) => Some(until.since(now)),
            _ => None,
        };
        let age = |at: Time| now.since(at);
        Self {
            backend: id,
            id: backend.spec.id.clone(),
            url: backend.spec.url.clone(),
            kind: backend.endpoint.kind,
            ready: models_known && (status == HealthStatus::Ready || on_trial),
            state,
            reason,
            returns_in,
            drain: None,
            list_failing: backend.list_failing_since.map(age),
            models: backend.models.names(),
            last_check: backend.last_check.clone().map(|(at, said)| (age(at), said)),
            last_reading: backend.last_reading.map(|(at, reading)| (age(at), reading)),
            kv_reported: backend.kv_reported,
            scrape_error: backend.scrape_error.clone(),
            traits: backend.spec.traits,
            places: backend.spec.places,
            full_again: backend.health.is_full_again(),
            failures: backend.health.failures(),
            last_error: Some(backend.health.cause().to_owned()).filter(|cause| !cause.is_empty()),
            quiet: now.since(backend.endpoint.last_alive(now)),
            watched: backend.endpoint.stats.watched(),
            latency: backend.endpoint.stats.latency(),
            stream_latency: backend.endpoint.stats.stream_latency(),
            stream_latency_now: backend.endpoint.stats.stream_latency_now(now),
            usual_latency: backend.endpoint.stats.usual_latency(),
        }
    }
}

// === impl BackendState ===

impl BackendState {
    fn unknown_list(&self) -> String {
        match &self.list_error {
            Some(error) => format!("its model list is unknown: {error}"),
            None => "its model list is unknown".into(),
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
    /// Why it is in its state, if there is more to say.
    pub(super) fn reason(&self, now: Time) -> Option<String> {
        match self.status(now) {
            HealthStatus::Ready | HealthStatus::Down(DownReason::Starting) => None,
            HealthStatus::Down(down) => Some(down.to_string()),
            HealthStatus::Full(_) => Some(self.full_cause().to_owned()),
            HealthStatus::Ejected(_) | HealthStatus::OnTrial => Some(self.cause().to_owned()),
        }
    }

    /// The state in words, with its reason, for the log.
    pub(super) fn text(&self, now: Time) -> String {
        let state = match self.status(now) {
            HealthStatus::Ejected(until) => {
                format!("ejected {:.1} s more", until.since(now).secs_f64())
            }
            HealthStatus::OnTrial => "on trial after an ejection".into(),
            status => status.word().text().to_owned(),
        };
        match self.reason(now) {
            Some(reason) => format!("{state}: {reason}"),
            None => state,
        }
    }
}

// === impl HealthStatus ===

impl HealthStatus {
    fn word(&self) -> StateWord {
        match self {
            Self::Ready => StateWord::Ready,
            Self::Down(DownReason::Starting) => StateWord::Starting,
            Self::Down(_) => StateWord::Unready,
            Self::Ejected(_) => StateWord::Ejected,
            Self::Full(_) => StateWord::Full,
            Self::OnTrial => StateWord::OnTrial,
        }
    }
}

// === impl StateWord ===

impl StateWord {
    /// The states of backends that are configured or found.
    pub(crate) const CONFIGURED: [Self; 7] = [
        Self::Ready,
        Self::Starting,
        Self::Unready,
        Self::Ejected,
        Self::Full,
        Self::OnTrial,
        Self::Draining,
    ];

    /// The state as pages and metrics name it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OnTrial => "on_trial",
            state => state.text(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Unready => "unready",
            Self::Ejected => "ejected",
            Self::Full => "full",
            Self::OnTrial => "on trial",
            Self::Draining => "draining",
            Self::Leaving => "leaving",
        }
    }
}
