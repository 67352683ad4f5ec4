//! A backend as the data path sees it: its address, parsed from its URL.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::{error, fmt};

use flow::{BackendId, Span, Time};
use http::header::InvalidHeaderValue;
use http::uri::{Authority, InvalidUri, Scheme};
use http::{HeaderValue, StatusCode, Uri};

use super::passive_stats::{BegunRequest, PassiveStats};
use super::proofs::CallerHash;
use crate::config::settings::tenants::Secret;
use crate::config::settings::{BackendKind, BackendSpec};
use crate::tls::{self, Protocol, TlsClient};
use crate::upstream::ServerAddress;

/// The ports of URLs without a port.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// A backend as the data path sees it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: BackendId,
    /// The configured name, as text and as a header value.
    pub(crate) name: String,
    pub(crate) name_header: HeaderValue,
    pub(crate) kind: BackendKind,
    /// Host and port.
    pub(crate) authority: Authority,
    /// The prefix of every path, without a trailing slash.
    pub(crate) base_path: String,
    pub(crate) http2: bool,
    /// The `Authorization` header of every request to it, in place of the client's.
    pub(crate) credential: Option<HeaderValue>,
    /// How TLS is spoken to it, if its URL begins with `https`.
    pub(crate) tls: Option<TlsClient>,
    /// The `Host` header of every request to it.
    pub(crate) host_header: HeaderValue,
    /// The socket address, if it is known without a DNS lookup.
    pub(crate) socket: Option<SocketAddr>,
    /// Statistics that requests update.
    pub(super) stats: Arc<PassiveStats>,
    /// Whether the operator knows that it refuses the credential.
    pub(super) credential_refused: AtomicBool,
    /// The fields of the spans of requests to it, once one was traced.
    pub(crate) span_fields: OnceLock<Box<[u8]>>,
}

/// Counts a request at a backend until it is dropped.
#[derive(Debug)]
pub(crate) struct EndpointUse(Arc<Endpoint>);

/// Counts a request at a backend that waits for long and is watched, until it is dropped.
#[derive(Debug)]
pub(crate) struct WatchedWait<'a>(&'a Endpoint);

/// Why a backend cannot be used as configured.
#[derive(Debug)]
pub(crate) enum EndpointError {
    /// Its URL has no usable address.
    Url { backend: String, url: String, problem: UrlProblem },
    /// Its id is not a valid header value.
    Id { backend: String, source: InvalidHeaderValue },
    /// Its host is a name, but Envoy needs an IP address.
    HostName { backend: String, authority: Authority },
}

/// The error in a URL.
#[derive(Debug)]
pub(crate) enum UrlProblem {
    NotAUrl(InvalidUri),
    NotHttp,
    NoHost,
    InvalidHost(InvalidUri),
    InvalidHostHeader(InvalidHeaderValue),
    InvalidTlsName,
}

/// A key as a header, which no debug output shows.
fn bearer(Secret(key): &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

// === impl Endpoint ===

impl Endpoint {
    /// Counts a request that was granted this backend.
    pub(crate) fn begin_use(self: &Arc<Self>) -> EndpointUse {
        self.stats.request_began();
        EndpointUse(Arc::clone(self))
    }

    /// Counts a request that is taken back if the backend stays silent.
    pub(crate) fn begin_watch(&self) -> WatchedWait<'_> {
        self.stats.watch_began();
        WatchedWait(self)
    }

    /// Whether requests use it.
    pub(super) fn is_in_use(&self) -> bool {
        self.stats.requests() > 0
    }

    /// Records the time to the first byte of the response to a request.
    pub(crate) fn note(&self, request: BegunRequest, first_byte: Span, streamed: bool) {
        self.stats.note(request, first_byte, streamed);
    }

    /// Records when a response to a caller began.
    pub(crate) fn note_caller(&self, caller: CallerHash, at: Time) {
        self.stats.proofs.served(caller, at);
    }

    /// Tells the operator that it refuses the key of the gateway: once, until it accepts the key
    /// again. A client cannot mend that.
    pub(crate) fn note_credential(&self, status: StatusCode) {
        if self.credential.is_none() {
            return;
        }
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused && !self.credential_refused.swap(true, Ordering::Relaxed) {
            let backend = &self.name;
            tracing::warn!(
                backend,
                "the backend answered {status} to the key that the gateway \
                                     sends: check its api_key_env or api_key_file"
            );
        } else if status.is_success() {
            self.credential_refused.store(false, Ordering::Relaxed);
        }
    }

    /// Records that a part of a response has come.
    pub(crate) fn note_progress(&self) {
        self.stats.note_progress();
    }

    /// When it last began a response or sent a part of one, as far as is known.
    pub(crate) fn last_alive(&self, now: Time) -> Time {
        self.stats.last_alive(now)
    }

    /// The longest time to the first byte, of streams or of other responses; `None` before its
    /// first response.
    pub(crate) fn longest_first_byte(&self, streamed: bool) -> Option<Span> {
        self.stats.longest(streamed)
    }

    /// Records that it begins no response.
    pub(crate) fn found_silent(&self, now: Time) {
        self.stats.found_silent(now);
    }

    pub(crate) fn found_silent_since(&self, time: Time) -> bool {
        self.stats.found_silent_since(time)
    }

    /// The request of the last response that it began.
    pub(crate) fn last_begun(&self) -> Option<BegunRequest> {
        self.stats.last_begun()
    }

    /// Its URL, without credentials.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.authority, self.base_path)
    }

    /// The scheme of its URL.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// The server to connect to.
    pub(crate) fn server(&self) -> ServerAddress<'_> {
        ServerAddress { place: self.place(), tls: self.tls.as_ref() }
    }

    /// Host and port.
    pub(crate) fn place(&self) -> (&str, u16) {
        let port = if self.tls.is_some() { HTTPS_PORT } else { HTTP_PORT };
        place(&self.authority, port)
    }

    /// Parses the URL of a backend. The error names the right form.
    pub(crate) fn new(id: BackendId, spec: &BackendSpec) -> Result<Self, EndpointError> {
        let url = |problem| EndpointError::Url {
            backend: spec.id.clone(),
            url: spec.url.clone(),
            problem,
        };
        let uri: Uri = spec.url.parse().map_err(|error| url(UrlProblem::NotAUrl(error)))?;
        let authority = authority(&uri).map_err(url)?;
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (HTTP_PORT, None),
            Some("https") => (HTTPS_PORT, Some(tls(&authority, spec).map_err(url)?)),
            _ => return Err(url(UrlProblem::NotHttp)),
        };
        let host_header = HeaderValue::from_str(authority.as_str())
            .map_err(|error| url(UrlProblem::InvalidHostHeader(error)))?;
        let name_header = HeaderValue::from_str(&spec.id)
            .map_err(|source| EndpointError::Id { backend: spec.id.clone(), source })?;
        // The paths of requests already begin with `/v1`, and many users write it into the URL as
        // clients need it.
        let path = uri.path().trim_end_matches('/');
        let base_path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        Ok(Self {
            id,
            name: spec.id.clone(),
            name_header,
            kind: spec.kind,
            base_path,
            http2: spec.http2,
            credential: spec.credential.as_ref().and_then(bearer),
            host_header,
            socket: socket(&authority, port),
            authority,
            tls,
            stats: Arc::default(),
            credential_refused: AtomicBool::new(false),
            span_fields: OnceLock::new(),
        })
    }

    /// The socket address that Envoy needs, without a DNS lookup.
    pub(crate) fn socket_address(&self) -> Result<SocketAddr, EndpointError> {
        let Self { name, authority, .. } = self;
        self.socket.ok_or_else(|| EndpointError::HostName {
            backend: name.clone(),
            authority: authority.clone(),
        })
    }
}

