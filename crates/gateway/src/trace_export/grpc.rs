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
/// resource exhausted, aborted, out of range, unavailable, data loss.
const TRANSIENT: [&str; 7] = ["1", "4", "8", "10", "11", "14", "15"];

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
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.base.address_of(METHOD))
            .header(CONTENT_TYPE, GRPC)
            .header(TE, TRAILERS)
            .header(USER_AGENT, AGENT)
            .body(Full::new(frame(&message)))
            .map_err(ExportError::lasting)?;
        let mut connection = match self.connection.take().filter(|open| !open.is_closed()) {
            Some(open) => open,
            None => connect_http2(&self.base).await.map_err(ExportError::transient)?,
        };
        let sent = connection.send_request(request).await;
        let (head, body) = sent.map_err(ExportError::transient)?.into_parts();
        let read = Limited::new(body, RESPONSE_MAX).collect().await;
        let body = read.map_err(ExportError::transient)?;
        if !head.status.is_success() {
            return Err(ExportError::transient(format!("it answered {}", head.status)));
        }
        self.connection = Some(connection);
        // A call that fails at once has its outcome in the head.
        outcome(body.trailers().unwrap_or(&head.headers))
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
            let transient = TRANSIENT.contains(&code);
            Err(ExportError { text: why.trim_end().to_owned(), transient })
        }
        None => Err(ExportError::lasting("it answered without a gRPC status: is it HTTP?")),
    }
}
