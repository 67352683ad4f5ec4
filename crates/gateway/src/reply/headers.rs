//! Response headers that say how a request was served.
//!
//! They are written for every response, so numbers go through small buffers and the commonest
//! values are constants.

use std::sync::LazyLock;

use flow::{RouteChoice, RouteReason, Span};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Fault, forbid_sniffing};

const BACKEND_USED: HeaderName = HeaderName::from_static("x-backend-used");
const ROUTING_REASON: HeaderName = HeaderName::from_static("x-routing-reason");
const QUEUE_DEPTH: HeaderName = HeaderName::from_static("x-queue-depth");
const QUEUE_WAIT_MS: HeaderName = HeaderName::from_static("x-queue-wait-ms");
const PRIORITY_BOOST: HeaderName = HeaderName::from_static("x-priority-boost");
const POWER_W: HeaderName = HeaderName::from_static("x-estimated-power-w");
const POWER_WATTS: HeaderName = HeaderName::from_static("x-estimated-power-watts");
const LATENCY_MS: HeaderName = HeaderName::from_static("x-estimated-latency-ms");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const HEADROOM: HeaderName = HeaderName::from_static("x-llm-d-flow-band-headroom-requests");
const QUEUE_DURATION_MS: HeaderName = HeaderName::from_static("x-llm-d-flow-queue-duration-ms");
const DROPPED_REASON: HeaderName = HeaderName::from_static("x-llm-d-request-dropped-reason");
/// How many attempts at backends failed, where the request then waited until its time was over.
pub(crate) const FAILED_ATTEMPTS: HeaderName = HeaderName::from_static("x-failed-attempts");
const SERVED_BY: HeaderName = HeaderName::from_static("x-conformance-test-served-endpoint");
const LOAD_METRICS: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// About the number of added headers: the map grows once.
const TOLD: usize = 8;
/// The boosts that bands have by default.
const USUAL_BOOSTS: [(f64, HeaderValue); 3] = [
    (200.0, HeaderValue::from_static("200")),
    (500.0, HeaderValue::from_static("500")),
    (-100.0, HeaderValue::from_static("-100")),
];
const ZERO: HeaderValue = HeaderValue::from_static("0");
/// More bytes than the longest reason and a number need.
const SHORT_TEXT: usize = 96;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// Figures beyond this are cut: no backend draws it, no boost is worth it.
const TENTHS_MAX: f64 = 1e12;

/// By the number of the reason. They are checked once, and not for each response.
static REASONS: LazyLock<[HeaderValue; RouteReason::ALL.len()]> =
    LazyLock::new(|| RouteReason::ALL.map(|reason| HeaderValue::from_static(reason.text())));

/// The values of the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteDescription<'a> {
    /// The backend's name.
    pub(crate) backend: &'a HeaderValue,
    /// Why it was chosen, if that is known.
    pub(crate) choice: Option<&'a RouteChoice>,
    /// How long the request waited.
    pub(crate) waited: Span,
    pub(crate) request_id: &'a HeaderValue,
}

/// The value of a header, which is written from its end to its start.
struct ShortText {
    buffer: [u8; SHORT_TEXT],
    start: usize,
}

/// The reason of the choice, with the tokens of the prompt that its backend should have cached.
fn reason(choice: &RouteChoice) -> HeaderValue {
    if choice.cached_tokens == 0 {
        return REASONS[choice.reason as usize].clone();
    }
    let mut text = ShortText::default();
    text.push_number(choice.cached_tokens);
    text.push_text("; cached-tokens=");
    text.push_text(choice.reason.text());
    text.value()
}

/// Adds the headers. They replace a backend's own headers of the same names.
pub(crate) fn describe(headers: &mut HeaderMap, description: &RouteDescription<'_>) {
    headers.reserve(TOLD);
    let waited = whole(description.waited.nanos() / NANOS_PER_MILLI);
    headers.insert(BACKEND_USED, description.backend.clone());
    if let Some(choice) = description.choice {
        headers.insert(ROUTING_REASON, reason(choice));
        headers.insert(QUEUE_DEPTH, whole(choice.depth.into()));
        headers.insert(PRIORITY_BOOST, boost(choice.score.boost));
        // No configured power is not a power of zero.
        if choice.power_watts > 0.0 {
            let power = tenths(choice.power_watts, Tenth::Always);
            headers.insert(POWER_WATTS, power.clone());
            headers.insert(POWER_W, power);
        }
        if let Some(latency) = choice.latency_ms {
            headers.insert(LATENCY_MS, whole(latency.round() as u64));
        }
    }
    headers.insert(QUEUE_WAIT_MS, waited);
    headers.insert(REQUEST_ID, description.request_id.clone());
}

