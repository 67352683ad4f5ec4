//! Model lists: the models of all backends, in the formats of OpenAI and of Ollama.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::backend::{Lookup, ModelEntry};
use crate::config::Config;
use crate::ingress::path::{self, Route};
use crate::reply::{Fault, content, error, json};
use crate::state::State;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Card<'a>>,
}

#[derive(Serialize)]
struct Card<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

#[derive(Serialize)]
struct Tags<'a> {
    models: Vec<Tag<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tag<'a> {
    /// As an Ollama server lists it.
    GatewayIdentity(&'a RawValue),
    /// A model that no Ollama server lists.
    Made { name: &'a str, model: &'a str },
}

/// The page at `/`, in the form of Ollama's.
pub(super) fn root(method: &Method) -> Response<Full<Bytes>> {
    if !path::is_read(method) {
        return error::response(&Fault::MethodNotAllowed(error::READ_METHODS).into());
    }
    let text = Bytes::from_static(b"Tidegate is running");
    content(StatusCode::OK, "text/plain; charset=utf-8", text)
}

/// Responds to a request for a list, or for one model. A tenant sees the models that it may use.
pub(super) fn answer(state: &State, parts: &mut Parts) -> Result<Response<Full<Bytes>>, Fault> {
    let config = state.config.load_full();
    let caller = state.caller(&config, parts)?;
    let allowed = |model: &str| caller.as_ref().is_none_or(|caller| caller.tenant.may_use(model));
    let path = parts.uri.path();
    match path::classify(&parts.method, path) {
        Ok(Route::Tags) => Ok(tags(state, allowed)),
        Ok(Route::ModelCard) => match path::card_id(path).unwrap_or_default() {
            id if !allowed(&id) => Err(Fault::ModelNotAllowed(id.into())),
            id => model(state, &config, &id),
        },
        _ => Ok(models(state, &config, allowed)),
    }
}

/// `GET /v1/models`.
fn models(state: &State, config: &Config, allowed: impl Fn(&str) -> bool) -> Response<Full<Bytes>> {
    let roster = state.fleet.roster();
    let listed = roster.models_merged();
    let mut data: Vec<Card<'_>> = listed.iter().map(Card::of).collect();
    let unlisted =
        config.ruled_names().filter(|name| !listed.iter().any(|entry| entry.id == *name));
    data.extend(unlisted.map(Card::alias));
    data.retain(|card| allowed(card.id));
    json(StatusCode::OK, &List { object: "list", data })
}

/// `GET /v1/models/{id}`.
fn model(state: &State, config: &Config, id: &str) -> Result<Response<Full<Bytes>>, Fault> {
    let roster = state.fleet.roster();
    let alias = config.ruled_names().any(|name| name == id);
    match roster.models_merged().iter().find(|entry| entry.id == id) {
        Some(entry) => Ok(json(StatusCode::OK, &Card::of(entry))),
        None if alias || matches!(roster.lookup(id), Lookup::Known(_) | Lookup::Configured(_)) => {
            Ok(json(StatusCode::OK, &Card::alias(id)))
        }
        None => Err(Fault::ModelNotFound(id.to_owned())),
    }
}

/// `GET /api/tags`.
fn tags(state: &State, allowed: impl Fn(&str) -> bool) -> Response<Full<Bytes>> {
    let roster = state.fleet.roster();
    let listed = roster.models_merged();
    let models = listed.iter().filter(|entry| allowed(&entry.id)).map(Tag::of).collect();
    json(StatusCode::OK, &Tags { models })
}

// === impl Card ===

impl<'a> Card<'a> {
    fn of(entry: &'a ModelEntry) -> Self {
        Self {
            id: &entry.id,
            object: "model",
            created: entry.created.unwrap_or_default(),
            owned_by: entry.owned_by.as_deref().unwrap_or("tidegate"),
        }
    }

    fn alias(id: &'a str) -> Self {
        Self { id, object: "model", created: 0, owned_by: "tidegate" }
    }
}

// === impl Tag ===

impl<'a> Tag<'a> {
    fn of(entry: &'a ModelEntry) -> Self {
        match &entry.tag {
            Some(raw) => Self::GatewayIdentity(raw),
            None => Self::Made { name: &entry.id, model: &entry.id },
        }
    }
}
