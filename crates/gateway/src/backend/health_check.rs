//! Health checks: one loop for each backend.
//!
//! The loop checks the health of a backend and fetches its model list with the check. So a backend
//! that returns never gets a request for a model that it no longer serves.

use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, Span, Time};

use super::bounded_get::{GetError, GetLimits, get};
use super::endpoint::Endpoint;
use super::fleet_state::FleetState;
use super::health_state::CheckResult;
use super::model_list::{ModelListError, ModelListReply, fetch_model_list};
use super::recognition::{Recognition, recognise};
use super::{Fleet, GatewayIdentity};
use crate::clock;
use crate::config::settings::BackendKind;
use crate::jitter::Jitter;

/// The interval between two fetches of a model list.
const MODEL_LIST_INTERVAL: Span = Span::from_secs(30);
/// The most bytes that are read of a health response.
const HEALTH_BODY_MAX: usize = 1 << 20;
const LIST_BODY_MAX: usize = 4 << 20;
/// The loops start spread over this time.
const SPREAD: Duration = Duration::from_millis(50);

/// What one health check needs to know.
#[derive(Debug)]
struct CheckTarget {
    endpoint: Arc<Endpoint>,
    check_now: Arc<tokio::sync::Notify>,
    time: Duration,
    lists_models: bool,
    /// Whether the backend cannot be ready, or stay so, without its model list.
    urgent: bool,
}

// === impl Fleet ===

impl Fleet {
    fn check_target(&self, id: BackendId) -> Option<CheckTarget> {
        let state = self.state();
        let backend = state.backends.get(&id)?;
        Some(CheckTarget {
            endpoint: backend.endpoint.clone(),
            check_now: backend.check_now.clone(),
            time: state.settings.health_timeout,
            lists_models: backend.spec.models.is_empty(),
            urgent: backend.health.is_down() || backend.needs_list(),
        })
    }

    /// Checks one backend for as long as it exists.
    pub(super) async fn check_loop(self: Arc<Self>, id: BackendId, identity: Arc<GatewayIdentity>) {
        let mut jitter = Jitter::new(u64::from(id.0));
        let mut list_at = Time::ZERO;
        tokio::time::sleep(jitter.part_of(SPREAD)).await;
        while let Some(target) = self.check_target(id) {
            let began = self.clock.now();
            let check = self.check(&target, &identity).await;
            let target = self.recognise(id, target, &check).await;
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
        if identity.is_at(target.endpoint.place()) {
            return CheckResult::OwnGateway;
        }
        let Ok(_permit) = self.probes.acquire().await else { return CheckResult::NoResponse };
        let limits = GetLimits { time: target.time, body: HEALTH_BODY_MAX };
        check(&target.endpoint, identity, limits).await
    }

    /// Asks a backend of unknown software what it is, once it responds. A recognised one that does
    /// not pass its check is forgotten: another server may be at its address.
    async fn recognise(
        &self,
        id: BackendId,
        mut target: CheckTarget,
        check: &CheckResult,
    ) -> CheckTarget {
        let healthy = *check == CheckResult::Healthy;
        let known = target.endpoint.kind;
        let kind = match known {
            BackendKind::Auto if healthy => {
                let limits = GetLimits { time: target.time, body: LIST_BODY_MAX };
                let Ok(_permit) = self.probes.acquire().await else { return target };
                match recognise(&target.endpoint, limits).await {
                    Recognition::Server(kind) => kind,
                    Recognition::Unsure => BackendKind::Auto,
                    // It has passed its check, so it can be used.
                    Recognition::Gateway | Recognition::Nothing => BackendKind::Generic,
                }
            }
            _ if !healthy => BackendKind::Auto,
            known => known,
        };
        if kind != known
            && let Some(endpoint) = self.state().set_kind(id, kind)
        {
            target.endpoint = endpoint;
        }
        target
    }

    async fn fetch_models(&self, target: &CheckTarget) -> ModelListReply {
        let Ok(_permit) = self.probes.acquire().await else {
            return ModelListReply::Unavailable(ModelListError::ShuttingDown);
        };
        fetch_model_list(&target.endpoint, GetLimits { time: target.time, body: LIST_BODY_MAX })
            .await
    }
}

/// Checks the health of a server, in the way of its kind.
pub(super) async fn check(
    endpoint: &Endpoint,
    identity: &GatewayIdentity,
    limits: GetLimits,
) -> CheckResult {
    let path = match endpoint.kind {
        BackendKind::Ollama => "/api/version",
        BackendKind::OpenAi => "/v1/models",
        BackendKind::Vllm
        | BackendKind::Sglang
        | BackendKind::LlamaCpp
        | BackendKind::Generic
        | BackendKind::Auto => "/health",
    };
    // These servers may lack the path or refuse it, so any response below 500 is enough.
    let lenient =
        matches!(endpoint.kind, BackendKind::OpenAi | BackendKind::Generic | BackendKind::Auto);
    match get(endpoint, path, limits).await {
        Ok(response) if identity.wrote(&response.body) => CheckResult::OwnGateway,
        Ok(response) if response.status.is_success() => CheckResult::Healthy,
        Ok(response) if lenient && !response.status.is_server_error() => CheckResult::Healthy,
        Ok(response) => CheckResult::Unhealthy(format!("{path} answered {}", response.status)),
        // The server responds, with a long body.
        Err(GetError::TooLarge) => CheckResult::Healthy,
        Err(GetError::NoFile) => CheckResult::NotDone,
        Err(GetError::Refused) => CheckResult::Refused,
        Err(GetError::NoAddress) => CheckResult::NoAddress,
        Err(error @ (GetError::Tls(_) | GetError::NotHttp(_))) => {
            CheckResult::Unhealthy(error.to_string())
        }
        Err(GetError::TimedOut | GetError::Failed(_)) => CheckResult::NoResponse,
    }
}

// === impl FleetState ===

impl FleetState {
    /// Sets the software of a backend whose software is not configured. Returns its endpoint, if
    /// that has changed.
    fn set_kind(&mut self, id: BackendId, kind: BackendKind) -> Option<Arc<Endpoint>> {
        let backend = self.backends.get_mut(&id)?;
        if backend.spec.kind != BackendKind::Auto {
            return None;
        }
        if kind != BackendKind::Auto {
            tracing::info!(backend = %backend.spec.id, ?kind, "backend recognised");
        }
        let stats = Arc::clone(&backend.endpoint.stats);
        let endpoint = Endpoint::new(id, &backend.spec).ok()?;
        backend.endpoint = Arc::new(Endpoint { kind, stats, ..endpoint });
        Some(Arc::clone(&backend.endpoint))
    }

    fn next_check(&self, id: BackendId) -> Span {
        let settings = self.health_settings();
        let Some(backend) = self.backends.get(&id) else { return Span::ZERO };
        let every = backend.health.next_check(&settings);
        // A backend without a model list is not ready, so its next check is soon. One that refuses
        // it may refuse every request.
        let soon = Span::from_secs(1);
        if backend.needs_list() { every.min(soon) } else { every }
    }
}
