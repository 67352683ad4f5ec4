//! The paths that stop new requests to a backend, and allow them again.

use std::borrow::Cow;

use http::Method;

use super::{POST_METHODS, Route, decoded_text};

const BACKENDS: &str = "/backends/";
const DRAIN: &str = "/drain";
const UNDRAIN: &str = "/undrain";

/// A call about one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainCall {
    Drain,
    Undrain,
    /// The path does not accept this method, but these.
    OtherMethod(&'static str),
}

/// The route of such a path; `None` for any other path.
pub(super) fn at(method: &Method, path: &str) -> Option<Route> {
    let (call, _) = parse(path)?;
    let is_post = *method == Method::POST;
    Some(Route::Drain(if is_post { call } else { DrainCall::OtherMethod(POST_METHODS) }))
}

/// The id of the backend in such a path.
pub(crate) fn backend_id(path: &str) -> Option<Cow<'_, str>> {
    decoded_text(parse(path)?.1)
}

fn parse(path: &str) -> Option<(DrainCall, &str)> {
    let rest = path.strip_prefix(BACKENDS)?;
    let drain = rest.strip_suffix(DRAIN).map(|id| (DrainCall::Drain, id));
    let undrain = || rest.strip_suffix(UNDRAIN).map(|id| (DrainCall::Undrain, id));
    drain.or_else(undrain).filter(|(_, id)| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o05_a_backend_is_drained_with_post() {
        let rows = [
            ("/backends/a/drain", Method::POST, DrainCall::Drain),
            ("/backends/a/undrain", Method::POST, DrainCall::Undrain),
            ("/backends/a/drain", Method::GET, DrainCall::OtherMethod("OPTIONS, POST")),
        ];
        for (path, method, call) in rows {
            assert_eq!(at(&method, path), Some(Route::Drain(call)), "{method} {path}");
        }
        for path in ["/backends", "/backends/", "/backends/drain", "/backends//drain", "/x/drain"] {
            assert_eq!(at(&Method::POST, path), None, "{path}");
        }
        let id = "/backends/10.0.0.1%3A8000%2Fv1/drain";
        assert_eq!(backend_id(id).as_deref(), Some("10.0.0.1:8000/v1"));
    }
}
