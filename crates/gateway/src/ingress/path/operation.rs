//! What a path asks of a model server, also behind a prefix.
//!
//! Envoy takes a route's prefix away after the picker has seen the path, and a server may be
//! mounted under one. So a path that ends with a known path is that path. `spelling` has refused
//! what is written otherwise.

use http::Method;

use super::{Api, ROOT, RequestKind, is_read, upstream};

/// The kinds of work, by their paths.
const WORK: [(&str, RequestKind); 9] = [
    ("/v1/chat/completions", RequestKind::Chat),
    ("/v1/completions", RequestKind::Completion),
    ("/v1/responses", RequestKind::Response),
    ("/v1/embeddings", RequestKind::Embedding),
    ("/api/chat", RequestKind::Chat),
    ("/api/generate", RequestKind::Completion),
    ("/api/embed", RequestKind::Embedding),
    ("/api/embeddings", RequestKind::Embedding),
    ("/api/show", RequestKind::Description),
];

/// The same of LM Studio's own API, which no client of another server means.
const LM_STUDIO: [(&str, RequestKind); 4] = [
    ("/api/v0/chat/completions", RequestKind::Chat),
    ("/api/v0/completions", RequestKind::Completion),
    ("/api/v0/embeddings", RequestKind::Embedding),
    ("/api/v1/chat", RequestKind::Response),
];

/// The paths of work that vLLM and llama.cpp have outside `/v1/`.
pub(super) const ENGINE_PATHS: [&str; 4] = ["/tokenize", "/detokenize", "/rerank", "/score"];

/// The paths that change the models of a server.
const MODEL_CHANGES: [&str; 10] = [
    "/api/copy",
    "/api/create",
    "/api/delete",
    "/api/pull",
    "/api/push",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/api/v1/models/load",
    "/api/v1/models/unload",
    "/api/v1/models/download",
];

/// Anthropic's API. It is no kind of request: it is forwarded like any other path.
pub(crate) const MESSAGES: &str = "/v1/messages";
/// The files of models, which Ollama takes.
const BLOBS: &str = "/api/blobs/";
pub(super) const CARDS: &str = "/v1/models/";
/// The models of OpenAI's older API.
pub(super) const ENGINES: &str = "/v1/engines/";

/// The paths of lists, which the gateway answers itself.
const LISTS: [&str; 5] = ["/v1/models", "/v1/files", "/v1/batches", "/api/tags", "/api/version"];

/// The beginnings of paths that go on with an id.
pub(super) const OBJECTS: [&str; 5] = [BLOBS, CARDS, ENGINES, "/v1/files/", "/v1/batches/"];

/// Every path that a lock is on, or by which a request is read.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let own = LM_STUDIO.into_iter().map(|(path, _)| path);
    work_paths().chain([MESSAGES]).chain(MODEL_CHANGES).chain(LISTS).chain(own)
}

/// The paths whose bodies are read as work.
pub(super) fn work_paths() -> impl Iterator<Item = &'static str> {
    WORK.into_iter().map(|(path, _)| path)
}

/// The API and the kind of a request. Only POST carries work: other methods on the same path (a
/// list, a cancellation) do not.
pub(crate) fn work(method: &Method, path: &str) -> (Api, RequestKind) {
    let azure = upstream(path);
    let path = azure.as_deref().unwrap_or(path);
    let mut all = WORK.into_iter().chain(LM_STUDIO);
    let found = all.find(|(known, _)| *method == Method::POST && path.ends_with(known));
    let (known, kind) = found.unwrap_or((path, RequestKind::Other));
    let is_ollama = known.starts_with("/api/") && !known.starts_with("/api/v");
    (if is_ollama { Api::Ollama } else { Api::OpenAi }, kind)
}

/// Whether a request changes the models of a server: the paths of Ollama, vLLM and LM Studio, and
/// the card of a model with a method that reads nothing and carries no work.
pub(crate) fn changes_models(method: &Method, path: &str) -> bool {
    let is_change = MODEL_CHANGES.into_iter().any(|known| path.ends_with(known));
    let is_card = path.contains(CARDS) && *method != Method::POST;
    (is_change || is_card || is_blob(path)) && !is_read(method)
}

/// Whether the body of a request is a file of a model, which no server interprets.
pub(crate) fn is_blob(path: &str) -> bool {
    path.contains(BLOBS)
}

/// Whether a tenant may have a path at all: `serve` offers no other one, and neither does Envoy.
pub(crate) fn is_offered(path: &str) -> bool {
    let is_api = path == ROOT || path.contains("/v1/") || path.contains("/api/");
    let is_engines = || ENGINE_PATHS.into_iter().any(|known| path.ends_with(known));
    is_api || upstream(path).is_some() || is_engines()
}
