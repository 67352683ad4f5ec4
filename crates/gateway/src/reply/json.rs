//! Responses that the gateway writes itself, in JSON or any other media type.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use super::{Fault, error};

const JSON: &str = "application/json";

/// A response with a value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(body) => content(status, JSON, body.into()),
        Err(error) => {
            tracing::error!(%error, "a response could not be written as JSON");
            error::response(&Fault::Internal.into())
        }
    }
}

/// A response of a media type.
pub(crate) fn content(
    status: StatusCode,
    media_type: &'static str,
    body: Bytes,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    forbid_sniffing(response.headers_mut());
    response
}

/// Says that the content is what its type says: a browser must not take JSON or text with words of
/// a client for a page or a script.
pub(crate) fn forbid_sniffing(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Marks a page that shows the present state: no cache may keep it.
pub(crate) fn uncached(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
