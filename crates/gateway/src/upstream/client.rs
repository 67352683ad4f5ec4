//! A plain HTTP client, for everything that is not proxied: batch work on its way to a gateway,
//! pages of metrics, queries, the command line.
//!
//! A connection carries one exchange at a time and is kept for the next. Responses are read whole,
//! up to a limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::connect::{self, ConnectError, Connection, ServerAddress};
use crate::task;
use crate::tls::{self, Protocol, ServerCertificates, TlsClient};

/// Idle connections that are kept for one server.
const RESTING_MAX: usize = 256;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The limits of a blocking call.
const ASKED_LIMIT: Duration = Duration::from_secs(30);
const ASKED_MAX: usize = 64 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue = HeaderValue::from_static("tidegate");

/// Idle connections, by server.
#[derive(Debug, Default)]
pub struct Client {
    resting: Mutex<BTreeMap<String, Vec<SendRequest<Full<Bytes>>>>>,
}

/// A server and a base path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// Host and port to connect to.
    pub place: String,
    host: HeaderValue,
    path: String,
    /// How TLS is spoken to it, if it is.
    tls: Option<TlsClient>,
}

/// Why a text is not a [`BaseUrl`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrlError {
    url: String,
    problem: &'static str,
}

/// A response.
#[derive(Clone, Debug)]
pub struct ClientResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no response.
#[derive(Debug)]
pub enum ClientError {
    /// The server cannot be reached; nothing was sent.
    Unreached {
        /// Host and port.
        place: String,
        /// The error of the system or of the handshake.
        source: BoxError,
    },
    /// The response is longer than allowed.
    TooLong,
    /// The connection broke; the request may have been taken.
    Lost(BoxError),
    /// There was no response within this time; the request may have been taken.
    TimedOut(Duration),
    /// The request is not valid.
    Unwritable(http::Error),
}

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// TLS with the root certificates of the system, or the problem of the host.
fn tls_client(host: &str) -> Result<TlsClient, &'static str> {
    let name = tls::parse_name(host).ok_or("no certificate can be for its host")?;
    Ok(TlsClient::new(name, None, Protocol::Http1))
}

// === impl BaseUrl ===

impl BaseUrl {
    /// Reads `http://host:port/path` or `https://host:port/path`. TLS trusts the root certificates
    /// of the system, or those that the variable `SSL_CERT_FILE` names.
    pub fn parse(url: &str) -> Result<Self, BaseUrlError> {
        let wrong = |problem| BaseUrlError { url: url.to_owned(), problem };
        let uri: Uri = url.parse().map_err(|_| wrong("write it as http://host:port"))?;
        let (port, is_tls) = match uri.scheme_str() {
            Some("http") => (80, false),
            Some("https") => (443, true),
            _ => return Err(wrong("it must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("the host is missing"))?;
        let place = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(port));
        let tls = is_tls.then(|| tls_client(authority.host()));
        let tls = tls.transpose().map_err(wrong)?;
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        let host = HeaderValue::from_str(host).map_err(|_| wrong("the host is strange"))?;
        if uri.query().is_some() {
            return Err(wrong("it must have no query"));
        }
        Ok(Self { place, host, path: uri.path().trim_end_matches('/').into(), tls })
    }

    /// The listener of this process at an address, with its certificates if it has TLS.
    pub(crate) fn own(
        address: SocketAddr,
        tls: Option<&Arc<ServerCertificates>>,
    ) -> Result<Self, BaseUrlError> {
        let plain = Self::parse(&format!("http://{address}"))?;
        Ok(Self { tls: tls.map(TlsClient::own), ..plain })
    }

    /// The same server, whose certificate must be of an issuer in this file, if one is given.
    pub(crate) fn trusting(self, ca_file: Option<PathBuf>) -> Self {
        match ca_file {
            Some(file) => Self { tls: self.tls.map(|tls| tls.trusting(file)), ..self },
            None => self,
        }
    }

    /// The same server, spoken to in HTTP/2.
    pub(crate) fn with_http2(self) -> Self {
        Self { tls: self.tls.map(|tls| tls.speaking(Protocol::Http2)), ..self }
    }

    /// The whole address of a path below this base, as HTTP/2 needs it.
    pub(crate) fn address_of(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin(), self.path)
    }

    /// The scheme, the host and the port.
    pub fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.place)
    }

    fn server(&self) -> ServerAddress<'_> {
        let (host, port) = self.place.rsplit_once(':').unwrap_or((&self.place, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // A port was checked when the URL was read.
        ServerAddress { place: (host, port.parse().unwrap_or_default()), tls: self.tls.as_ref() }
    }

    /// A request for a path below this base.
    pub fn request<B>(&self, request: Request<B>) -> Result<Request<B>, http::Error> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.path, parts.uri).parse()?;
        parts.headers.insert(HOST, self.host.clone());
        parts.headers.entry(USER_AGENT).or_insert(AGENT);
        Ok(Request::from_parts(parts, body))
    }
}

