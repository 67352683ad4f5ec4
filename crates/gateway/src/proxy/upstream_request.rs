//! A request in the form in which backends get it. It can be sent several times.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};
use http_body_util::Full;

use crate::backend::Endpoint;
use crate::body_memory::Reservation;
use crate::hop_by_hop::ForwardedHeaders;
use crate::upstream::{Http1Request, WholeBody};

/// The parts of a request that do not depend on the backend. The whole body is at hand, so that it
/// can be sent again.
#[derive(Debug)]
pub(crate) struct UpstreamRequest {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: ForwardedHeaders,
    pub(crate) body: Bytes,
    /// The memory of the body, for as long as it may be sent again.
    pub(crate) _reservation: Reservation,
}

// === impl UpstreamRequest ===

impl UpstreamRequest {
    /// The request for a connection of HTTP/1.1.
    pub(super) fn http1<'a>(&'a self, endpoint: &'a Endpoint) -> Http1Request<'a> {
        let Self { method, path, headers, body, .. } = self;
        let (base, host) = (&endpoint.base_path, &endpoint.host_header);
        let credential = endpoint.credential.as_ref();
        Http1Request { method, base, path, host, credential, headers, body }
    }

    /// The request for a shared connection of HTTP/2.
    pub(super) fn http2(&self, endpoint: &Endpoint) -> Request<WholeBody> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.version_mut() = Version::HTTP_2;
        for (name, value) in self.headers.iter() {
            request.headers_mut().append(name, value.clone());
        }
        if let Some(credential) = &endpoint.credential {
            request.headers_mut().insert(AUTHORIZATION, credential.clone());
        }
        *request.uri_mut() = absolute(endpoint, path(endpoint, &self.path));
        request
    }
}

/// The path at the backend, below its own base.
fn path(endpoint: &Endpoint, path: &PathAndQuery) -> PathAndQuery {
    if endpoint.base_path.is_empty() {
        return path.clone();
    }
    let whole = format!("{}{path}", endpoint.base_path);
    // Both parts were accepted before, so their sum is.
    PathAndQuery::try_from(whole).unwrap_or_else(|_| path.clone())
}

fn absolute(endpoint: &Endpoint, path: PathAndQuery) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(endpoint.scheme());
    parts.authority = Some(endpoint.authority.clone());
    parts.path_and_query = Some(path);
    // All three parts are there, so this cannot fail.
    Uri::from_parts(parts).unwrap_or_default()
}
