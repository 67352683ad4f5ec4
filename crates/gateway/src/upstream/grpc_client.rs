//! Calls of gRPC that have one message and one response, on one HTTP/2 connection that stays open.
//!
//! A call is a POST whose body is a length and the message; its outcome is in the trailers. That is
//! little enough to need no gRPC library.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Mutex;

use super::client::{BaseUrl, BoxError, ClientError, connect_http2};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
const AGENT: HeaderValue = HeaderValue::from_static("tidegate");
/// Before each message stand one byte for compression and four for the length.
const PREFIX: usize = 5;
/// How much longer than the server this client waits.
const GRACE: Duration = Duration::from_secs(5);

/// A server and the connection to it.
#[derive(Debug)]
pub(crate) struct GrpcClient {
    base: BaseUrl,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
    /// Whether a call on the connection had no end, so that the next one needs another.
    is_suspect: AtomicBool,
}

/// Makes the connection suspect if it is dropped before the end of its call.
struct CallGuard<'a>(Option<&'a AtomicBool>);

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct GrpcCall {
    /// The path of the method: `/package.Service/Method`.
    pub(crate) method: &'static str,
    /// The encoded message.
    pub(crate) message: Bytes,
    /// The credentials of the caller.
    pub(crate) authorization: Option<HeaderValue>,
    /// How long the server may take.
    pub(crate) limit: Duration,
    /// The longest response, in bytes.
    pub(crate) most: usize,
}

/// The outcome of a call, as the trailers say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcStatus {
    pub(crate) code: u32,
    pub(crate) text: String,
    /// An encoded `google.rpc.Status`, in base64.
    pub(crate) details: String,
}

/// Why a call has no response.
#[derive(Debug)]
pub(crate) enum GrpcError {
    /// There was no exchange: the server cannot be reached, or the connection broke.
    Client(ClientError),
    /// The server answered with a status of HTTP that is no success.
    Http(StatusCode),
    /// The call failed.
    Failed(GrpcStatus),
    /// The response has no status of gRPC.
    NoStatus,
    /// The response is no message.
    Garbled,
}

// === impl GrpcClient ===

impl GrpcClient {
    pub(crate) fn new(base: BaseUrl) -> Self {
        let (connection, is_suspect) = (Mutex::default(), AtomicBool::new(false));
        Self { base: base.with_http2(), connection, is_suspect }
    }

    /// Calls a method; returns the encoded response.
    pub(crate) async fn call(&self, call: GrpcCall) -> Result<Bytes, GrpcError> {
        let limit = call.limit;
        let timed_out = |_| Err(GrpcError::Client(ClientError::TimedOut(limit)));
        // The server says itself that the time is over, if it can.
        let exchange = tokio::time::timeout(limit + GRACE, self.exchange(call));
        exchange.await.unwrap_or_else(timed_out)
    }

    async fn exchange(&self, call: GrpcCall) -> Result<Bytes, GrpcError> {
        let most = call.most;
        let request = self.request(call).map_err(|error| GrpcError::Client(error.into()))?;
        let mut connection = self.connection().await?;
        let mut guard = CallGuard(Some(&self.is_suspect));
        let sent = connection.send_request(request).await;
        let (head, body) = sent.map_err(GrpcError::lost)?.into_parts();
        let body = Limited::new(body, most).collect().await.map_err(GrpcError::lost)?;
        guard.0 = None;
        if !head.status.is_success() {
            return Err(GrpcError::Http(head.status));
        }
        // A call that fails at once has its outcome in the head.
        match GrpcStatus::read(body.trailers().unwrap_or(&head.headers)) {
            Some(status) if status.code == 0 => unframed(body.to_bytes()),
            Some(status) => Err(GrpcError::Failed(status)),
            None => Err(GrpcError::NoStatus),
        }
    }

    /// The open connection, or a new one. Many calls share it.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, GrpcError> {
        let mut kept = self.connection.lock().await;
        if self.is_suspect.swap(false, Ordering::Relaxed) {
            *kept = None;
        }
        if let Some(open) = kept.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let open = connect_http2(&self.base).await.map_err(GrpcError::Client)?;
        Ok(kept.insert(open).clone())
    }

    fn request(&self, call: GrpcCall) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.base.address_of(call.method))
            .header(CONTENT_TYPE, GRPC)
            .header(TE, TRAILERS)
            .header(USER_AGENT, AGENT)
            .header("grpc-timeout", format!("{}m", call.limit.as_millis()));
        if let Some(authorization) = call.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(Full::new(framed(&call.message)))
    }
}

/// A message as gRPC carries it: not compressed, with its length.
fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + PREFIX);
    framed.put_u8(0);
    // No message comes near 4 GiB.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The message in a body.
fn unframed(mut body: Bytes) -> Result<Bytes, GrpcError> {
    match body.first_chunk::<PREFIX>() {
        Some([0, length @ ..]) if u32::from_be_bytes(*length) as usize == body.len() - PREFIX => {
            body.advance(PREFIX);
            Ok(body)
        }
        _ => Err(GrpcError::Garbled),
    }
}

// === impl CallGuard ===

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some(is_suspect) = self.0 {
            is_suspect.store(true, Ordering::Relaxed);
        }
    }
}

// === impl GrpcStatus ===

impl GrpcStatus {
    /// The outcome in the trailers, or in the head of a response without a body.
    pub(crate) fn read(trailers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
        Some(Self {
            code: text("grpc-status")?.parse().ok()?,
            text: text("grpc-message").unwrap_or_default().to_owned(),
            details: text("grpc-status-details-bin").unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("it answered with the gRPC status {} {}", self.code, self.text);
        f.write_str(text.trim_end())
    }
}

// === impl GrpcError ===

impl GrpcError {
    fn lost(error: impl Into<BoxError>) -> Self {
        Self::Client(ClientError::Lost(error.into()))
    }
}

impl fmt::Display for GrpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Http(status) => write!(f, "it answered {status}"),
            Self::Failed(status) => status.fmt(f),
            Self::NoStatus => f.write_str("it answered without a gRPC status: is it HTTP?"),
            Self::Garbled => f.write_str("its response is not a message of gRPC"),
        }
    }
}

impl std::error::Error for GrpcError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => std::error::Error::source(error),
            Self::Http(_) | Self::Failed(_) | Self::NoStatus | Self::Garbled => None,
        }
    }
}
