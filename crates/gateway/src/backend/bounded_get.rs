//! A GET request to a backend on a connection of its own, limited in time and size.
//!
//! Probes do not use the pool of the data path: their result must not depend on a pool, and a probe
//! that hangs must not hold a connection that requests need. A redirect is a response like any
//! other.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::endpoint::Endpoint;
use super::health_state::NO_ADDRESS;
use crate::tls::TlsError;
use crate::upstream::client::BoxError;
use crate::upstream::{ConnectError, connect};

const AGENT: HeaderValue = HeaderValue::from_static("tidegate");

/// The limits of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct GetLimits {
    /// From the first packet to the last byte.
    pub(super) time: Duration,
    pub(super) body: usize,
}

#[derive(Debug)]
pub(super) struct GetResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Why a probe has no response.
#[derive(Debug)]
pub(super) enum GetError {
    Refused,
    /// The name of the server has no address.
    NoAddress,
    TimedOut,
    TooLarge,
    /// The gateway may open no further file.
    NoFile,
    /// TLS is not possible with this server as it is configured.
    Tls(TlsError),
    /// The response is not HTTP. Without TLS that is how a server that speaks TLS responds.
    NotHttp(BoxError),
    /// Any other failure.
    Failed(BoxError),
}

/// Requests a path below the backend's base path.
pub(super) async fn get(
    endpoint: &Endpoint,
    path: &str,
    limits: GetLimits,
) -> Result<GetResponse, GetError> {
    let asked = ask(endpoint, path, limits);
    tokio::time::timeout(limits.time, asked).await.unwrap_or(Err(GetError::TimedOut))
}

async fn ask(endpoint: &Endpoint, path: &str, limits: GetLimits) -> Result<GetResponse, GetError> {
    let io = TokioIo::new(connect(endpoint.server(), limits.time).await?);
    let most = limits.body;
    let path = format!("{}{path}", endpoint.base_path);
    let request = request(endpoint, &path)?;
    if endpoint.http2 {
        let (mut sender, wire) = conn::http2::handshake(TokioExecutor::new(), io).await?;
        let asked = async { read(sender.send_request(request).await?, most).await };
        drive(asked, wire).await
    } else {
        let (mut sender, wire) = conn::http1::handshake(io).await?;
        let asked = async { read(sender.send_request(request).await?, most).await };
        let without_tls = |error| if endpoint.tls.is_none() { not_http(error) } else { error };
        drive(asked, wire).await.map_err(without_tls)
    }
}

/// An error of a connection without TLS: whether the response is HTTP at all.
fn not_http(error: GetError) -> GetError {
    let is_unreadable =
        |error: &BoxError| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
    match error {
        GetError::Failed(error) if is_unreadable(&error) => GetError::NotHttp(error),
        error => error,
    }
}

fn request(endpoint: &Endpoint, path: &str) -> Result<Request<Empty<Bytes>>, GetError> {
    let strange = |error: http::Error| GetError::Failed(error.into());
    let mut request = Request::get(path).header(USER_AGENT, AGENT);
    if let Some(credential) = &endpoint.credential {
        request = request.header(AUTHORIZATION, credential);
    }
    if endpoint.http2 {
        let uri = Uri::builder().scheme(endpoint.scheme()).authority(endpoint.authority.clone());
        let uri = uri.path_and_query(path).build().map_err(strange)?;
        return request.uri(uri).body(Empty::new()).map_err(strange);
    }
    let request = request.header(HOST, endpoint.host_header.clone()).header(CONNECTION, "close");
    request.body(Empty::new()).map_err(strange)
}

/// Drives the connection until the response is complete, and drops both together.
async fn drive<T>(
    asked: impl Future<Output = Result<T, GetError>>,
    wire: impl Future<Output = hyper::Result<()>>,
) -> Result<T, GetError> {
    let mut asked = std::pin::pin!(asked);
    tokio::select! {
        response = &mut asked => response,
        // The server has closed the connection; bytes that it sent before are still to be read.
        _ = wire => asked.await,
    }
}

async fn read(response: http::Response<Incoming>, most: usize) -> Result<GetResponse, GetError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), most).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { GetError::TooLarge } else { GetError::Failed(error) }
    })?;
    Ok(GetResponse { status, body: body.to_bytes() })
}

// === impl GetError ===

impl From<ConnectError> for GetError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::TimedOut(_) => Self::TimedOut,
            ConnectError::Tls(error) if error.is_lasting() => Self::Tls(error),
            error if error.is_refused() => Self::Refused,
            error if error.is_without_file() => Self::NoFile,
            error if error.is_unresolved() => Self::NoAddress,
            error => Self::Failed(error.into()),
        }
    }
}

impl From<hyper::Error> for GetError {
    fn from(error: hyper::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl std::error::Error for GetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tls(error) => error.source(),
            Self::NotHttp(error) | Self::Failed(error) => Some(error.as_ref()),
            Self::Refused | Self::NoAddress | Self::TimedOut | Self::TooLarge | Self::NoFile => {
                None
            }
        }
    }
}

impl std::fmt::Display for GetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused"),
            Self::NoAddress => f.write_str(NO_ADDRESS),
            Self::TimedOut => f.write_str("no response in time"),
            Self::TooLarge => f.write_str("the response is too large"),
            Self::NoFile => ConnectError::NoFile.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::NotHttp(error) => {
                write!(f, "{error}: if it speaks TLS, write its URL with https://")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}
