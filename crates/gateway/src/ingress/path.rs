//! Routing of requests by their path.
//!
//! The gateway forwards `/v1/`, `/api/` and a few paths that model servers have beside them, and
//! only unchanged paths. It refuses a path that a server could read as another one (`spelling`), so
//! that no client reaches a path that is not offered, and no path passes a lock (`operation`). The
//! paths of Azure OpenAI become those of OpenAI.

mod azure;
mod batch;
mod dispatch;
mod drain;
mod meant;
mod named_models;
mod operation;
mod spelling;

use std::borrow::Cow;

use http::Method;

pub(crate) use self::batch::{BatchCall, object_id};
pub(crate) use self::dispatch::{DeadLetterQuery, DispatchCall};
pub(crate) use self::drain::{DrainCall, backend_id};
pub(crate) use self::meant::{is_usual, meant};
pub(crate) use self::named_models::named_models;
use self::operation::{CARDS, ENGINE_PATHS};
pub(crate) use self::operation::{MESSAGES, changes_models, is_blob, is_offered, work};
use self::spelling::decoded_text;
pub(crate) use self::spelling::{check, percent_decoded};
use crate::reply::Fault;
use crate::reply::error::{API_METHODS, READ_METHODS};

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A backend.
    Proxied {
        api: Api,
        kind: RequestKind,
    },
    /// The models of all backends, in the formats of OpenAI and of Ollama.
    Models,
    Tags,
    /// Ollama's version.
    Version,
    /// The path `/`, by which clients of Ollama see that a server runs.
    Root,
    /// One model; [`card_id`] gives its name.
    ModelCard,
    /// The Batch API.
    Batch(BatchCall),
    /// The pages of the dispatcher.
    Dispatch(DispatchCall),
    /// A backend is drained, or not any more.
    Drain(DrainCall),
    Visibility(AdminPage),
    /// A question about the methods of a path.
    Options,
    NotFound,
}

/// The API that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Ollama,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Chat,
    Completion,
    Response,
    Embedding,
    /// Ollama's description of a model: a read, although the model stands in a body.
    Description,
    /// Any other path. It is forwarded, with a model if its body names one.
    Other,
}

/// A page of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminPage {
    Backends,
    Flows,
    Workloads,
    Health,
    Ready,
    Metrics,
    Version,
    /// The diagnosis, each second as events, and the last hour in numbers.
    Status,
    StatusStream,
    StatusHistory,
    /// One request; [`request_id`] gives its id.
    Request,
    /// The requests that are here, and those that ended last.
    Requests,
    /// The live page, which shows the status.
    Dashboard(DashboardFile),
    /// What tenants have used.
    Usage,
}

/// A file of the live page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DashboardFile {
    Page,
    Style,
    App,
    Charts,
    Tables,
}

const ROOT: &str = "/";
/// `OPTIONS *` asks what the server as a whole can do.
const WHOLE_SERVER: &str = "*";
const REQUESTS: &str = "/requests/";

/// The methods of a path that only changes something.
const POST_METHODS: &str = "OPTIONS, POST";

/// The destination of a request. An ambiguous path is an error.
pub(crate) fn classify(method: &Method, path: &str) -> Result<Route, Fault> {
    let route = route(method, path)?;
    let refused = matches!(
        route,
        Route::Batch(BatchCall::OtherMethod(_))
            | Route::Dispatch(DispatchCall::OtherMethod(_))
            | Route::Drain(DrainCall::OtherMethod(_))
    );
    // CONNECT would open a tunnel, and TRACE would echo the client's credentials.
    if matches!(*method, Method::CONNECT | Method::TRACE) && !refused {
        return Err(Fault::MethodNotAllowed(API_METHODS));
    }
    Ok(route)
}

fn route(method: &Method, path: &str) -> Result<Route, Fault> {
    let reads = is_read(method);
    if let Some(page) = AdminPage::at(path) {
        return match reads {
            true => Ok(Route::Visibility(page)),
            false if *method == Method::OPTIONS => Ok(Route::Options),
            false => Err(Fault::MethodNotAllowed(READ_METHODS)),
        };
    }
    if let Some(route) = dispatch::at(method, path).or_else(|| drain::at(method, path)) {
        return Ok(if *method == Method::OPTIONS { Route::Options } else { route });
    }
    let api = match path {
        ROOT | WHOLE_SERVER if *method == Method::OPTIONS => return Ok(Route::Options),
        ROOT => return Ok(Route::Root),
        _ if path.starts_with("/v1/") || ENGINE_PATHS.contains(&path) => Api::OpenAi,
        _ if path.starts_with("/api/") => Api::Ollama,
        _ if path.starts_with(azure::PREFIX) => return classify_azure(method, path),
        _ => return Ok(Route::NotFound),
    };
    check(path)?;
    let (api, kind) = match work(method, path) {
        (_, RequestKind::Other) => (api, RequestKind::Other),
        known => known,
    };
    Ok(match path {
        _ if *method == Method::OPTIONS => Route::Options,
        "/v1/models" if reads => Route::Models,
        "/api/tags" if reads => Route::Tags,
        "/api/version" if reads => Route::Version,
        _ if reads && path.len() > CARDS.len() && path.starts_with(CARDS) => Route::ModelCard,
        _ if kind == RequestKind::Other && api == Api::OpenAi => {
            batch::at(method, path).unwrap_or(Route::Proxied { api, kind })
        }
        _ => Route::Proxied { api, kind },
    })
}

