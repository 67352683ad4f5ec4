//! Heads of requests that are refused before the body is read.

use http::header::{HOST, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{Request, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::host_names;
use crate::reply::Fault;

/// The most fields of a head. Over HTTP/1 hyper has the same limit; over HTTP/2 a client can name
/// thousands of fields in a few bytes, of which each takes a hundred here.
const FIELDS_MAX: usize = 100;

/// Refuses heads with too many fields, heads that name no host, several or none that is one, and
/// bodies that are not framed in the one way that all servers read alike.
pub(super) fn check(request: &Request<Incoming>) -> Result<(), Fault> {
    if request.headers().len() > FIELDS_MAX {
        return Err(Fault::TooManyFields);
    }
    if !names_one_host(request) {
        return Err(Fault::HostCount);
    }
    // A body of a known length has no transfer coding.
    if request.body().size_hint().exact().is_none() && !is_chunked_once(request) {
        return Err(Fault::TransferCoding);
    }
    Ok(())
}

/// Whether all servers see the same host: one in HTTP/1.1, at most one in the other versions, also
/// if its target names one. Bytes that are no text are no host.
fn names_one_host(request: &Request<Incoming>) -> bool {
    let mut named = request.headers().get_all(HOST).iter();
    let (first, is_only) = (named.next(), named.next().is_none());
    let is_told = first.is_some() || request.version() != Version::HTTP_11;
    let first = first.map(|host| host.to_str().unwrap_or("?"));
    let target = request.uri().authority().map(Authority::as_str);
    is_told && is_only && first.into_iter().chain(target).all(host_names::is_well_formed)
}

/// Whether the transfer coding is `chunked` alone, or none, as over HTTP/2.
fn is_chunked_once(request: &Request<Incoming>) -> bool {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}
