//! The paths of the Batch API.

use http::Method;

use super::Route;

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
    /// The path does not accept this method.
    OtherMethod,
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
        return Some(Route::Batch(chosen(method, &calls)));
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
        ),
        (true, Some("content")) => chosen(method, &[(Method::GET, BatchCall::Content)]),
        (false, None) => chosen(method, &[(Method::GET, BatchCall::Batch)]),
        (false, Some("cancel")) => chosen(method, &[(Method::POST, BatchCall::Cancel)]),
        _ => return Some(Route::NotFound),
    }))
}

/// The id of the file or batch in a path.
pub(crate) fn object_id(path: &str) -> &str {
    path.split('/').nth(3).unwrap_or_default()
}

fn chosen(method: &Method, calls: &[(Method, BatchCall)]) -> BatchCall {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let call = calls.iter().find(|(takes, _)| takes == method);
    call.map_or(BatchCall::OtherMethod, |(_, call)| *call)
}
