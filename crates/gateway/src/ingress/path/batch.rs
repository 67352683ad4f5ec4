//! The paths of the Batch API.

use http::Method;

use super::{POST_METHODS, Route};
use crate::reply::error::READ_METHODS;

const FILES: &str = "/v1/files";
const BATCHES: &str = "/v1/batches";

/// A call of the Batch API; [`object_id`] gives its file or batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchCall {
    Upload,
    Files,
    File,
    DeleteFile,
    Content,
    Create,
    Batches,
    Batch,
    Cancel,
    /// The path does not accept this method, but these.
    OtherMethod(&'static str),
}

/// The route of a path of the Batch API; `None` for any other path.
pub(super) fn at(method: &Method, path: &str) -> Option<Route> {
    let (files, rest) = match path.strip_prefix(FILES) {
        Some(rest) => (true, rest),
        None => (false, path.strip_prefix(BATCHES)?),
    };
    if rest.is_empty() {
        let calls = if files {
            [(Method::GET, BatchCall::Files), (Method::POST, BatchCall::Upload)]
        } else {
            [(Method::GET, BatchCall::Batches), (Method::POST, BatchCall::Create)]
        };
        return Some(Route::Batch(chosen(method, &calls, "GET, HEAD, OPTIONS, POST")));
    }
    let (id, verb) = rest
        .strip_prefix('/')?
        .split_once('/')
        .map_or_else(|| (rest.trim_start_matches('/'), None), |(id, verb)| (id, Some(verb)));
    if id.is_empty() {
        return Some(Route::NotFound);
    }
    Some(Route::Batch(match (files, verb) {
        (true, None) => chosen(
            method,
            &[(Method::GET, BatchCall::File), (Method::DELETE, BatchCall::DeleteFile)],
            "DELETE, GET, HEAD, OPTIONS",
        ),
        (true, Some("content")) => {
            chosen(method, &[(Method::GET, BatchCall::Content)], READ_METHODS)
        }
        (false, None) => chosen(method, &[(Method::GET, BatchCall::Batch)], READ_METHODS),
        (false, Some("cancel")) => {
            chosen(method, &[(Method::POST, BatchCall::Cancel)], POST_METHODS)
        }
        _ => return Some(Route::NotFound),
    }))
}

/// The id of the file or batch in a path.
pub(crate) fn object_id(path: &str) -> &str {
    path.split('/').nth(3).unwrap_or_default()
}

/// The call of a method, of those that a path takes.
fn chosen(method: &Method, calls: &[(Method, BatchCall)], methods: &'static str) -> BatchCall {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let call = calls.iter().find(|(takes, _)| takes == method);
    call.map_or(BatchCall::OtherMethod(methods), |(_, call)| *call)
}
