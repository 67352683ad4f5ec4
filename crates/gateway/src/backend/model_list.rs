//! The model list of a server. Its content is validated, because any server may be behind a URL.

use std::sync::Arc;
use std::{error, fmt};

use flow::BackendId;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::backend_state::ServedModels;
use super::bounded_get::{GetError, GetLimits, GetResponse, get};
use super::endpoint::Endpoint;
use super::fleet_state::FleetState;
use crate::config::settings::BackendKind;

/// Further names of one backend are ignored.
const NAMES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = flow::identity::NAME_MAX;
/// A longer entry of an Ollama list is not kept.
const TAG_BYTES_MAX: usize = 4 << 10;
const LATEST: &str = ":latest";
/// A server that has given its list, or never had one, loses its requests after so many refusals in
/// a row: one alone may come from a proxy that restarts. At first contact, one is enough.
pub(super) const REFUSALS_MIN: u8 = 3;

/// A model as one server lists it.
#[derive(Clone, Debug)]
pub(super) struct ListedModel {
    pub(super) id: String,
    pub(super) owned_by: Option<String>,
    pub(super) created: Option<u64>,
    /// The most tokens of a prompt and its output, where the server says so.
    pub(super) context: Option<u64>,
    pub(super) tag: Option<Arc<RawValue>>,
    /// Whether this is an alias of another entry.
    pub(super) alias: bool,
}

/// The result of fetching a list.
#[derive(Debug)]
pub(super) enum ModelListReply {
    List(Vec<ListedModel>),
    /// The server responds but has no list.
    Unsupported(ModelListError),
    /// The server refuses the list, and probably all requests.
    Forbidden(ModelListError),
    /// The list could not be fetched now.
    Unavailable(ModelListError),
}

