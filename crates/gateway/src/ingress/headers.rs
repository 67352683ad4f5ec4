//! The names of request headers: the control headers of the gateway, and the headers that reach a
//! backend.
//!
//! The headers of a request are read in one pass. Looking up each known name would hash about
//! thirty names per request.

use std::str::FromStr;

use flow::Span;
use flow::identity::NAME_MAX;
use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, TE,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{duration, identifier};
use crate::hop_by_hop::ForwardedHeaders;
use crate::multipart;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const WORKLOAD: &str = "x-workload-context";
const SELECTION: HeaderName = HeaderName::from_static("test-epp-endpoint-selection");

/// The control headers of a request. If a header occurs twice, the first one counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlHeaders<'a> {
    pub(super) content_type: Option<&'a HeaderValue>,
    /// Whether there are several content types. A backend may take another one than the first.
    pub(super) types_differ: bool,
    pub(super) content_encoding: Option<&'a HeaderValue>,
    pub(super) request_id: Option<&'a HeaderValue>,
    pub(super) priority: Option<&'a HeaderValue>,
    pub(super) nexus_priority: Option<&'a HeaderValue>,
    /// Under the newer and the older name.
    pub(super) objective: [Option<&'a HeaderValue>; 2],
    pub(super) fairness_id: [Option<&'a HeaderValue>; 2],
    pub(super) rewrite: [Option<&'a HeaderValue>; 2],
    pub(super) ttl: Option<&'a HeaderValue>,
    pub(super) media_type: Option<&'a HeaderValue>,
    pub(super) workload: Option<&'a HeaderValue>,
    pub(super) latency_max_ms: Option<&'a HeaderValue>,
    pub(super) latency_critical: Option<&'a HeaderValue>,
    /// Under the newer and the older name.
    pub(super) slo_ttft_ms: [Option<&'a HeaderValue>; 2],
    pub(super) power_max_watts: Option<&'a HeaderValue>,
    pub(super) power_efficient: Option<&'a HeaderValue>,
    pub(super) target_backend: Option<&'a HeaderValue>,
    pub(super) timeout_ms: Option<&'a HeaderValue>,
    pub(super) deadline_ms: Option<&'a HeaderValue>,
    pub(super) grpc_timeout: Option<&'a HeaderValue>,
    /// Of OpenAI's libraries: for Python, and for JavaScript.
    pub(super) read_timeout_secs: Option<&'a HeaderValue>,
    pub(super) timeout_whole_secs: Option<&'a HeaderValue>,
    /// Of Envoy: for its clients, and for its backends.
    pub(super) envoy_timeout_ms: [Option<&'a HeaderValue>; 2],
    pub(super) session: Option<&'a HeaderValue>,
    pub(super) queue_status: Option<&'a HeaderValue>,
}

/// The value of a header, if it is UTF-8.
pub(super) fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::trim_ascii)
}

/// Whether there is a header of this name. A request has about ten headers: to compare the names
/// costs less than to hash one.
pub(crate) fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|known| known == name)
}

/// The headers that reach a backend. Connection headers are left out, and so are control headers,
/// which a backend could obey. The client towards the backend adds `Host` and the length.
pub(crate) fn to_upstream(headers: HeaderMap, request_id: &HeaderValue) -> ForwardedHeaders {
    let trailers = headers.iter().any(|(name, value)| *name == TE && lists_trailers(value));
    let mut sent = ForwardedHeaders::new(headers, ends_here);
    sent.set(REQUEST_ID, request_id.clone());
    if trailers {
        sent.set(TE, HeaderValue::from_static("trailers"));
    }
    sent
}

/// Whether a value of `TE` accepts trailers.
fn lists_trailers(value: &HeaderValue) -> bool {
    let mut tokens = text(value).into_iter().flat_map(|text| text.split(','));
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case("trailers"))
}

/// The type of a body that was read as JSON.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The header that says how a body is encoded, which a decoded body must not have.
pub(crate) const BODY_ENCODING: HeaderName = CONTENT_ENCODING;

/// The id of a request, also if the rest of it cannot be read.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    identifier::of(headers.get(REQUEST_ID))
}

/// The request's id, if its client gave one.
pub(crate) fn given_request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let given = has(headers, &REQUEST_ID).then(|| headers.get(REQUEST_ID)).flatten();
    given.map(|given| identifier::of(Some(given)))
}

/// The boundary of a multipart form; `None` for any other body.
pub(crate) fn form_boundary(headers: &HeaderMap) -> Option<&str> {
    let content_type = text(headers.get(CONTENT_TYPE)?)?;
    let kind = content_type.split(';').next().unwrap_or_default();
    let is_form = kind.trim_ascii().eq_ignore_ascii_case("multipart/form-data");
    multipart::boundary(content_type).filter(|_| is_form)
}

/// Whether the client waits for `100 Continue` before it sends the body.
pub(crate) fn expects_word(headers: &HeaderMap) -> bool {
    headers.contains_key(EXPECT)
}

/// Whether a browser asks with OPTIONS whether it may send a request.
pub(crate) fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether the client asks for a WebSocket.
pub(super) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let protocol = headers.get(UPGRADE).and_then(text);
    protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

/// A new unique id.
pub(crate) fn fresh_id() -> String {
    identifier::of(None).to_str().unwrap_or_default().to_owned()
}

/// Whether the content type is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(text).unwrap_or_default();
    let kind = said.split(';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case("application/json")
}

