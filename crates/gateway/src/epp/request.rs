//! The request as Envoy sends it: head, body in pieces, trailers and metadata.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use envoy::base::HeaderMap as Pairs;
use envoy::ext_proc::processing_request::Request as Message;
use envoy::ext_proc::{HttpHeaders, ProcessingRequest, ProtocolConfiguration};
use envoy::mode::processing_mode::BodySendMode;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Uri};
use prost_types::value::Kind;

use super::response::{LB, SERVED, SUBSET, SUBSET_HINT};
use crate::backend::{EndpointAddress, SUBSET_ADDRESSES_MAX};
use crate::body_memory::Reservation;
use crate::config::settings::Server;
use crate::grpc::{Code, Incoming, Status};
use crate::reply::Fault;

/// The first message of a stream.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) parts: Parts,
    /// The only endpoints that may serve the request, where the metadata names some.
    pub(super) subset: Option<BTreeSet<EndpointAddress>>,
    /// Whether the request is its head alone.
    pub(super) whole: bool,
    pub(super) bodies: ResponseBodies,
}

/// Whether the proxy shows response bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseBodies {
    Shown,
    Hidden,
    /// It has not said, and has shown none yet.
    Unknown,
}

/// Everything behind the head.
#[derive(Debug)]
pub(super) struct RequestRest {
    pub(super) body: Bytes,
    /// The memory of the body, until Envoy has it again.
    pub(super) reservation: Reservation,
    /// Whether there was a body at all; an empty one that was announced must be ended, too.
    pub(super) has_body: bool,
    /// Whether trailers ended the request; they need a response of their own.
    pub(super) has_trailers: bool,
}

/// Why a request was not read to its end.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The client receives a refusal.
    Fault(Fault),
    /// The stream ends with this status.
    Ended(Status),
}

// === impl RequestHead ===

impl RequestHead {
    /// Reads the first message; `None` if there is none.
    pub(super) async fn read(
        incoming: &mut Incoming,
        header_limit: usize,
    ) -> Result<Option<Self>, ReadError> {
        let Some(first) = incoming.next::<ProcessingRequest>().await? else { return Ok(None) };
        let subset = subset(&first);
        let Some(Message::RequestHeaders(head)) = first.request else {
            let text = "a conversation begins with the request's headers";
            return Err(ReadError::Ended(Status::new(Code::InvalidArgument, text)));
        };
        let (has_body, bodies) = modes(first.protocol_config)?;
        let parts = parts(&head, header_limit).map_err(ReadError::Fault)?;
        Ok(Some(Self { parts, subset, whole: head.end_of_stream || !has_body, bodies }))
    }
}

/// Whether the proxy sends the request's body, and shows that of the response. Envoy tells its
/// modes with the first message. A proxy that tells none sends the body unless the head is the end.
fn modes(told: Option<ProtocolConfiguration>) -> Result<(bool, ResponseBodies), ReadError> {
    let Some(told) = told else { return Ok((true, ResponseBodies::Unknown)) };
    let wrong = |text| Err(ReadError::Ended(Status::new(Code::InvalidArgument, text)));
    let has_body = match told.request_body_mode() {
        BodySendMode::FullDuplexStreamed => true,
        BodySendMode::None => false,
        _ => return wrong("set request_body_mode to FULL_DUPLEX_STREAMED (or NONE)"),
    };
    match told.response_body_mode() {
        BodySendMode::FullDuplexStreamed => Ok((has_body, ResponseBodies::Shown)),
        BodySendMode::None => Ok((has_body, ResponseBodies::Hidden)),
        // Envoy takes the pieces that are sent back in no other mode.
        _ => wrong("set response_body_mode to FULL_DUPLEX_STREAMED (or NONE)"),
    }
}

// === impl RequestRest ===

impl RequestRest {
    /// A request that is its head alone.
    pub(super) fn none(reservation: Reservation) -> Self {
        let body = Bytes::new();
        Self { body, reservation, has_body: false, has_trailers: false }
    }

    /// Sets the body to send. A body that was decoded may be much larger than it came.
    pub(super) fn set_body(
        &mut self,
        body: Bytes,
        received: usize,
        bodies_limit: usize,
    ) -> Result<(), Fault> {
        let more = body.len().saturating_sub(received);
        self.body = body;
        self.reservation.more(more, bodies_limit)
    }

    /// Reads the body to its end. Envoy may mark the end twice; the first mark counts.
    pub(super) async fn read(
        incoming: &mut Incoming,
        server: &Server,
        mut reservation: Reservation,
    ) -> Result<Self, ReadError> {
        let limit = server.body_limit;
        let mut first = Bytes::new();
        let mut more = BytesMut::new();
        let trailers = loop {
            let next = incoming.next::<ProcessingRequest>().await?;
            let said = next.and_then(|message| message.request);
            let piece = match said {
                Some(Message::RequestBody(piece)) => piece,
                Some(Message::RequestTrailers(_)) => break true,
                Some(_) => continue,
                None => return Err(ReadError::Ended(Status::LEFT)),
            };
            if first.len() + more.len() + piece.body.len() > limit {
                return Err(ReadError::Fault(Fault::BodyTooLarge(limit)));
            }
            reservation.more(piece.body.len(), server.bodies_limit).map_err(ReadError::Fault)?;
            // Most bodies come in one piece, which is not copied.
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
        Ok(Self { body, reservation, has_body: true, has_trailers: trailers })
    }
}

/// The endpoints that the metadata allows. An empty list allows none.
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

/// The endpoint that served the request.
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

/// The head as `http` represents it.
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

// === impl ReadError ===

impl From<Status> for ReadError {
    fn from(status: Status) -> Self {
        Self::Ended(status)
    }
}
