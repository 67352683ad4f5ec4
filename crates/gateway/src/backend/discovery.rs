//! Discovery of model servers on this machine, for a configuration without backends.
//!
//! A server is recognised by its responses, not by its port: engines by the prefix of their metrics
//! or by the owner of their models, Ollama by its version. Another Tidegate gateway is not a model
//! server. If a gateway took itself for one, each request would loop.

use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, BackendTraits};
use serde::Deserialize;

use super::bounded_get::{GetLimits, get};
use super::endpoint::Endpoint;
use super::fleet_state::BackendSource;
use super::model_list::openai_list;
use super::{Fleet, self_detection};
use crate::config::settings::{BackendKind, BackendSpec};

/// The default ports of Ollama, vLLM, llama.cpp, LM Studio and SGLang.
const PORTS: [u16; 5] = [11434, 8000, 8080, 1234, 30000];
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(1), body: 4 << 20 };

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    _version: String,
}

/// Searches until a server is found.
pub(super) async fn search(fleet: Arc<Fleet>, own_ports: Vec<u16>) {
    let mut warned = false;
    loop {
        let found = look(&PORTS, &own_ports).await;
        if !found.is_empty() {
            for spec in &found {
                tracing::info!(backend = %spec.id, url = %spec.url, kind = ?spec.kind, "found");
            }
            fleet.change(|state, now| state.set_source(BackendSource::Discovery, found, now));
            return;
        }
        if !warned {
            tracing::warn!(
                ports = ?PORTS,
                "no model server found on 127.0.0.1; start one, or name one with --backend URL"
            );
            warned = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The servers that respond on these local ports.
pub(super) async fn look(ports: &[u16], own_ports: &[u16]) -> Vec<BackendSpec> {
    let mut found = Vec::new();
    for &port in ports.iter().filter(|port| !own_ports.contains(port)) {
        if let Some(kind) = recognise(port).await {
            found.push(spec(port, kind));
        }
    }
    found
}

fn spec(port: u16, kind: BackendKind) -> BackendSpec {
    let name = match kind {
        BackendKind::OpenAi | BackendKind::Generic => "local",
        engine => engine.name(),
    };
    BackendSpec {
        id: format!("{name}-{port}"),
        url: format!("http://127.0.0.1:{port}"),
        kind,
        models: Vec::new(),
        traits: BackendTraits::default(),
        http2: false,
    }
}

async fn recognise(port: u16) -> Option<BackendKind> {
    let endpoint = Endpoint::new(BackendId(0), &spec(port, BackendKind::Generic)).ok()?;
    let health = get(&endpoint, "/health", LIMITS).await.ok()?;
    if self_detection::instance(&health.body).is_some() {
        tracing::debug!(port, "ignored: another gateway");
        return None;
    }
    let models = read(&endpoint, "/v1/models").await.and_then(|body| openai_list(&body));
    let owners = models.iter().flatten().filter_map(|model| model.owned_by.as_deref());
    let by_owner = owners.filter_map(|owner| engine(owner.as_bytes(), "")).next();
    if by_owner.is_some() {
        return by_owner;
    }
    let metrics = read(&endpoint, "/metrics").await.unwrap_or_default();
    let by_metrics = metrics.split(|&byte| byte == b'\n').find_map(|line| engine(line, ":"));
    if by_metrics.is_some() {
        return by_metrics;
    }
    let version = read(&endpoint, "/api/version").await.unwrap_or_default();
    if serde_json::from_slice::<Version>(&version).is_ok() {
        return Some(BackendKind::Ollama);
    }
    models.map(|_| BackendKind::Generic)
}

/// The engine whose name, followed by `mark`, is a prefix of `text`.
fn engine(text: &[u8], mark: &str) -> Option<BackendKind> {
    let begins = |kind: &BackendKind| {
        let rest = text.strip_prefix(kind.name().as_bytes());
        rest.is_some_and(|rest| rest.starts_with(mark.as_bytes()))
    };
    [BackendKind::Vllm, BackendKind::Sglang, BackendKind::LlamaCpp].into_iter().find(begins)
}

async fn read(endpoint: &Endpoint, path: &str) -> Option<bytes::Bytes> {
    let response = get(endpoint, path, LIMITS).await.ok()?;
    response.status.is_success().then_some(response.body)
}
