//! The state of one backend: its configuration, its health and its models.

use std::collections::BTreeSet;
use std::sync::Arc;

use flow::{EngineReading, ModelId, Span, Time};
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use super::health_state::{DownReason, Health, HealthStatus};
use super::model_list::ListedModel;
use crate::config::settings::BackendSpec;

/// The configured name that stands for all models.
const ANY: &str = "*";
/// Refused requests make its model list due at most once in this time.
const REFUSED_PAUSE: Span = Span::from_secs(1);

/// One backend.
#[derive(Debug)]
pub(super) struct BackendState {
    pub(super) spec: BackendSpec,
    pub(super) endpoint: Arc<Endpoint>,
    /// Triggers a health check before the next regular one.
    pub(super) check_now: Arc<Notify>,
    pub(super) health: Health,
    /// The health status that was logged last.
    logged: HealthStatus,
    pub(super) models: ServedModels,
    /// When it became a backend.
    pub(super) joined: Time,
    /// Why its list could not be read the last time.
    pub(super) list_error: Option<String>,
    /// Since when it has given no list, while its list is unknown.
    pub(super) list_failing_since: Option<Time>,
    /// How often in a row it has refused its list.
    pub(super) list_refusals: u8,
    /// Whether its list is fetched soon, because it has refused a request.
    pub(super) list_wanted: bool,
    /// When that was last so.
    pub(super) list_wanted_at: Option<Time>,
    /// The ids of the models that it serves, sorted.
    pub(super) serves: Vec<ModelId>,
    /// The ids of the subsets that it belongs to.
    pub(super) subset_models: Vec<ModelId>,
    pub(super) last_check: Option<(Time, String)>,
    pub(super) last_reading: Option<(Time, EngineReading)>,
    /// Whether that reading has the use of the KV cache.
    pub(super) kv_reported: bool,
    pub(super) scrape_error: Option<String>,
    pub(super) adapters: Vec<String>,
}

/// The models that a backend serves.
#[derive(Clone, Debug)]
pub(super) enum ServedModels {
    Unknown,
    Listed(Vec<ListedModel>),
    Any,
}

/// The part of a backend's supply that changes with its health.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SupplyState {
    pub(super) ready: bool,
    pub(super) paused: bool,
    pub(super) on_trial: bool,
    pub(super) handicap: f32,
    pub(super) adapters: Vec<u32>,
}

// === impl BackendState ===

impl BackendState {
    pub(super) fn new(spec: BackendSpec, endpoint: Endpoint, joined: Time) -> Self {
        let health = Health::new();
        Self {
            logged: health.status(Time::ZERO),
            health,
            models: ServedModels::given(&spec),
            joined,
            list_error: None,
            list_failing_since: None,
            list_refusals: 0,
            list_wanted: false,
            list_wanted_at: None,
            spec,
            endpoint: Arc::new(endpoint),
            check_now: Arc::default(),
            serves: Vec::new(),
            subset_models: Vec::new(),
            last_check: None,
            last_reading: None,
            kv_reported: false,
            scrape_error: None,
            adapters: Vec::new(),
        }
    }

    /// All model ids for which it can be chosen, sorted.
    pub(super) fn takes(&self) -> Vec<ModelId> {
        let mut takes = [self.serves.as_slice(), &self.subset_models].concat();
        takes.sort_unstable();
        takes
    }

    /// Whether its list is needed before the next regular fetch.
    pub(super) fn needs_list(&self) -> bool {
        matches!(self.models, ServedModels::Unknown) || self.list_refusals > 0 || self.list_wanted
    }

    /// It has answered a request with 403. It may refuse all requests, and answers fastest, so its
    /// list is fetched now.
    pub(super) fn refused_request(&mut self, now: Time) {
        let is_due = self.list_wanted_at.is_none_or(|at| at.after(REFUSED_PAUSE) <= now);
        if self.spec.models.is_empty() && is_due {
            (self.list_wanted, self.list_wanted_at) = (true, Some(now));
            self.check_now.notify_one();
        }
    }

    /// Logs the health status if it has changed.
    pub(super) fn log_change(&mut self, now: Time) {
        let is = self.health.status(now);
        if is == self.logged {
            return;
        }
        let (backend, state) = (&self.spec.id, self.health.text(now));
        match (&self.logged, &is) {
            // Under load this happens several times a second.
            (_, HealthStatus::Full(_)) | (HealthStatus::Full(_), HealthStatus::Ready) => {
                tracing::debug!(backend, state, "backend changed");
            }
            (_, HealthStatus::Ready | HealthStatus::OnTrial) => {
                tracing::info!(backend, state, "backend changed")
            }
            (_, HealthStatus::Down(DownReason::OwnGateway)) => {
                let url = &self.spec.url;
                tracing::warn!(
                    backend,
                    url,
                    "this backend is this gateway itself and gets nothing; is its port right?"
                );
            }
            (_, HealthStatus::Down(_) | HealthStatus::Ejected(_)) => {
                tracing::warn!(backend, state, "backend changed");
            }
        }
        self.logged = is;
    }

    /// Whether it gets one request at a time, to see whether it works again. A backend that alone
    /// serves a model is tried before its ejection is over: its requests can only wait for it.
    pub(super) fn is_on_trial(&self, served: &BTreeSet<ModelId>, now: Time) -> bool {
        match self.health.status(now) {
            HealthStatus::OnTrial => true,
            HealthStatus::Ejected(_) => {
                let alone = self.serves.iter().any(|model| !served.contains(model));
                alone && self.health.may_be_tried(now)
            }
            HealthStatus::Ready | HealthStatus::Down(_) | HealthStatus::Full(_) => false,
        }
    }
}

// === impl ServedModels ===

impl ServedModels {
    pub(super) fn given(spec: &BackendSpec) -> Self {
        if spec.models.is_empty() {
            Self::Unknown
        } else if spec.models.iter().any(|name| name == ANY) {
            Self::Any
        } else {
            Self::Listed(spec.models.iter().cloned().map(ListedModel::named).collect())
        }
    }

    pub(super) fn listed(&self) -> &[ListedModel] {
        match self {
            Self::Listed(list) => list,
            Self::Unknown | Self::Any => &[],
        }
    }

    pub(super) fn same_names(&self, list: &[ListedModel]) -> bool {
        matches!(self, Self::Listed(old)
            if old.iter().map(|listed| &listed.id).eq(list.iter().map(|listed| &listed.id)))
    }
}