/// Why there is no list, with the path where it was expected.
#[derive(Debug)]
pub(super) enum ModelListError {
    Get(&'static str, GetError),
    Status(&'static str, StatusCode),
    NotAList(&'static str),
    ShuttingDown,
}

#[derive(Deserialize)]
struct OpenAiList<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct OllamaList<'a> {
    #[serde(borrow)]
    models: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ModelJson {
    id: Option<String>,
    name: Option<String>,
    owned_by: Option<serde_json::Value>,
    created: Option<serde_json::Value>,
    /// The context length, as vLLM and SGLang name it.
    max_model_len: Option<serde_json::Value>,
    /// llama.cpp has its context length in here.
    meta: Option<serde_json::Value>,
}

/// Fetches the model list of a server.
pub(super) async fn fetch_model_list(endpoint: &Endpoint, limits: GetLimits) -> ModelListReply {
    let ollama = endpoint.kind == BackendKind::Ollama;
    let path = if ollama { "/api/tags" } else { "/v1/models" };
    match get(endpoint, path, limits).await {
        Ok(response) => read_response(endpoint.kind, path, &response),
        Err(error @ GetError::TooLarge) => {
            unreadable(endpoint.kind, ModelListError::Get(path, error))
        }
        Err(error) => ModelListReply::Unavailable(ModelListError::Get(path, error)),
    }
}

fn read_response(kind: BackendKind, path: &'static str, response: &GetResponse) -> ModelListReply {
    let &GetResponse { status, ref body } = response;
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return ModelListReply::Unavailable(ModelListError::Status(path, status));
    }
    // A client may bring the key that a 401 asks for, but a 403 is final, also if the gateway has
    // sent no key: a mesh or a firewall that refuses every request says 403 whatever the key is. It
    // answers fastest, so it would get most of the requests.
    if status == StatusCode::FORBIDDEN {
        return ModelListReply::Forbidden(ModelListError::Status(path, status));
    }
    if !status.is_success() {
        return ModelListReply::Unsupported(ModelListError::Status(path, status));
    }
    let list = match kind {
        BackendKind::Ollama => ollama_list(body),
        _ => openai_list(body),
    };
    match list {
        Some(list) => ModelListReply::List(list),
        None => unreadable(kind, ModelListError::NotAList(path)),
    }
}

/// A response that is no list. A known engine always has one, so its list is awaited: otherwise
/// it would get requests for any model. Another server may have a page at this path.
pub(super) fn unreadable(kind: BackendKind, error: ModelListError) -> ModelListReply {
    match kind {
        BackendKind::Auto | BackendKind::Generic => ModelListReply::Unsupported(error),
        _ => ModelListReply::Unavailable(error),
    }
}

/// Parses a list in OpenAI's format: `{"data": [{"id": …}]}`.
pub(super) fn openai_list(body: &[u8]) -> Option<Vec<ListedModel>> {
    let OpenAiList { data } = serde_json::from_slice(body).ok()?;
    Some(data.into_iter().filter_map(listed).take(NAMES_MAX).collect())
}

/// Parses a list in Ollama's format: `{"models": [{"name": …}]}`. Ollama also accepts a name with
/// the tag `latest` without the tag.
pub(super) fn ollama_list(body: &[u8]) -> Option<Vec<ListedModel>> {
    let OllamaList { models } = serde_json::from_slice(body).ok()?;
    let mut list = Vec::new();
    for raw in models.into_iter().take(NAMES_MAX / 2) {
        let Some(model) = listed(raw) else { continue };
        let short = model.id.strip_suffix(LATEST).map(str::to_owned);
        let tag = (raw.get().len() <= TAG_BYTES_MAX).then(|| Arc::from(raw.to_owned()));
        list.push(ListedModel { tag, ..model });
        list.extend(short.map(|id| ListedModel { alias: true, ..ListedModel::named(id) }));
    }
    Some(list)
}

fn listed(raw: &RawValue) -> Option<ListedModel> {
    let ModelJson { id, name, owned_by, created, max_model_len, meta } =
        serde_json::from_str(raw.get()).ok()?;
    let id = id.or(name)?;
    if id.is_empty() || id.len() > NAME_BYTES_MAX {
        return None;
    }
    let owned_by = owned_by.as_ref().and_then(|owner| owner.as_str());
    let owned_by = owned_by.filter(|owner| owner.len() <= NAME_BYTES_MAX).map(str::to_owned);
    let created = created.as_ref().and_then(|created| created.as_u64());
    let context = max_model_len.as_ref().or_else(|| meta.as_ref()?.get("n_ctx_train"));
    let context = context.and_then(|context| context.as_u64()).filter(|&context| context > 0);
    Some(ListedModel { owned_by, created, context, ..ListedModel::named(id) })
}

// === impl FleetState ===

impl FleetState {
    /// Stores the result of fetching a backend's model list.
    pub(super) fn set_model_list(&mut self, id: BackendId, reply: ModelListReply) {
        let Some(backend) = self.backends.get_mut(&id) else { return };
        // The configuration may have set a list in the meantime.
        if !backend.spec.models.is_empty() {
            return;
        }
        backend.list_wanted = false;
        let (name, known) = (&backend.spec.id, backend.list_error.take());
        let reply = match reply {
            // What runs in the pods of a cluster are model servers, and one that starts may answer
            // something else before it has its list. It would get the requests for every model.
            ModelListReply::Unsupported(reason) if self.has_pool && !reason.is_no_such_page() => {
                ModelListReply::Unavailable(reason)
            }
            reply => reply,
        };
        backend.list_refusals = match reply {
            ModelListReply::Forbidden(_) => backend.list_refusals.saturating_add(1),
            _ => 0,
        };
        match (reply, &backend.models) {
            (ModelListReply::List(list), models) => {
                self.stale |= !models.same_names(&list);
                backend.models = ServedModels::Listed(list);
            }
            (ModelListReply::Unsupported(reason), ServedModels::Unknown) => {
                tracing::warn!(
                    backend = %name,
                    %reason,
                    "no model list: it gets requests for any model; configure its `models`"
                );
                backend.models = ServedModels::Any;
                self.stale = true;
            }
            (ModelListReply::Unsupported(reason), _) => {
                tracing::debug!(backend = %name, %reason, "model list not read, old one kept")
            }
            (ModelListReply::Forbidden(reason), ServedModels::Listed(_) | ServedModels::Any)
                if backend.list_refusals < REFUSALS_MIN =>
            {
                tracing::debug!(backend = %name, %reason, "model list refused, old one kept")
            }
            (ModelListReply::Forbidden(reason), models) => {
                let reason = reason.to_string();
                if known.as_ref() != Some(&reason) {
                    tracing::warn!(
                        backend = %name,
                        reason,
                        "it refuses its model list, so it gets no requests; if it serves \
                         requests, configure its `models`"
                    );
                }
                self.stale |= !matches!(models, ServedModels::Unknown);
                backend.models = ServedModels::Unknown;
                backend.list_error = Some(reason);
            }
            (ModelListReply::Unavailable(reason), _) => {
                tracing::debug!(backend = %name, %reason, "model list not read");
                backend.list_error = Some(reason.to_string());
            }
        }
    }
}

// === impl ListedModel ===

impl ListedModel {
    /// A model of which only the name is known.
    pub(super) fn named(id: String) -> Self {
        Self { id, owned_by: None, created: None, context: None, tag: None, alias: false }
    }
}

// === impl ModelListError ===

impl ModelListError {
    /// Whether the server has no such page, or only for clients with a key.
    fn is_no_such_page(&self) -> bool {
        matches!(self, Self::Status(_, status) if status.is_client_error())
    }
}

impl fmt::Display for ModelListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get(path, error) => write!(f, "{path}: {error}"),
            Self::Status(path, status) => write!(f, "{path} answered {status}"),
            Self::NotAList(path) => write!(f, "{path} has no model list"),
            Self::ShuttingDown => f.write_str("shutting down"),
        }
    }
}

impl error::Error for ModelListError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Get(_, error) => Some(error),
            Self::Status(..) | Self::NotAList(_) | Self::ShuttingDown => None,
        }
    }
}
