//! OTLP over gRPC: one call for each batch of traces, on one HTTP/2 connection that stays open.
//!
//! A call is a POST whose body is a length and the message; its outcome is in the trailers. That is
//! little enough to need no gRPC library.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2::SendRequest;

use super::{ExportError, RESPONSE_MAX};
use crate::upstream::client::{BaseUrl, connect_http2};

const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
const AGENT: HeaderValue = HeaderValue::from_static("tidegate");
/// The codes after which the protocol asks clients to try again: cancelled, deadline exceeded,
/// aborted, out of range, unavailable, data loss.
const TRANSIENT: [&str; 6] = ["1", "4", "10", "11", "14", "15"];
/// Resource exhausted. A receiver that recovers says when, in the details of the status.
const EXHAUSTED: &str = "8";
const RETRY_INFO: &[u8] = b"google.rpc.RetryInfo";

/// See the module's description.
pub(super) struct GrpcSender {
    base: BaseUrl,
    connection: Option<SendRequest<Full<Bytes>>>,
}

// === impl GrpcSender ===

impl GrpcSender {
    pub(super) fn new(base: BaseUrl) -> Self {
        Self { base: base.with_http2(), connection: None }
    }

    /// Sends one message.
    pub(super) async fn send(&mut self, message: Bytes) -> Result<(), ExportError> {
        let request = self.request(&message)?;
        let mut connection = match self.connection.take().filter(|open| !open.is_closed()) {
            Some(open) => open,
            None => connect_http2(&self.base).await.map_err(ExportError::transient)?,
        };
        let sent = connection.send_request(request).await;
        let (head, body) = sent.map_err(ExportError::transient)?.into_parts();
        let read = Limited::new(body, RESPONSE_MAX).collect().await;
        let body = read.map_err(ExportError::transient)?;
        if !head.status.is_success() {
            return Err(ExportError::by_status(head.status));
        }
        self.connection = Some(connection);
        // A call that fails at once has its outcome in the head.
        outcome(body.trailers().unwrap_or(&head.headers))
    }

    fn request(&self, message: &Bytes) -> Result<Request<Full<Bytes>>, ExportError> {
        Request::builder()
            .method(Method::POST)
            .uri(self.base.address_of(METHOD))
            .header(CONTENT_TYPE, GRPC)
            .header(TE, TRAILERS)
            .header(USER_AGENT, AGENT)
            .body(Full::new(frame(message)))
            .map_err(ExportError::lasting)
    }
}

/// A message as gRPC carries it: not compressed, with its length.
fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    // A batch is far smaller than 4 GiB.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The outcome of a call from its trailers.
fn outcome(trailers: &HeaderMap) -> Result<(), ExportError> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        Some(code) => {
            let said = text("grpc-message").unwrap_or_default();
            let why = format!("it answered with the gRPC status {code} {said}");
            let recovers = || text("grpc-status-details-bin").is_some_and(has_retry_info);
            let transient = TRANSIENT.contains(&code) || (code == EXHAUSTED && recovers());
            Err(ExportError { text: why.trim_end().to_owned(), transient })
        }
        None => Err(ExportError::lasting("it answered without a gRPC status: is it HTTP?")),
    }
}

/// Whether the details of a status, in base64, say when to try again.
fn has_retry_info(details: &str) -> bool {
    let mut bits = 0_u32;
    let mut bytes = Vec::with_capacity(details.len() / 4 * 3 + 3);
    for (at, letter) in details.bytes().filter(|letter| *letter != b'=').enumerate() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(value);
        // Each letter but the first of four completes a byte.
        let unused = [None, Some(4), Some(2), Some(0)][at % 4];
        bytes.extend(unused.map(|unused: u32| (bits >> unused) as u8));
    }
    bytes.windows(RETRY_INFO.len()).any(|window| window == RETRY_INFO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m02_only_the_codes_that_the_protocol_names_are_sent_again() {
        let trailers = |code: &'static str, details: Option<&'static str>| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            if let Some(details) = details {
                let details = HeaderValue::from_static(details);
                trailers.insert("grpc-status-details-bin", details);
            }
            trailers
        };
        let is_transient = |code, details| outcome(&trailers(code, details)).unwrap_err().transient;
        let codes = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"];
        let again = codes.iter().filter(|code| is_transient(code, None)).copied();
        assert_eq!(again.collect::<Vec<_>>(), ["1", "4", "10", "11", "14"]);
        assert!(is_transient("15", None) && !is_transient("16", None));
        // A google.rpc.Status with a RetryInfo of one second, and one with another detail.
        let waits = "CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";
        let other = "CAgaLQopdHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLkJhZFJlcXVlc3QSAA==";
        assert!(is_transient("8", Some(waits)));
        assert!(!is_transient("8", Some(other)) && !is_transient("8", Some("!")));
        assert!(!is_transient("3", Some(waits)), "its code says that it is never taken");
    }
}
