//! Where a request goes, by its path.
//!
//! Only `/v1/` and `/api/` are passed on, and only as they are: a path that a careless server could
//! read as another one is refused, so that nobody reaches what is not offered.

mod batch;
mod dispatch;

use std::borrow::Cow;

use http::Method;

pub(crate) use self::batch::{BatchCall, object_id};
pub(crate) use self::dispatch::{DeadLetterQuery, DispatchCall};
use crate::reply::Fault;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To a backend.
    Proxied {
        api: Api,
        kind: RequestKind,
    },
    /// The models of all backends, in the words of OpenAI and of Ollama.
    Models,
    Tags,
    /// Ollama's version.
    Version,
    /// One model: [`card_id`] says which.
    ModelCard,
    /// To the Batch API.
    Batch(BatchCall),
    /// To the dispatcher's pages.
    Dispatch(DispatchCall),
    Visibility(AdminPage),
    NotFound,
}

/// Whose words a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Ollama,
}

/// What kind of work a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Chat,
    Completion,
    Response,
    Embedding,
    /// Anything else: passed on, with a model if one can be seen.
    Other,
}

/// What the gateway shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminPage {
    Backends,
    Flows,
    Workloads,
    Health,
    Ready,
    Metrics,
}

const CARDS: &str = "/v1/models/";

/// Where a request goes; a path that could be read in two ways is a fault.
pub(crate) fn classify(method: &Method, path: &str) -> Result<Route, Fault> {
    // The one would make a tunnel of the connection, the other tells a client its own secrets.
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(Fault::MethodNotAllowed);
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if let Some(page) = AdminPage::at(path) {
        return if reads { Ok(Route::Visibility(page)) } else { Err(Fault::MethodNotAllowed) };
    }
    if let Some(route) = dispatch::at(method, path) {
        return Ok(route);
    }
    let api = match path {
        _ if path.starts_with("/v1/") => Api::OpenAi,
        _ if path.starts_with("/api/") => Api::Ollama,
        _ => return Ok(Route::NotFound),
    };
    let kind = kind(method, path);
    // A path of a known kind is one that is written down here.
    if kind == RequestKind::Other && !is_plain(path) {
        let text = "The path has empty or dot segments: send it without them.";
        return Err(Fault::InvalidRequest(text.into()));
    }
    Ok(match path {
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

/// Whether a path is one of OpenAI's API to which work is posted, written plainly.
pub(crate) fn is_work(path: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"/-_.".contains(&letter);
    let route = classify(&Method::POST, path);
    matches!(route, Ok(Route::Proxied { api: Api::OpenAi, .. })) && path.bytes().all(plain)
}

/// The model that a card is asked of.
pub(crate) fn card_id(path: &str) -> Option<Cow<'_, str>> {
    let id = path.strip_prefix(CARDS)?;
    if !id.contains('%') {
        return Some(Cow::Borrowed(id));
    }
    String::from_utf8(decoded(id, |_| true)).ok().map(Cow::Owned)
}

/// Work is posted; whatever else comes to the same path (a list, a cancellation) is not.
fn kind(method: &Method, path: &str) -> RequestKind {
    if *method != Method::POST {
        return RequestKind::Other;
    }
    match path {
        "/v1/chat/completions" | "/api/chat" => RequestKind::Chat,
        "/v1/completions" | "/api/generate" => RequestKind::Completion,
        "/v1/responses" => RequestKind::Response,
        "/v1/embeddings" | "/api/embed" | "/api/embeddings" => RequestKind::Embedding,
        _ => RequestKind::Other,
    }
}

/// Whether every reading of the path is the same: no empty and no dot segments, also where a
/// server decodes first, takes a backslash for a slash, or cuts a segment at its parameters.
fn is_plain(path: &str) -> bool {
    let decoded = if path.contains('%') {
        Cow::Owned(decoded(path, |letter| matches!(letter, b'.' | b'/' | b'\\' | b';')))
    } else {
        Cow::Borrowed(path.as_bytes())
    };
    let mut segments = decoded.split(|letter| matches!(letter, b'/' | b'\\')).skip(1).peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(|&letter| letter == b';').next().unwrap_or_default();
        let empty = segment.is_empty() && segments.peek().is_some();
        if empty || matches!(name, b"." | b"..") {
            return false;
        }
    }
    true
}

/// The text with those letters decoded that `wanted` picks.
fn decoded(text: &str, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&letter, after)) = rest.split_first() {
        let code = after.first_chunk::<2>().filter(|_| letter == b'%');
        match code.and_then(hex).filter(|&letter| wanted(letter)) {
            Some(letter) => {
                plain.push(letter);
                rest = &after[2..];
            }
            None => {
                plain.push(letter);
                rest = after;
            }
        }
    }
    plain
}

fn hex(code: &[u8; 2]) -> Option<u8> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    u8::try_from(digit(code[0])? * 16 + digit(code[1])?).ok()
}

// === impl RequestKind ===

impl RequestKind {
    /// Whether its body must be a JSON object that names a model.
    pub(crate) const fn needs_model(self) -> bool {
        !matches!(self, Self::Other)
    }

    /// Whether its answer is text of a length that nobody knows.
    pub(crate) const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Completion | Self::Response)
    }
}

// === impl AdminPage ===

impl AdminPage {
    /// The page at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/backends" => Self::Backends,
            "/flows" => Self::Flows,
            "/workloads" => Self::Workloads,
            "/health" => Self::Health,
            "/ready" => Self::Ready,
            "/metrics" => Self::Metrics,
            _ => return None,
        })
    }
}
