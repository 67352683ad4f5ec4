//! The messages that are sent to Envoy.

use bytes::Bytes;
use envoy::base::{HeaderValue as Pair, HeaderValueOption};
use envoy::ext_proc::body_mutation::Mutation;
use envoy::ext_proc::processing_response::Response as Message;
use envoy::ext_proc::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ImmediateResponse,
    ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};
use envoy::status::HttpStatus;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue};
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::reply::{ErrorFormat, Refused, error, headers};

/// Namespaces and keys of Envoy's metadata.
pub(super) const LB: &str = "envoy.lb";
pub(super) const SUBSET_HINT: &str = "envoy.lb.subset_hint";
pub(super) const SUBSET: &str = "x-gateway-destination-endpoint-subset";
pub(super) const SERVED: &str = "x-gateway-destination-endpoint-served";
const DESTINATION: &str = "x-gateway-destination-endpoint";

/// The most bytes of a body in one message: some proxies take no message over 64 KB.
const PIECE_MAX: usize = 62_000;
/// Envoy's number for "overwrite, or add".
const OVERWRITE: i32 = 2;

/// Sends the request's head to `endpoints`: the first is the chosen one, the others its fallbacks.
pub(super) fn head(endpoints: &str, added: &HeaderMap, remove: Vec<String>) -> ProcessingResponse {
    let destination = set(DESTINATION, Bytes::copy_from_slice(endpoints.as_bytes()));
    let mut set_headers = vec![destination];
    set_headers.extend(set_all(added));
    let header_mutation = HeaderMutation { set_headers, remove_headers: remove };
    let common = CommonResponse {
        header_mutation: Some(header_mutation),
        clear_route_cache: true,
        ..CommonResponse::default()
    };
    let response = Some(Message::RequestHeaders(HeadersResponse { response: Some(common) }));
    let dynamic_metadata = Some(table(LB, table_value(DESTINATION, endpoints)));
    ProcessingResponse { response, dynamic_metadata, ..ProcessingResponse::default() }
}

/// The request's body, in pieces. Where trailers follow, they mark its end.
pub(super) fn body(body: Bytes, trailers: bool) -> impl Iterator<Item = ProcessingResponse> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let mut piece = rest.take()?;
        if piece.len() > PIECE_MAX {
            rest = Some(piece.split_off(PIECE_MAX));
        }
        let end = rest.is_none() && !trailers;
        Some(message(Message::RequestBody(streamed(piece, end))))
    })
}

pub(super) fn request_trailers() -> ProcessingResponse {
    message(Message::RequestTrailers(TrailersResponse::default()))
}

/// The response's head, with the headers that are added. The length of a body that will change is
/// taken out.
pub(super) fn response_head(added: &HeaderMap, body_changes: bool) -> ProcessingResponse {
    let set_headers = set_all(added).collect();
    let remove_headers = body_changes.then(|| CONTENT_LENGTH.to_string()).into_iter().collect();
    let header_mutation = HeaderMutation { set_headers, remove_headers };
    let common =
        CommonResponse { header_mutation: Some(header_mutation), ..CommonResponse::default() };
    message(Message::ResponseHeaders(HeadersResponse { response: Some(common) }))
}

/// A piece of the response, as it came.
pub(super) fn response_piece(piece: Bytes, end: bool) -> ProcessingResponse {
    message(Message::ResponseBody(streamed(piece, end)))
}

pub(super) fn response_trailers() -> ProcessingResponse {
    message(Message::ResponseTrailers(TrailersResponse::default()))
}

/// A refusal: the same response that `serve` sends.
pub(super) fn refusal(
    refused: &Refused,
    format: ErrorFormat,
    request_id: &HeaderValue,
) -> ProcessingResponse {
    let (mut parts, _) = error::response_in(format, refused).into_parts();
    // The connection is Envoy's.
    parts.headers.remove(CONNECTION);
    headers::identify(&mut parts.headers, request_id);
    headers::explain(&mut parts.headers, &refused.fault);
    let set_headers = set_all(&parts.headers).collect();
    message(Message::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code: parts.status.as_u16().into() }),
        headers: Some(HeaderMutation { set_headers, ..HeaderMutation::default() }),
        body: error::body_in(format, refused),
        details: refused.fault.code().to_owned(),
        ..ImmediateResponse::default()
    }))
}

fn message(response: Message) -> ProcessingResponse {
    ProcessingResponse { response: Some(response), ..ProcessingResponse::default() }
}

fn streamed(body: Bytes, end_of_stream: bool) -> BodyResponse {
    let mutation = Mutation::StreamedResponse(StreamedBodyResponse { body, end_of_stream });
    let common = CommonResponse {
        body_mutation: Some(BodyMutation { mutation: Some(mutation) }),
        ..CommonResponse::default()
    };
    BodyResponse { response: Some(common) }
}

fn set_all(headers: &HeaderMap) -> impl Iterator<Item = HeaderValueOption> {
    headers.iter().map(|(name, value)| set(name.as_str(), Bytes::copy_from_slice(value.as_bytes())))
}

fn set(name: &str, value: Bytes) -> HeaderValueOption {
    let header = Pair { key: name.to_owned(), raw_value: value, ..Pair::default() };
    HeaderValueOption {
        header: Some(header),
        append_action: OVERWRITE,
        ..HeaderValueOption::default()
    }
}

fn table(key: &str, value: Value) -> Struct {
    Struct { fields: [(key.to_owned(), value)].into() }
}

fn table_value(key: &str, text: &str) -> Value {
    let text = Value { kind: Some(Kind::StringValue(text.to_owned())) };
    Value { kind: Some(Kind::StructValue(table(key, text))) }
}
