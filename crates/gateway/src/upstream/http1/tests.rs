//! X03: a response is read as the standard says, or not at all, however its bytes are cut.

mod bodies;
mod exchanges;
mod fuzz;
mod heads;
mod oracle;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response};

use super::framing::{Framing, Step};
use super::head::{self, Http1Request};
use super::{ExchangeError, Http1};
use crate::hop_by_hop::ForwardedHeaders;

/// A request of which only the method and the body matter.
struct Errand {
    method: Method,
    path: PathAndQuery,
    host: HeaderValue,
    headers: ForwardedHeaders,
    body: Bytes,
}

/// An answer with its body and its trailers, as far as it could be read.
#[derive(Debug)]
struct Whole {
    response: Response<()>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    /// Whether the connection may be used again, and how many bytes are left on it.
    lasts: bool,
    left: usize,
}

// === impl Errand ===

impl Errand {
    fn new(method: Method, body: &[u8]) -> Self {
        Self {
            method,
            path: PathAndQuery::from_static("/v1/x?y=1"),
            host: HeaderValue::from_static("host:1"),
            headers: ForwardedHeaders::new(HeaderMap::new(), |_| false),
            body: Bytes::copy_from_slice(body),
        }
    }

    fn wanted(&self) -> Http1Request<'_> {
        let Self { method, path, host, headers, body } = self;
        Http1Request { method, base: "/base", path, host, credential: None, headers, body }
    }
}

/// Reads an answer that comes in these pieces, behind which the connection ends.
fn read<'a>(
    method: &Method,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Whole, ExchangeError> {
    let errand = Errand::new(method.clone(), b"");
    let (mut came, mut seen) = (BytesMut::new(), head::HeadProgress::default());
    let mut pieces = pieces.into_iter();
    let mut found = loop {
        let Some(piece) = pieces.next() else { return Err(ExchangeError::Protocol("no head")) };
        came.extend_from_slice(piece);
        if let Some(found) = head::read(&mut came, &mut seen, &errand.wanted())? {
            break found;
        }
    };
    let (mut body, mut trailers) = (Vec::new(), None);
    loop {
        match found.framing.take(&mut came)? {
            Step::Over => break,
            Step::Frame(frame) => match frame.into_data() {
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
            Step::More => match pieces.next() {
                Some(piece) => came.extend_from_slice(piece),
                None => found.framing.close()?,
            },
        }
    }
    let left = came.len() + pieces.map(<[u8]>::len).sum::<usize>();
    Ok(Whole { response: found.response, body, trailers, lasts: found.lasts, left })
}

fn get(bytes: &[u8]) -> Result<Whole, ExchangeError> {
    read(&Method::GET, [bytes])
}
