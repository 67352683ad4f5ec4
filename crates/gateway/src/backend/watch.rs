//! The tasks that watch the backends: one loop for each backend, and one for all.
//!
//! The loop for all sleeps until the state changes by time alone (an ejection ends, a slow start
//! takes its next step) or until another task changes it. The loop of a backend checks its health
//! and fetches its model list with the check. So a backend that returns never gets a request for a
//! model that it no longer serves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, Span, Time};
use tokio::task::{AbortHandle, JoinSet};

use super::backend_state::ServedModels;
use super::fleet_state::FleetState;
use super::health::CheckResult;
use super::model_list::{ModelListReply, fetch_model_list};
use super::probe::{ProbeError, ProbeLimits, get};
use super::roster::Upstream;
use super::{Fleet, GatewayIdentity, discovery, endpoints_file, scrape};
use crate::clock;
use crate::config::resolved::BackendKind;
use crate::jitter::Jitter;

/// The interval between two fetches of a model list.
const MODEL_LIST_INTERVAL: Span = Span::from_secs(30);
/// The most bytes that are read of a health response.
const HEALTH_BODY_MAX: usize = 1 << 20;
const LIST_BODY_MAX: usize = 4 << 20;
/// The loops start spread over this time.
const SPREAD: Duration = Duration::from_millis(50);
/// The longest sleep of the loop for all backends.
const IDLE: Span = Span::from_secs(3600);

/// The tasks besides the loop for all backends.
#[derive(Debug, Default)]
struct Tasks {
    set: JoinSet<()>,
    loops: BTreeMap<BackendId, [AbortHandle; 2]>,
    endpoints: Option<(PathBuf, AbortHandle)>,
    discovery: Option<AbortHandle>,
}

/// What one health check needs to know.
#[derive(Debug)]
struct CheckTarget {
    upstream: Arc<Upstream>,
    check_now: Arc<tokio::sync::Notify>,
    time: Duration,
    lists_models: bool,
    /// Whether the backend cannot be ready without its model list.
    urgent: bool,
}

// === impl Fleet ===

impl Fleet {
    /// Watches the backends until the task is aborted.
    pub(crate) async fn watch(self: Arc<Self>, identity: GatewayIdentity) {
        let identity = Arc::new(identity);
        let mut tasks = Tasks::default();
        loop {
            tasks.follow(&self, &identity);
            let next = {
                let now = self.clock.now();
                self.state().next_change(now).unwrap_or(now.after(IDLE)).min(now.after(IDLE))
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(self.clock.instant(next)) => self.publish_changes(),
            }
        }
    }

    fn check_target(&self, id: BackendId) -> Option<CheckTarget> {
        let state = self.state();
        let backend = state.backends.get(&id)?;
        Some(CheckTarget {
            upstream: backend.upstream.clone(),
            check_now: backend.check_now.clone(),
            time: state.settings.health_timeout,
            lists_models: backend.spec.models.is_empty(),
            urgent: backend.health.is_down() || matches!(backend.models, ServedModels::Unknown),
        })
    }

    /// Checks one backend for as long as it exists.
    async fn check_loop(self: Arc<Self>, id: BackendId, identity: Arc<GatewayIdentity>) {
        let mut jitter = Jitter::new(u64::from(id.0));
        let mut list_at = Time::ZERO;
        tokio::time::sleep(jitter.part_of(SPREAD)).await;
        while let Some(target) = self.check_target(id) {
            let began = self.clock.now();
            let check = self.check(&target, &identity).await;
            let mut reply = None;
            if check == CheckResult::Healthy
                && target.lists_models
                && (target.urgent || began >= list_at)
            {
                reply = Some(self.fetch_models(&target).await);
                list_at = began.after(MODEL_LIST_INTERVAL);
            }
            let pause = self.change(|state, now| {
                state.checked(id, check, began, now);
                reply.into_iter().for_each(|reply| state.set_model_list(id, reply));
                state.next_check(id)
            });
            tokio::select! {
                () = tokio::time::sleep(jitter.around(clock::duration(pause))) => {}
                () = target.check_now.notified() => {}
            }
        }
    }

    async fn check(&self, target: &CheckTarget, identity: &GatewayIdentity) -> CheckResult {
        if identity.is_at(&target.upstream.authority) {
            return CheckResult::OwnGateway;
        }
        let Ok(_permit) = self.probes.acquire().await else { return CheckResult::NoResponse };
        let limits = ProbeLimits { time: target.time, body: HEALTH_BODY_MAX };
        check(&target.upstream, identity, limits).await
    }

