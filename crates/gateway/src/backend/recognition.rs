//! Recognises the software of a model server by its responses, whatever its port: engines by the
//! owner of their models or by the prefix of their metrics, Ollama by its version.

use bytes::Bytes;
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
    /// A page had no response, or an error of the server: it may be busy or starting.
    Unsure,
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
    let models = read(endpoint, "/v1/models", limits).await;
    let list = models.as_deref().ok().and_then(openai_list);
    let owners = list.iter().flatten().filter_map(|model| model.owned_by.as_deref());
    if let Some(kind) = owners.filter_map(|owner| engine(owner.as_bytes(), "")).next() {
        return Recognition::Server(kind);
    }
    let metrics = read(endpoint, "/metrics", limits).await;
    let mut lines = metrics.iter().flat_map(|text| text.split(|&byte| byte == b'\n'));
    if let Some(kind) = lines.find_map(|line| engine(line, ":")) {
        return Recognition::Server(kind);
    }
    let version = read(endpoint, "/api/version", limits).await;
    if version.as_ref().is_ok_and(|text| serde_json::from_slice::<Version>(text).is_ok()) {
        return Recognition::Server(BackendKind::Ollama);
    }
    if models.is_err() || metrics.is_err() || version.is_err() {
        return Recognition::Unsure;
    }
    list.map_or(Recognition::Nothing, |_| Recognition::Server(BackendKind::Generic))
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

/// No response to a question, or an error of the server.
struct Unanswered;

/// The page at a path; empty if the server has none.
async fn read(endpoint: &Endpoint, path: &str, limits: GetLimits) -> Result<Bytes, Unanswered> {
    let response = get(endpoint, path, limits).await.map_err(|_| Unanswered)?;
    match response.status {
        status if status.is_success() => Ok(response.body),
        status if status.is_server_error() => Err(Unanswered),
        _ => Ok(Bytes::new()),
    }
}
