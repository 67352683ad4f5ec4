//! The state of the fleet: its backends, their health and their models; and what the core and the
//! requests see of it. No IO and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flow::{BackendId, BackendSupply, ModelId, Span, Time};

use super::Attempt;
use super::backend_state::{BackendState, ServedModels, SupplyState};
use super::catalogue::Catalogue;
use super::drain::Drains;
use super::endpoint::Endpoint;
use super::engine_metrics::EngineMetrics;
use super::health_state::{CheckResult, HealthSettings, HealthStatus, NO_ADDRESS, OWN_GATEWAY};
use super::model_ids::{ModelIds, NOT_YET};
use super::roster::Roster;
use super::scrape::ScrapeError;
use super::subset::{Subset, Subsets};
use crate::clock::span;
use crate::config::settings::{BackendSpec, FleetSettings};

/// A removed backend stays in the roster for this long, for requests that were granted it before,
/// and again while such a request runs, so that pages and metrics know its name.
const LEAVING: Span = Span::from_secs(30);

/// The sources of backends. If two sources use the same name, the first one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendSource {
    Settings,
    EndpointsFile,
    Kubernetes,
    Discovery,
}

#[derive(Debug, Default)]
pub(super) struct FleetState {
    pub(super) settings: FleetSettings,
    sources: BTreeMap<BackendSource, Vec<BackendSpec>>,
    /// Whether a cluster is known that may get backends.
    pub(super) has_pool: bool,
    pub(super) backends: BTreeMap<BackendId, BackendState>,
    last_id: u32,
    model_ids: ModelIds,
    pub(super) catalogue: Arc<Catalogue>,
    requested_subsets: Subsets,
    subsets: Arc<BTreeMap<Subset, ModelId>>,
    /// Whether model lists have changed since the catalogue was made.
    pub(super) stale: bool,
    leaving: Vec<(Time, Arc<Endpoint>)>,
    pub(super) drains: Drains,
    /// The supply states that were published last.
    published: Vec<(BackendId, SupplyState)>,
    generation: u64,
}

/// An update for the core and for the requests. Updates are ordered by their generation.
#[derive(Debug)]
pub(super) struct FleetUpdate {
    pub(super) generation: u64,
    pub(super) supply: Vec<BackendSupply>,
    pub(super) roster: Arc<Roster>,
    /// Whether the set of known models has changed.
    pub(super) models_changed: bool,
}

// === impl FleetState ===

impl FleetState {
    pub(super) fn health_settings(&self) -> HealthSettings {
        let FleetSettings { eject_after, eject_for, slow_start, health_interval, .. } =
            self.settings;
        HealthSettings {
            eject_after,
            eject_for: span(eject_for),
            slow_start: span(slow_start),
            check_every: span(health_interval),
        }
    }

    pub(super) fn configure(&mut self, settings: &FleetSettings, now: Time) {
        self.settings = settings.clone();
        self.sources.retain(|source, _| match source {
            BackendSource::Settings => true,
            BackendSource::EndpointsFile => settings.endpoints_file.is_some(),
            BackendSource::Kubernetes => settings.kubernetes.is_some(),
            BackendSource::Discovery => settings.discover,
        });
        self.has_pool &= settings.kubernetes.is_some();
        self.set_source(BackendSource::Settings, settings.backends.clone(), now);
    }

    /// Replaces the backends of a cluster; `None` if it has no pool.
    pub(super) fn set_cluster(&mut self, specs: Option<Vec<BackendSpec>>, now: Time) {
        self.has_pool = specs.is_some() && self.settings.kubernetes.is_some();
        self.set_source(BackendSource::Kubernetes, specs.unwrap_or_default(), now);
    }

