//! The wake call: one POST when requests wait for a model that has no backend.
//!
//! However many requests wait, a model is called for once, and again only after a pause while they
//! still wait. A call that fails is tried again a few times. It never delays a request: requests
//! wait in the queue, whatever becomes of the call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::Controller;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use serde::Serialize;
use tokio::time::Instant;

use crate::config::settings::Wake;
use crate::state::State;
use crate::upstream::client::{BaseUrl, Client, ClientError};

/// How often a look is taken while nothing is announced: the last backend may have left.
const LOOK: Duration = Duration::from_secs(5);
/// The shortest time between two looks, however many requests announce themselves.
const LOOKS_APART: Duration = Duration::from_millis(50);
/// The pause before a second try; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const RESPONSE_MAX: usize = 64 << 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A model without a backend for which requests wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct UnservedModel {
    model: String,
    waiting: u32,
    backends_wanted: u32,
}

/// The body of a call.
#[derive(Debug, Serialize)]
struct WakeBody<'a> {
    models: &'a [UnservedModel],
}

/// Why a call failed.
#[derive(Debug)]
enum WakeError {
    /// The URL names no server. It was checked when it was read.
    Url,
    Sending(ClientError),
    /// The hook answered with another status than a success.
    Status(StatusCode),
}

/// When each model was called for. A model that has a backend is forgotten, so the models that are
/// known bound it. One whose requests leave is not: clients that come and go would make a call
/// each.
#[derive(Debug, Default)]
struct WakeCalls(BTreeMap<String, Instant>);

/// Makes the call whenever it is due. Never returns.
pub(crate) async fn run(state: Arc<State>) {
    let mut unserved = state.unserved.subscribe();
    let (mut calls, client) = (WakeCalls::default(), Client::default());
    loop {
        unserved.borrow_and_update();
        let wake = state.config.load().scaler.wake.clone();
        if let Some(wake) = &wake {
            let mut models = models_without_backend(&state);
            calls.0.retain(|name, _| models.iter().any(|one| one.model == *name));
            models.retain(|one| one.waiting > 0);
            if calls.is_due(&models, wake.again, Instant::now()) {
                call(&state, &client, wake, models).await;
            }
        }
        tokio::time::sleep(LOOKS_APART).await;
        tokio::select! {
            // The sender lives as long as the state.
            _ = unserved.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Tries the call until it succeeds, no request waits any more, or it was tried often enough.
async fn call(state: &State, client: &Client, wake: &Wake, mut waiting: Vec<UnservedModel>) {
    let mut pause = PAUSE;
    for attempt in 1..=wake.attempts {
        let sent = tokio::time::timeout(wake.timeout, post(client, wake, &waiting)).await;
        let outcome = sent.unwrap_or(Err(WakeError::Sending(ClientError::TimedOut(wake.timeout))));
        let models: Vec<&str> = waiting.iter().map(|one| one.model.as_str()).collect();
        match outcome {
            Ok(()) => return tracing::info!(?models, url = wake.url, "wake call"),
            Err(error) => {
                tracing::warn!(?models, url = wake.url, %error, attempt, "a wake call failed");
            }
        }
        if attempt < wake.attempts {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            waiting = models_without_backend(state);
            waiting.retain(|one| one.waiting > 0);
        }
        if waiting.is_empty() {
            return;
        }
    }
}

async fn post(client: &Client, wake: &Wake, waiting: &[UnservedModel]) -> Result<(), WakeError> {
    let uri: Uri = wake.url.parse().map_err(|_| WakeError::Url)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(WakeError::Url);
    };
    let base = BaseUrl::parse(&format!("{scheme}://{authority}")).map_err(|_| WakeError::Url)?;
    let body = serde_json::to_vec(&WakeBody { models: waiting }).unwrap_or_default();
    let request = Request::builder().method(Method::POST).uri(uri.path());
    let request = request.header(CONTENT_TYPE, JSON).body(Full::new(Bytes::from(body)));
    let request = request.map_err(ClientError::from)?;
    let response = client.send(&base, request, RESPONSE_MAX).await?;
    let status = response.status;
    if status.is_success() { Ok(()) } else { Err(WakeError::Status(status)) }
}

/// The models without a ready backend, and how many requests wait for each.
fn models_without_backend(state: &State) -> Vec<UnservedModel> {
    let roster = state.fleet.roster();
    let goal = state.config.load().scaler.goal;
    let mut found: BTreeMap<&str, UnservedModel> = BTreeMap::new();
    state.scheduler.with(|core: &mut Controller, now| {
        for (name, id) in roster.numbered() {
            let demand = core.demand(id, now);
            if demand.as_ref().is_some_and(|demand| demand.ready > 0) {
                continue;
            }
            let waiting = demand.as_ref().map_or(0, |demand| demand.waiting);
            let backends_wanted = demand.map_or(0, |demand| demand.wanted(goal));
            found.insert(name, UnservedModel { model: name.into(), waiting, backends_wanted });
        }
    });
    found.into_values().collect()
}

// === impl WakeError ===

impl From<ClientError> for WakeError {
    fn from(error: ClientError) -> Self {
        Self::Sending(error)
    }
}

impl std::fmt::Display for WakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url => f.write_str("the URL names no server"),
            Self::Sending(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "it answered {status}"),
        }
    }
}

// === impl WakeCalls ===

impl WakeCalls {
    /// Whether a call is due for any of these models; if so, it counts for all of them.
    fn is_due(&mut self, waiting: &[UnservedModel], again: Duration, now: Instant) -> bool {
        let recent = |model: &UnservedModel| {
            let called = self.0.get(&model.model);
            called.is_some_and(|called| now.saturating_duration_since(*called) < again)
        };
        if waiting.iter().all(recent) {
            return false;
        }
        self.0.extend(waiting.iter().map(|one| (one.model.clone(), now)));
        true
    }
}

#[cfg(test)]
mod tests;