/// Host and port of a URL, without credentials, which do not belong into a `Host` header.
fn authority(uri: &Uri) -> Result<Authority, UrlProblem> {
    let given = uri.authority().ok_or(UrlProblem::NoHost)?;
    let host = given.as_str().rsplit('@').next().unwrap_or_default();
    let authority: Authority = host.parse().map_err(UrlProblem::InvalidHost)?;
    if authority.host().is_empty() { Err(UrlProblem::NoHost) } else { Ok(authority) }
}

/// How TLS is spoken to a backend: with the name of its URL, unless another one is configured.
fn tls(authority: &Authority, spec: &BackendSpec) -> Result<TlsClient, UrlProblem> {
    let name = spec.tls_name.as_deref().unwrap_or(authority.host());
    let name = tls::parse_name(name).ok_or(UrlProblem::InvalidTlsName)?;
    let protocol = if spec.http2 { Protocol::Http2 } else { Protocol::Http1 };
    Ok(TlsClient::new(name, spec.ca_file.clone(), protocol))
}

fn place(authority: &Authority, default_port: u16) -> (&str, u16) {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    (host, authority.port_u16().unwrap_or(default_port))
}

/// The socket address that an authority contains.
fn socket(authority: &Authority, default_port: u16) -> Option<SocketAddr> {
    let (host, port) = place(authority, default_port);
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

// === impl EndpointUse ===

impl Deref for EndpointUse {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.0
    }
}

impl Drop for EndpointUse {
    fn drop(&mut self) {
        self.0.stats.request_ended();
    }
}

// === impl WatchedWait ===

impl Drop for WatchedWait<'_> {
    fn drop(&mut self) {
        self.0.stats.watch_ended();
    }
}

// === impl EndpointError ===

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { backend, url, problem } => {
                write!(f, "backend {backend}: url {url:?} {problem}; write http://host:port")
            }
            Self::Id { backend, .. } => {
                write!(f, "backend {backend:?}: an id must consist of visible ASCII characters")
            }
            Self::HostName { backend, authority } => write!(
                f,
                "backend {backend}: {authority} is a host name, but Envoy needs an IP address"
            ),
        }
    }
}

impl error::Error for EndpointError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Url { problem, .. } => problem.source(),
            Self::Id { source, .. } => Some(source),
            Self::HostName { .. } => None,
        }
    }
}

// === impl UrlProblem ===

impl UrlProblem {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NotAUrl(error) | Self::InvalidHost(error) => Some(error),
            Self::InvalidHostHeader(error) => Some(error),
            Self::NotHttp | Self::NoHost | Self::InvalidTlsName => None,
        }
    }
}

impl fmt::Display for UrlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUrl(_) => "is not a URL",
            Self::NotHttp => "is neither http nor https",
            Self::NoHost | Self::InvalidHost(_) => "has no host",
            Self::InvalidHostHeader(_) => "has an invalid host",
            Self::InvalidTlsName => "has a host that cannot be in a certificate",
        })
    }
}