// === impl BaseUrlError ===

impl std::fmt::Display for BaseUrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not a server's address: {}", self.url, self.problem)
    }
}

impl std::error::Error for BaseUrlError {}

// === impl Client ===

impl Client {
    /// Sends a request and reads its response, at most `most` bytes. If the future is dropped, the
    /// connection closes, so that the server notices.
    pub async fn send(
        &self,
        base: &BaseUrl,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<ClientResponse, ClientError> {
        let request = base.request(request)?;
        let mut sender = self.connection(base).await?;
        let response = sender.send_request(request).await?;
        let answer = read(response, most).await?;
        self.rest(base, sender);
        Ok(answer)
    }

    async fn connection(&self, base: &BaseUrl) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        while let Some(mut sender) = self.take(base) {
            // A connection that the server has closed meanwhile fails here.
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let opened = connect(base).await;
        if opened.as_ref().is_err_and(ClientError::is_without_file) {
            // The next attempt may find one.
            self.resting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        opened
    }

    fn take(&self, base: &BaseUrl) -> Option<SendRequest<Full<Bytes>>> {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.get_mut(&base.origin())?.pop()
    }

    fn rest(&self, base: &BaseUrl, sender: SendRequest<Full<Bytes>>) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let row = resting.entry(base.origin()).or_default();
        row.retain(|sender| !sender.is_closed());
        if row.len() < RESTING_MAX && !sender.is_closed() {
            row.push(sender);
        }
    }
}

/// A connection of its own, for any body.
pub async fn connect<B>(base: &BaseUrl) -> Result<SendRequest<B>, ClientError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let connection: Connection = connect::connect(base.server(), CONNECT_LIMIT)
        .await
        .map_err(|error| unreached(base, error))?;
    let io = TokioIo::new(connection);
    let (sender, connection) = handshake(io).await.map_err(|error| unreached(base, error))?;
    // It ends with its sender.
    task::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// A connection of HTTP/2 of its own, for any body.
pub(crate) async fn connect_http2<B>(base: &BaseUrl) -> Result<http2::SendRequest<B>, ClientError>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let connection: Connection = connect::connect(base.server(), CONNECT_LIMIT)
        .await
        .map_err(|error| unreached(base, error))?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(connection));
    let (sender, connection) = handshake.await.map_err(|error| unreached(base, error))?;
    // It ends with its sender.
    task::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn unreached(base: &BaseUrl, source: impl Into<BoxError>) -> ClientError {
    ClientError::Unreached { place: base.place.clone(), source: source.into() }
}

/// Reads a response whole.
pub async fn read(
    response: http::Response<Incoming>,
    most: usize,
) -> Result<ClientResponse, ClientError> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, most).collect().await.map_err(|error| match error
        .is::<LengthLimitError>()
    {
        true => ClientError::TooLong,
        false => ClientError::Lost(error),
    })?;
    Ok(ClientResponse { status: parts.status, headers: parts.headers, body: body.to_bytes() })
}

/// One call from a program that is not asynchronous, bounded in time and size.
pub fn ask(
    base: &BaseUrl,
    (method, path): (&str, &str),
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<ClientResponse, ClientError> {
    let request = Request::builder().method(method).uri(path);
    let mut request = request.body(Full::new(body.into()))?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(CONTENT_TYPE, JSON);
    task::runtime().map_err(|error| unreached(base, error))?.block_on(async {
        let client = Client::default();
        let asked = client.send(base, request, ASKED_MAX);
        let timed_out = |_| Err(ClientError::TimedOut(ASKED_LIMIT));
        tokio::time::timeout(ASKED_LIMIT, asked).await.unwrap_or_else(timed_out)
    })
}

/// Percent-encodes a text for a query.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

// === impl ClientError ===

impl ClientError {
    /// Whether the process may open no further file.
    fn is_without_file(&self) -> bool {
        let Self::Unreached { source, .. } = self else { return false };
        source.downcast_ref::<ConnectError>().is_some_and(ConnectError::is_without_file)
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        Self::Lost(error.into())
    }
}

impl From<http::Error> for ClientError {
    fn from(error: http::Error) -> Self {
        Self::Unwritable(error)
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreached { place, source } => write!(f, "cannot connect to {place}: {source}"),
            Self::TooLong => f.write_str("the response is too long"),
            Self::Lost(error) => write!(f, "the connection broke: {error}"),
            Self::TimedOut(limit) => write!(f, "no response in {limit:?}"),
            Self::Unwritable(error) => write!(f, "the request cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text has that of the first cause already.
            Self::Unreached { source, .. } | Self::Lost(source) => source.source(),
            Self::Unwritable(error) => error.source(),
            Self::TooLong | Self::TimedOut(_) => None,
        }
    }
}