/// The destination of a path of Azure OpenAI. The Batch API is offered under OpenAI's paths alone.
fn classify_azure(method: &Method, path: &str) -> Result<Route, Fault> {
    let Some(path) = azure::path(path)? else { return Ok(Route::NotFound) };
    Ok(match classify(method, &path)? {
        route @ (Route::Proxied { .. } | Route::Models | Route::Options) => route,
        _ => Route::NotFound,
    })
}

/// Whether a method only reads. Reads go to a backend without the queue.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a path is one of the API, not of a page.
pub(crate) fn is_api(path: &str) -> bool {
    let is_call = dispatch::at(&Method::GET, path).or_else(|| drain::at(&Method::GET, path));
    path != ROOT && AdminPage::at(path).is_none() && is_call.is_none()
}

/// The path and query at a backend, where they are not those of the request.
pub(crate) fn upstream(path: &str) -> Option<String> {
    let azure = path.starts_with(azure::PREFIX);
    azure.then(|| azure::path(path).ok().flatten()).flatten().map(Cow::into_owned)
}

/// The model that a path names: the deployment of Azure OpenAI.
pub(crate) fn deployment(path: &str) -> Option<String> {
    path.starts_with(azure::PREFIX).then(|| azure::deployment(path)).flatten()
}

/// Whether a path is an OpenAI path that accepts work, without unusual characters.
pub(crate) fn is_work(path: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"/-_.".contains(&letter);
    let route = classify(&Method::POST, path);
    let is_proxied = matches!(route, Ok(Route::Proxied { api: Api::OpenAi, .. }));
    is_proxied && path.bytes().all(plain) && !changes_models(&Method::POST, path)
}

/// The model name in the path of a model card.
pub(crate) fn card_id(path: &str) -> Option<Cow<'_, str>> {
    decoded_text(path.strip_prefix(CARDS)?)
}

/// The id in the path of a request.
pub(crate) fn request_id(path: &str) -> Option<Cow<'_, str>> {
    decoded_text(path.strip_prefix(REQUESTS)?)
}

// === impl RequestKind ===

impl RequestKind {
    /// Whether its body must be a JSON object that names a model.
    pub(crate) const fn needs_model(self) -> bool {
        !matches!(self, Self::Other)
    }

    /// Whether the response is generated text of unknown length.
    pub(crate) const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Completion | Self::Response)
    }
}

impl Route {
    /// Whether it leads to a status page, or to a change there, that not every client may use.
    pub(crate) fn needs_right(&self) -> bool {
        match self {
            Self::Visibility(AdminPage::Usage) | Self::Dispatch(_) | Self::Drain(_) => true,
            Self::Visibility(page) => page.says_much(),
            _ => false,
        }
    }
}

// === impl AdminPage ===

impl AdminPage {
    /// Whether the page says more than that the gateway runs. The files of the live page say
    /// nothing; what it shows comes from other pages.
    pub(crate) fn says_much(self) -> bool {
        !matches!(self, Self::Health | Self::Ready | Self::Version | Self::Dashboard(_))
    }

    /// The page at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/backends" => Self::Backends,
            "/flows" => Self::Flows,
            "/workloads" => Self::Workloads,
            // The second names are those that probes of Kubernetes usually have.
            "/health" | "/healthz" => Self::Health,
            "/ready" | "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/status" => Self::Status,
            "/status/stream" => Self::StatusStream,
            "/status/history" => Self::StatusHistory,
            "/dashboard" => Self::Dashboard(DashboardFile::Page),
            "/dashboard/style.css" => Self::Dashboard(DashboardFile::Style),
            "/dashboard/app.js" => Self::Dashboard(DashboardFile::App),
            "/dashboard/charts.js" => Self::Dashboard(DashboardFile::Charts),
            "/dashboard/tables.js" => Self::Dashboard(DashboardFile::Tables),
            "/requests" | REQUESTS => Self::Requests,
            _ if path.len() > REQUESTS.len() && path.starts_with(REQUESTS) => Self::Request,
            "/version" => Self::Version,
            "/usage" => Self::Usage,
            _ => return None,
        })
    }
}
