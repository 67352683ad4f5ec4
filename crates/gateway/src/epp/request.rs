//! How a conversation opens: the request, its body in pieces, and what else Envoy says of it.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use envoy::base::HeaderMap as Pairs;
use envoy::ext_proc::processing_request::Request as Said;
use envoy::ext_proc::{HttpHeaders, ProcessingRequest};
use envoy::mode::processing_mode::BodySendMode;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Uri};
use prost_types::value::Kind;

use super::grpc::{Code, Incoming, Status};
use super::response::{LB, SERVED, SUBSET, SUBSET_HINT};
use crate::backend::{EndpointAddress, SUBSET_ADDRESSES_MAX};
use crate::body_memory::Reservation;
use crate::config::resolved::Server;
use crate::reply::Fault;

/// The first message of a conversation.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) parts: Parts,
    /// Where alone the request may go, if somebody said so.
    pub(super) within: Option<BTreeSet<EndpointAddress>>,
    /// Whether the head is all there is.
    pub(super) whole: bool,
    /// Whether response bodies will be seen.
    pub(super) sees_bodies: bool,
}

/// What followed the head.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) body: Bytes,
    /// What the body holds, until Envoy has it again.
    pub(super) _held: Reservation,
    /// Whether there was a body at all; an empty one that was announced wants to be ended, too.
    pub(super) came: bool,
    /// Whether trailers ended the request, which want an answer of their own.
    pub(super) trailers: bool,
}

/// Why a request was not read to its end.
#[derive(Debug)]
pub(super) enum Hitch {
    /// The client must be told.
    Fault(Fault),
    /// Nobody is there to be told.
    Gone(Status),
}

// === impl Opening ===

impl Opening {
    /// Hears the first message; nothing if there is none.
    pub(super) async fn hear(
        incoming: &mut Incoming,
        header_limit: usize,
    ) -> Result<Option<Self>, Hitch> {
        let Some(first) = incoming.next::<ProcessingRequest>().await? else { return Ok(None) };
        let within = subset(&first);
        let modes = first.protocol_config.unwrap_or_default();
        let Some(Said::RequestHeaders(head)) = first.request else {
            let text = "a conversation begins with the request's headers";
            return Err(Hitch::Gone(Status::new(Code::InvalidArgument, text)));
        };
        let whole = match modes.request_body_mode() {
            BodySendMode::FullDuplexStreamed => head.end_of_stream,
            BodySendMode::None => true,
            _ => return Err(Hitch::Gone(Status::new(Code::InvalidArgument, WRONG_MODE))),
        };
        let sees_bodies = modes.response_body_mode() == BodySendMode::FullDuplexStreamed;
        let parts = parts(&head, header_limit).map_err(Hitch::Fault)?;
        Ok(Some(Self { parts, within, whole, sees_bodies }))
    }
}

const WRONG_MODE: &str = "set request_body_mode to FULL_DUPLEX_STREAMED (or NONE)";

// === impl Rest ===

impl Rest {
    /// Hears the body to its end. Envoy may say twice that it has ended; the first time counts.
    pub(super) async fn hear(
        incoming: &mut Incoming,
        server: &Server,
        mut held: Reservation,
    ) -> Result<Self, Hitch> {
        let limit = server.body_limit;
        let mut first = Bytes::new();
        let mut more = BytesMut::new();
        let trailers = loop {
            let next = incoming.next::<ProcessingRequest>().await?;
            let said = next.and_then(|message| message.request);
            let piece = match said {
                Some(Said::RequestBody(piece)) => piece,
                Some(Said::RequestTrailers(_)) => break true,
                Some(_) => continue,
                None => return Err(Hitch::Gone(Status::LEFT)),
            };
            if first.len() + more.len() + piece.body.len() > limit {
                return Err(Hitch::Fault(Fault::BodyTooLarge(limit)));
            }
            held.more(piece.body.len(), server.bodies_limit).map_err(Hitch::Fault)?;
            // Most bodies come in one piece, which need not be copied.
            if first.is_empty() {
                first = piece.body;
            } else {
                more.extend_from_slice(&piece.body);
            }
            if piece.end_of_stream {
                break false;
            }
        };
        let body = if more.is_empty() { first } else { [first, more.freeze()].concat().into() };
        Ok(Self { body, _held: held, came: true, trailers })
    }
}

/// Where the request may go, as the one before us says. A hint that names nobody leaves nobody.
fn subset(message: &ProcessingRequest) -> Option<BTreeSet<EndpointAddress>> {
    let metadata = &message.metadata_context.as_ref()?.filter_metadata;
    let hint = metadata.get(SUBSET_HINT)?.fields.get(SUBSET)?;
    let texts = match hint.kind.as_ref()? {
        Kind::ListValue(list) => list.values.iter().filter_map(|value| text(&value.kind)).collect(),
        Kind::StringValue(text) => text.split(',').collect(),
        _ => Vec::new(),
    };
    Some(texts.into_iter().take(SUBSET_ADDRESSES_MAX).filter_map(EndpointAddress::parse).collect())
}

/// Where the request really went.
pub(super) fn served(message: &ProcessingRequest) -> Option<&str> {
    let metadata = &message.metadata_context.as_ref()?.filter_metadata;
    text(&metadata.get(LB)?.fields.get(SERVED)?.kind)
}

fn text(kind: &Option<Kind>) -> Option<&str> {
    match kind {
        Some(Kind::StringValue(text)) => Some(text),
        _ => None,
    }
}

/// The head as the other doors know it.
fn parts(head: &HttpHeaders, limit: usize) -> Result<Parts, Fault> {
    let bad = |what: &str| Fault::InvalidRequest(format!("The request's {what} cannot be read."));
    let (mut parts, ()) = http::Request::new(()).into_parts();
    let mut size = 0;
    for (name, value) in pairs(head.headers.as_ref()) {
        size += name.len() + value.len();
        if size > limit {
            let text = format!("The request's headers are larger than {limit} bytes: send less.");
            return Err(Fault::InvalidRequest(text));
        }
        match name {
            ":method" => parts.method = Method::from_bytes(value).map_err(|_| bad("method"))?,
            ":path" => parts.uri = Uri::try_from(value).map_err(|_| bad("path"))?,
            _ if name.starts_with(':') => {}
            _ => {
                let name = HeaderName::try_from(name).map_err(|_| bad("headers"))?;
                let value = HeaderValue::from_bytes(value).map_err(|_| bad("headers"))?;
                parts.headers.try_append(name, value).map_err(|_| bad("headers"))?;
            }
        }
    }
    Ok(parts)
}

/// Names and values. Envoy fills one of two fields with the value.
pub(super) fn pairs(headers: Option<&Pairs>) -> impl Iterator<Item = (&str, &[u8])> {
    let headers = headers.map_or(&[][..], |headers| &headers.headers);
    headers.iter().map(|header| {
        let raw = &header.raw_value;
        (header.key.as_str(), if raw.is_empty() { header.value.as_bytes() } else { raw })
    })
}

// === impl Hitch ===

impl From<Status> for Hitch {
    fn from(status: Status) -> Self {
        Self::Gone(status)
    }
}