/// Adds how many more requests the band could take, and how long this one waited.
pub(crate) fn report_room(headers: &mut HeaderMap, headroom: u64, waited: Span) {
    headers.insert(HEADROOM, whole(headroom));
    headers.insert(QUEUE_DURATION_MS, whole(waited.nanos() / NANOS_PER_MILLI));
}

/// Adds the request's id to a response that the gateway writes itself.
pub(crate) fn identify(headers: &mut HeaderMap, request_id: &HeaderValue) {
    headers.insert(REQUEST_ID, request_id.clone());
}

/// The request id among these headers.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    headers.get(REQUEST_ID).cloned().unwrap_or_else(|| HeaderValue::from_static(""))
}

/// Corrects the name of the backend, where another one responded.
pub(crate) fn served_elsewhere(headers: &mut HeaderMap, backend: &HeaderValue) {
    headers.insert(BACKEND_USED, backend.clone());
}

/// Adds why a request was dropped, with the values of the Gateway API's pickers.
pub(crate) fn explain(headers: &mut HeaderMap, fault: &Fault) {
    if let Some(reason) = fault.dropped_reason() {
        headers.insert(DROPPED_REASON, HeaderValue::from_static(reason));
    }
}

/// Tells a conformance suite where a request was served.
pub(crate) fn served_by(headers: &mut HeaderMap, endpoint: &str) {
    if let Ok(value) = HeaderValue::try_from(endpoint) {
        headers.insert(SERVED_BY, value);
    }
}

/// The headers of a stream that begins before any backend has answered.
pub(crate) fn event_stream(headers: &mut HeaderMap, request_id: &HeaderValue) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    forbid_sniffing(headers);
    identify(headers, request_id);
}

/// Adds an ORCA load report: how full the gateway is, from 0 to 1 and beyond.
pub(crate) fn report_load(headers: &mut HeaderMap, utilization: f64) {
    let shown = if utilization.is_finite() { utilization.max(0.0) } else { 0.0 };
    let text = format!("TEXT application_utilization={shown:.3}");
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(LOAD_METRICS, value);
    }
}

/// Whether the digit behind the point is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tenth {
    Always,
    IfAny,
}

fn whole(number: u64) -> HeaderValue {
    match number {
        0 => ZERO,
        _ => HeaderValue::from(number),
    }
}

fn boost(number: f64) -> HeaderValue {
    let usual = USUAL_BOOSTS.into_iter().find(|(usual, _)| *usual == number);
    usual.map_or_else(|| tenths(number, Tenth::IfAny), |(_, text)| text)
}

/// A number to one tenth.
fn tenths(number: f64, tenth: Tenth) -> HeaderValue {
    if number == 0.0 {
        return if tenth == Tenth::Always { HeaderValue::from_static("0.0") } else { ZERO };
    }
    let scaled = (number * 10.0).round();
    // A cast maps NaN to zero.
    let scaled = scaled.clamp(-TENTHS_MAX, TENTHS_MAX) as i64;
    let mut text = ShortText::default();
    let rest = scaled.unsigned_abs();
    if tenth == Tenth::Always || !rest.is_multiple_of(10) {
        text.push(b'0' + (rest % 10) as u8);
        text.push(b'.');
    }
    text.push_number(rest / 10);
    if scaled < 0 {
        text.push(b'-');
    }
    text.value()
}

// === impl ShortText ===

impl ShortText {
    /// Puts a letter before the others. The buffer holds more than the longest value needs.
    fn push(&mut self, letter: u8) {
        self.start = self.start.saturating_sub(1);
        self.buffer[self.start] = letter;
    }

    fn push_text(&mut self, text: &str) {
        let start = self.start.saturating_sub(text.len());
        if let Some(place) = self.buffer.get_mut(start..start + text.len()) {
            place.copy_from_slice(text.as_bytes());
            self.start = start;
        }
    }

    fn push_number(&mut self, mut number: u64) {
        loop {
            self.push(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                break;
            }
        }
    }

    fn value(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.buffer[self.start..]).unwrap_or(ZERO)
    }
}

impl Default for ShortText {
    fn default() -> Self {
        Self { buffer: [0; SHORT_TEXT], start: SHORT_TEXT }
    }
}
