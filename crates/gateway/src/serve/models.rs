//! Model lists: the models of all backends, in the formats of OpenAI and of Ollama.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::backend::{Lookup, ModelEntry};
use crate::reply::{Fault, error, json};
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

/// `GET /v1/models`.
pub(super) fn models(state: &State) -> Response<Full<Bytes>> {
    let (config, roster) = (state.config.load(), state.fleet.roster());
    let listed = roster.models_merged();
    let mut data: Vec<Card<'_>> = listed.iter().map(Card::of).collect();
    let unlisted =
        config.names.ruled().filter(|name| !listed.iter().any(|entry| entry.id == *name));
    data.extend(unlisted.map(Card::alias));
    json(StatusCode::OK, &List { object: "list", data })
}

/// `GET /v1/models/{id}`.
pub(super) fn model(state: &State, id: &str) -> Response<Full<Bytes>> {
    let (config, roster) = (state.config.load(), state.fleet.roster());
    let alias = config.names.ruled().any(|name| name == id);
    match roster.models_merged().iter().find(|entry| entry.id == id) {
        Some(entry) => json(StatusCode::OK, &Card::of(entry)),
        None if alias || matches!(roster.lookup(id), Lookup::Known(_) | Lookup::Configured(_)) => {
            json(StatusCode::OK, &Card::alias(id))
        }
        None => error::response(&Fault::ModelNotFound(id.to_owned()).into()),
    }
}

/// `GET /api/tags`.
pub(super) fn tags(state: &State) -> Response<Full<Bytes>> {
    let roster = state.fleet.roster();
    let models = roster.models_merged().iter().map(Tag::of).collect();
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
