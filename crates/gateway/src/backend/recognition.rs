//! Recognises the software of a model server by its responses, whatever its port: engines by the
//! owner of their models or by the prefix of their metrics, Ollama by its version.

use serde::Deserialize;

use super::bounded_get::{GetLimits, get};
use super::endpoint::Endpoint;
use super::model_list::openai_list;
use super::self_detection;
use crate::config::settings::BackendKind;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognition {
    Server(BackendKind),
    /// A Tidegate gateway.
    Gateway,
    /// No response, or none of a model server.
    Nothing,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    _version: String,
}

/// Asks a server for its software.
pub(super) async fn recognise(endpoint: &Endpoint, limits: GetLimits) -> Recognition {
    let Ok(health) = get(endpoint, "/health", limits).await else { return Recognition::Nothing };
    if self_detection::instance(&health.body).is_some() {
        return Recognition::Gateway;
    }
    let models = read(endpoint, "/v1/models", limits).await.and_then(|body| openai_list(&body));
    let owners = models.iter().flatten().filter_map(|model| model.owned_by.as_deref());
    if let Some(kind) = owners.filter_map(|owner| engine(owner.as_bytes(), "")).next() {
        return Recognition::Server(kind);
    }
    let metrics = read(endpoint, "/metrics", limits).await.unwrap_or_default();
    if let Some(kind) = metrics.split(|&byte| byte == b'\n').find_map(|line| engine(line, ":")) {
        return Recognition::Server(kind);
    }
    let version = read(endpoint, "/api/version", limits).await.unwrap_or_default();
    if serde_json::from_slice::<Version>(&version).is_ok() {
        return Recognition::Server(BackendKind::Ollama);
    }
    models.map_or(Recognition::Nothing, |_| Recognition::Server(BackendKind::Generic))
}

/// The engine whose name, followed by `mark`, is a prefix of `text`.
fn engine(text: &[u8], mark: &str) -> Option<BackendKind> {
    let engines = [
        ("vllm", BackendKind::Vllm),
        ("sglang", BackendKind::Sglang),
        ("llamacpp", BackendKind::LlamaCpp),
    ];
    let begins = |name: &str| {
        text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(mark.as_bytes()))
    };
    engines.into_iter().find(|(name, _)| begins(name)).map(|(_, kind)| kind)
}

async fn read(endpoint: &Endpoint, path: &str, limits: GetLimits) -> Option<bytes::Bytes> {
    let response = get(endpoint, path, limits).await.ok()?;
    response.status.is_success().then_some(response.body)
}
