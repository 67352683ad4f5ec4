//! The error response of a refused request.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use super::{Fault, Refused, content, retry_after};

#[derive(Serialize)]
struct Envelope<'a> {
    error: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    message: &'a str,
    r#type: &'a str,
    code: &'a str,
    param: Option<&'a str>,
}

/// The response to a refused request.
pub(crate) fn response(refused: &Refused) -> Response<Full<Bytes>> {
    let fault = &refused.fault;
    let status = fault.status();
    let mut response = content(status, "application/json", body(refused));
    let headers = response.headers_mut();
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        headers.insert(RETRY_AFTER, retry_after::value(refused.retry_after));
    }
    if matches!(fault, Fault::MethodNotAllowed) {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    }
    if fault.closes() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The JSON of a refusal, on one line: it also stands in the `event: error` of a stream.
pub(crate) fn body(refused: &Refused) -> Bytes {
    let fault = &refused.fault;
    let message = fault.message();
    let error = Details {
        message: &message,
        r#type: fault.family(),
        code: fault.code(),
        param: fault.param(),
    };
    // Strings always serialise; an empty body still has its status.
    serde_json::to_vec(&Envelope { error }).unwrap_or_default().into()
}