    async fn fetch_models(&self, target: &CheckTarget) -> ModelListReply {
        let Ok(_permit) = self.probes.acquire().await else {
            return ModelListReply::Unavailable("shutting down".into());
        };
        fetch_model_list(&target.upstream, ProbeLimits { time: target.time, body: LIST_BODY_MAX })
            .await
    }
}

/// Checks the health of a server, in the way of its kind.
pub(super) async fn check(
    upstream: &Upstream,
    identity: &GatewayIdentity,
    limits: ProbeLimits,
) -> CheckResult {
    let path = match upstream.kind {
        BackendKind::Ollama => "/api/version",
        BackendKind::OpenAi => "/v1/models",
        BackendKind::Vllm | BackendKind::Sglang | BackendKind::LlamaCpp | BackendKind::Generic => {
            "/health"
        }
    };
    // These servers may lack the path or refuse it, so any response below 500 is enough.
    let lenient = matches!(upstream.kind, BackendKind::OpenAi | BackendKind::Generic);
    match get(upstream, path, limits).await {
        Ok(response) if identity.wrote(&response.body) => CheckResult::OwnGateway,
        Ok(response) if response.status.is_success() => CheckResult::Healthy,
        Ok(response) if lenient && !response.status.is_server_error() => CheckResult::Healthy,
        Ok(response) => CheckResult::Unhealthy(format!("{path} answered {}", response.status)),
        // The server responds, with a long body.
        Err(ProbeError::TooLarge) => CheckResult::Healthy,
        Err(ProbeError::Refused) => CheckResult::Refused,
        Err(ProbeError::TimedOut | ProbeError::Failed(_)) => CheckResult::NoResponse,
    }
}

// === impl Tasks ===

impl Tasks {
    /// Starts missing tasks and aborts those that are not needed any more.
    fn follow(&mut self, fleet: &Arc<Fleet>, identity: &Arc<GatewayIdentity>) {
        while self.set.try_join_next().is_some() {}
        let (ids, path, discover) = {
            let state = fleet.state();
            let ids: Vec<BackendId> = state.backends.keys().copied().collect();
            (ids, state.settings.endpoints_file.clone(), state.settings.discover)
        };
        self.loops.retain(|id, handles| {
            let gone = ids.binary_search(id).is_err();
            let broken = handles.iter().any(AbortHandle::is_finished);
            if gone || broken {
                handles.iter().for_each(AbortHandle::abort);
            }
            !gone && !broken
        });
        for id in ids {
            self.loops.entry(id).or_insert_with(|| {
                let check = self.set.spawn(fleet.clone().check_loop(id, identity.clone()));
                [check, self.set.spawn(scrape::scrape(fleet.clone(), id))]
            });
        }
        self.follow_endpoints(fleet, path);
        self.follow_discovery(fleet, discover, identity);
    }

    fn follow_endpoints(&mut self, fleet: &Arc<Fleet>, path: Option<PathBuf>) {
        if self.endpoints.as_ref().map(|(path, _)| path) == path.as_ref() {
            return;
        }
        if let Some((_, handle)) = self.endpoints.take() {
            handle.abort();
        }
        if let Some(path) = path {
            let task = endpoints_file::follow(fleet.clone(), path.clone());
            self.endpoints = Some((path, self.set.spawn(task)));
        }
    }

    fn follow_discovery(&mut self, fleet: &Arc<Fleet>, wanted: bool, identity: &GatewayIdentity) {
        match (&self.discovery, wanted) {
            (None, true) => {
                let task = discovery::search(fleet.clone(), identity.ports());
                self.discovery = Some(self.set.spawn(task));
            }
            (Some(handle), false) => {
                handle.abort();
                self.discovery = None;
            }
            _ => {}
        }
    }
}

// === impl FleetState ===

impl FleetState {
    fn next_check(&self, id: BackendId) -> Span {
        let settings = self.health_settings();
        let Some(backend) = self.backends.get(&id) else { return Span::ZERO };
        let every = backend.health.next_check(&settings);
        // A backend without a model list is not ready, so its next check is soon.
        let soon = Span::from_secs(1);
        if matches!(backend.models, ServedModels::Unknown) { every.min(soon) } else { every }
    }
}