/// The names of the headers that Envoy must not pass on, of those that are present. What belongs to
/// a connection is its own.
pub(crate) fn control_names(headers: &HeaderMap) -> Vec<String> {
    let is_ours = |name: &str| name.starts_with("x-") || name == ACCEPT_ENCODING.as_str();
    let control = |name: &&str| is_ours(name) && ends_here(name);
    headers.keys().map(HeaderName::as_str).filter(control).map(str::to_owned).collect()
}

/// The endpoint that a conformance test selects.
pub(crate) fn selection(headers: &HeaderMap) -> Option<&str> {
    headers.get(SELECTION).and_then(text)
}

/// Whether a header is meant for the gateway, or is written anew for each backend.
pub(super) fn ends_here(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("x-") else {
        // The tokens of a compressed response could not be read.
        return matches!(
            name,
            "accept-encoding" | "content-length" | "expect" | "host" | "trailer"
        );
    };
    match rest {
        "priority" | "workload-context" | "max-latency-ms" | "latency-critical" | "media-type"
        | "request-timeout-ms" | "queue-status" | "target-backend" | "power-efficient"
        | "max-power-watts" | "deadline-ms" => true,
        // A server that takes the method from a header would make a change of a read.
        "http-method-override" | "method-override" | "http-method" => true,
        _ => ["nexus-", "gateway-", "llm-d-", "slo-"].iter().any(|prefix| rest.starts_with(prefix)),
    }
}

// === impl ControlHeaders ===

impl<'a> ControlHeaders<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            match found.place(name.as_str()) {
                Some(place) if place.is_none() => *place = Some(value),
                Some(_) => found.types_differ |= *name == CONTENT_TYPE,
                None => {}
            }
        }
        found
    }

    fn place(&mut self, name: &str) -> Option<&mut Option<&'a HeaderValue>> {
        let Some(rest) = name.strip_prefix("x-") else {
            return match name {
                "content-type" => Some(&mut self.content_type),
                "content-encoding" => Some(&mut self.content_encoding),
                "grpc-timeout" => Some(&mut self.grpc_timeout),
                _ => None,
            };
        };
        Some(match rest {
            "request-id" => &mut self.request_id,
            "priority" => &mut self.priority,
            "nexus-priority" => &mut self.nexus_priority,
            "llm-d-inference-objective" => &mut self.objective[0],
            "gateway-inference-objective" => &mut self.objective[1],
            "llm-d-inference-fairness-id" => &mut self.fairness_id[0],
            "gateway-inference-fairness-id" => &mut self.fairness_id[1],
            "llm-d-model-name-rewrite" => &mut self.rewrite[0],
            "gateway-model-name-rewrite" => &mut self.rewrite[1],
            "llm-d-inference-ttl" => &mut self.ttl,
            "media-type" => &mut self.media_type,
            "workload-context" => &mut self.workload,
            "max-latency-ms" => &mut self.latency_max_ms,
            "latency-critical" => &mut self.latency_critical,
            "llm-d-slo-ttft-ms" => &mut self.slo_ttft_ms[0],
            "slo-ttft-ms" => &mut self.slo_ttft_ms[1],
            "max-power-watts" => &mut self.power_max_watts,
            "power-efficient" => &mut self.power_efficient,
            "target-backend" => &mut self.target_backend,
            "request-timeout-ms" => &mut self.timeout_ms,
            "deadline-ms" => &mut self.deadline_ms,
            "stainless-read-timeout" => &mut self.read_timeout_secs,
            "stainless-timeout" => &mut self.timeout_whole_secs,
            "envoy-upstream-rq-timeout-ms" => &mut self.envoy_timeout_ms[0],
            "envoy-expected-rq-timeout-ms" => &mut self.envoy_timeout_ms[1],
            "session-id" => &mut self.session,
            "queue-status" => &mut self.queue_status,
            _ => return None,
        })
    }

    /// The fairness id that the client sent.
    pub(super) fn fairness_id(&self) -> Option<&'a str> {
        self.fairness_id.into_iter().flatten().find_map(text)
    }

    /// The model that serves the request instead of the one in the body.
    pub(super) fn rewrite(&self) -> Option<&'a str> {
        let named = |name: &&str| !name.is_empty() && name.len() <= NAME_MAX;
        self.rewrite.into_iter().flatten().filter_map(text).find(named)
    }

    /// The longest wait that the client accepts.
    pub(super) fn ttl(&self) -> Option<Span> {
        self.ttl.and_then(text).and_then(duration::parse)
    }

    pub(super) fn queue_status(&self) -> bool {
        self.queue_status.and_then(text).is_some_and(|said| said.eq_ignore_ascii_case("sse"))
    }
}

pub(super) fn is_yes(value: Option<&HeaderValue>) -> bool {
    let yes =
        |said: &str| ["true", "1", "yes", "on"].iter().any(|word| said.eq_ignore_ascii_case(word));
    value.and_then(text).is_some_and(yes)
}

/// A time in milliseconds. It may have decimals, as in the headers of other pickers.
pub(super) fn millis(value: Option<&HeaderValue>) -> Option<Span> {
    let text = value.and_then(text)?;
    let whole = text.parse().ok().map(Span::from_millis);
    whole.or_else(|| decimal(text).map(|millis: f64| Span::from_secs_f64(millis / 1e3)))
}

/// A finite number that is not negative.
pub(super) fn decimal<T: FromStr + Into<f64> + Copy>(text: &str) -> Option<T> {
    let is_sound = |number: &T| (0.0..=f64::MAX).contains(&(*number).into());
    text.parse().ok().filter(is_sound)
}
