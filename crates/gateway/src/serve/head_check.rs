//! Heads that are refused before anything else is read.

use http::Request;
use http::header::TRANSFER_ENCODING;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::reply::Fault;

/// The most fields of a head. Over HTTP/1 hyper has the same limit; over HTTP/2 a client can name
/// thousands of fields in a few bytes, of which each takes a hundred here.
const FIELDS_MAX: usize = 100;

/// Refuses heads with too many fields, and bodies that are not framed in the one way that all
/// servers read alike.
pub(super) fn check(request: &Request<Incoming>) -> Result<(), Fault> {
    if request.headers().len() > FIELDS_MAX {
        return Err(Fault::TooManyFields);
    }
    // A body of a known length has no transfer coding.
    if request.body().size_hint().exact().is_none() && !is_chunked_once(request) {
        return Err(Fault::TransferCoding);
    }
    Ok(())
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