    /// Replaces the backends of one source. A backend with the same name and URL keeps its state.
    pub(super) fn set_source(&mut self, source: BackendSource, specs: Vec<BackendSpec>, now: Time) {
        self.sources.insert(source, specs);
        let mut known: BTreeMap<(String, String), BackendId> = BTreeMap::new();
        for (&id, backend) in &self.backends {
            known.insert((backend.spec.id.clone(), backend.spec.url.clone()), id);
        }
        let mut named = BTreeSet::new();
        for spec in self.sources.values().flatten().cloned().collect::<Vec<_>>() {
            if !named.insert(spec.id.clone()) {
                tracing::warn!(backend = %spec.id, "name used twice; the first backend is used");
                continue;
            }
            match known.remove(&(spec.id.clone(), spec.url.clone())) {
                Some(id) => self.update_spec(id, spec),
                None => self.join(spec, now),
            }
        }
        for id in known.into_values() {
            self.leave(id, now);
        }
        self.stale = true;
    }

    pub(super) fn report(&mut self, id: BackendId, attempt: Attempt, cause: &str, now: Time) {
        let settings = self.health_settings();
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.report(attempt, cause, &settings, now);
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
        if backend.health.is_down() {
            backend.check_now.notify_one();
        }
    }

    pub(super) fn answered(&mut self, id: BackendId, sent: Time, now: Time) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.answered(sent, now);
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
    }

    /// Records that a backend answered a request with 403.
    pub(super) fn refused_request(&mut self, id: BackendId, now: Time) {
        if let Some(backend) = self.backends.get_mut(&id) {
            backend.refused_request(now);
        }
    }

    /// Records a response that broke off after it had begun.
    pub(super) fn broke_off(&mut self, id: BackendId, cause: String, now: Time) {
        let settings = self.health_settings();
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.broke_off(cause, &settings, now);
        backend.endpoint.stats.set_has_failures(backend.health.has_failures());
        backend.endpoint.stats.set_has_breaks(backend.health.has_breaks());
    }

    /// Records the end of a whole response.
    pub(super) fn completed(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        backend.health.completed();
        backend.endpoint.stats.set_has_breaks(backend.health.has_breaks());
    }

    pub(super) fn checked(&mut self, id: BackendId, check: CheckResult, began: Time, now: Time) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        let said = match &check {
            CheckResult::Healthy => "good".into(),
            CheckResult::Unhealthy(said) => said.clone(),
            CheckResult::Refused => "connection refused".into(),
            CheckResult::NoResponse => "no response".into(),
            CheckResult::NoAddress => NO_ADDRESS.into(),
            CheckResult::OwnGateway => OWN_GATEWAY.into(),
            CheckResult::NotDone => "no check: the gateway may open no further file".into(),
        };
        backend.last_check = Some((now, said));
        backend.health.checked(check, began, now);
        self.log_drained(id);
    }

    /// Stores a reading of a backend's metrics, or the error. Returns whether the adapters changed.
    pub(super) fn scraped(
        &mut self,
        id: BackendId,
        metrics: Result<EngineMetrics, ScrapeError>,
        now: Time,
    ) -> bool {
        let Some(backend) = self.backends.get_mut(&id) else { return false };
        match metrics {
            Ok(EngineMetrics { reading, kv_reported, adapters }) => {
                backend.kv_reported = kv_reported;
                backend.last_reading = Some((now, reading));
                backend.scrape_error = None;
                adapters != std::mem::replace(&mut backend.adapters, adapters.clone())
            }
            Err(error) => {
                if backend.scrape_error.is_none() {
                    tracing::debug!(backend = %backend.spec.id, %error, "metrics not read");
                }
                backend.scrape_error = Some(error.to_string());
                false
            }
        }
    }

    /// Adds a subset of the backends of a model.
    pub(super) fn request_subset(&mut self, subset: Subset, now: Time) {
        self.stale |= self.requested_subsets.request(subset, now);
    }

    /// When the state changes next by time alone.
    pub(super) fn next_change(&self, now: Time) -> Option<Time> {
        let settings = self.health_settings();
        let backends =
            self.backends.values().filter_map(|backend| backend.health.next_change(&settings, now));
        let leaving = self.leaving.iter().map(|&(until, _)| until);
        let given_up = self.next_list_given_up(now);
        backends.chain(leaving).chain(self.catalogue.next_change()).chain(given_up).min()
    }

    /// The update to publish, if the state has changed.
    pub(super) fn take_update(&mut self, now: Time) -> Option<FleetUpdate> {
        let leaving = self.leaving.len();
        self.leaving.retain_mut(|(until, endpoint)| {
            if *until <= now && endpoint.is_in_use() {
                *until = now.after(LEAVING);
            }
            *until > now
        });
        self.stale |= self.catalogue.next_change().is_some_and(|at| at <= now);
        self.stale |= self.note_lists(now);
        let models_changed = std::mem::take(&mut self.stale);
        if models_changed {
            self.renew_catalogue(now);
        }
        self.backends.values_mut().for_each(|backend| backend.log_change(now));
        let supply_states = self.supply_states(now);
        if !models_changed && supply_states == self.published && leaving == self.leaving.len() {
            return None;
        }
        self.generation += 1;
        let supply = supply_states
            .iter()
            .filter_map(|(id, supply_state)| self.supply_of(*id, supply_state))
            .collect();
        let roster = Arc::new(self.roster(&supply_states));
        self.published = supply_states;
        Some(FleetUpdate { generation: self.generation, supply, roster, models_changed })
    }

    fn renew_catalogue(&mut self, now: Time) {
        self.model_ids.touch(self.catalogue.names(), now);
        let FleetState { settings, backends, model_ids, .. } = self;
        let mut catalogue = Catalogue::of(backends, &settings.configured_models, model_ids, now);
        if self.has_pool {
            catalogue.hold(&self.catalogue, span(settings.hold_ttl), now);
            catalogue.note_zero(&self.catalogue, backends, now);
        }
        backends.values_mut().for_each(|backend| catalogue.complete(backend));
        self.catalogue = Arc::new(catalogue);
        self.subsets = Arc::new(self.requested_subsets.number(backends, model_ids, now));
    }

    fn join(&mut self, spec: BackendSpec, now: Time) {
        self.last_id += 1;
        let id = BackendId(self.last_id);
        let endpoint = Endpoint::new(id, &spec).and_then(|endpoint| {
            if self.settings.addressed {
                endpoint.socket_address()?;
            }
            Ok(endpoint)
        });
        match endpoint {
            Ok(endpoint) => _ = self.backends.insert(id, BackendState::new(spec, endpoint, now)),
            Err(error) => tracing::error!("{error}; the backend is ignored"),
        }
    }

    fn leave(&mut self, id: BackendId, now: Time) {
        if let Some(backend) = self.backends.remove(&id) {
            self.forget_drain(&backend.spec.id);
            tracing::info!(backend = %backend.spec.id, "backend removed");
            self.leaving.push((now.after(LEAVING), backend.endpoint));
        }
    }

    fn update_spec(&mut self, id: BackendId, spec: BackendSpec) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        // A drain changes nothing that is known about the server.
        Self::log_source_drain(backend, spec.drain);
        backend.spec.drain = spec.drain;
        if backend.spec == spec {
            return;
        }
        if backend.spec.models != spec.models || backend.spec.kind != spec.kind {
            backend.models = ServedModels::given(&spec);
            backend.check_now.notify_one();
        }
        if let Ok(endpoint) = Endpoint::new(id, &spec) {
            let stats = Arc::clone(&backend.endpoint.stats);
            backend.endpoint = Arc::new(Endpoint { stats, ..endpoint });
        }
        backend.spec = spec;
    }

    fn supply_states(&self, now: Time) -> Vec<(BackendId, SupplyState)> {
        let settings = self.health_settings();
        let served = self.served(now);
        let supply_state = |(&id, backend): (&BackendId, &BackendState)| {
            let status = backend.health.status(now);
            let up = matches!(status, HealthStatus::Ready | HealthStatus::Full(_));
            let on_trial = backend.is_on_trial(&served, now);
            let models_known = !matches!(backend.models, ServedModels::Unknown);
            let adapters = backend.adapters.iter();
            let adapters = adapters.filter_map(|name| self.catalogue.ids.get(name.as_str()));
            let supply_state = SupplyState {
                ready: models_known && (up || on_trial) && self.drain_of(backend).is_none(),
                paused: matches!(status, HealthStatus::Full(_)),
                on_trial,
                handicap: backend.health.handicap(&settings, now),
                adapters: adapters.map(|id| id.0).collect(),
            };
            (id, supply_state)
        };
        self.backends.iter().map(supply_state).collect()
    }

    /// The models with a backend that is neither down nor ejected. It is needed only while a
    /// backend is ejected.
    pub(super) fn served(&self, now: Time) -> BTreeSet<ModelId> {
        let status = |backend: &BackendState| backend.health.status(now);
        let ejected = |backend| matches!(status(backend), HealthStatus::Ejected(_));
        if !self.backends.values().any(ejected) {
            return BTreeSet::new();
        }
        let fit = |backend: &&BackendState| {
            let status = status(backend);
            matches!(status, HealthStatus::Ready | HealthStatus::Full(_) | HealthStatus::OnTrial)
        };
        self.backends.values().filter(fit).flat_map(|backend| &backend.serves).copied().collect()
    }

    fn supply_of(&self, id: BackendId, supply_state: &SupplyState) -> Option<BackendSupply> {
        let backend = self.backends.get(&id)?;
        Some(BackendSupply {
            ready: supply_state.ready,
            paused: supply_state.paused,
            on_trial: supply_state.on_trial,
            handicap: supply_state.handicap,
            traits: backend.spec.traits,
            places: backend.spec.places,
            adapters: supply_state.adapters.clone(),
            ..BackendSupply::new(id, backend.takes())
        })
    }

    fn roster(&self, supply_states: &[(BackendId, SupplyState)]) -> Roster {
        let default_models = |wanted: bool| -> Vec<ModelId> {
            let ids = supply_states
                .iter()
                .filter(|(_, supply_state)| supply_state.ready || !wanted)
                .map(|(id, _)| id);
            let backends = ids.filter_map(|id| self.backends.get(id));
            backends.filter_map(|backend| backend.serves.first().copied()).collect()
        };
        let mut default_models = [default_models(true), default_models(false)]
            .into_iter()
            .find(|default_models| !default_models.is_empty());
        default_models
            .iter_mut()
            .for_each(|default_models| default_models.retain(|&model| model != NOT_YET));
        let ready = supply_states.iter().filter(|(_, supply_state)| supply_state.ready);
        let ready = ready.filter_map(|(id, _)| Some((*id, self.backends.get(id)?.takes())));
        let paused = supply_states.iter().filter(|(_, supply_state)| supply_state.paused);
        let leaving = self.leaving.iter().map(|(_, endpoint)| (endpoint.id, endpoint.clone()));
        let present = self.backends.iter().map(|(&id, backend)| (id, backend.endpoint.clone()));
        Roster {
            backends: leaving.chain(present).collect(),
            catalogue: self.catalogue.clone(),
            default_models: default_models.unwrap_or_default(),
            ready: ready.collect(),
            paused: paused.map(|(id, _)| *id).collect(),
            subsets: self.subsets.clone(),
            leaving: self.leaving.iter().map(|(_, endpoint)| endpoint.id).collect(),
            present: self.backends.len(),
            lacks_cluster: self.settings.kubernetes.is_some() && !self.has_pool,
            adapters: supply_states
                .iter()
                .flat_map(|(_, at)| &at.adapters)
                .map(|&id| ModelId(id))
                .collect(),
        }
    }
}
