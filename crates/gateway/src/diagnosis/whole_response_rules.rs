//! The rule about a watermark that is too high, by the times of whole responses: without metrics
//! and without streams they are the only sign of requests that wait inside a server.

use super::advice::{configured_bound, set_places};
use super::finding::{Level, StatusFinding};
use super::sentence::span;
use super::situation::{BackendCondition, Situation};
use super::slow_rules::is_slow_whole;
use super::watermark_rules::{LONG_WAIT_SECS, MANY, TIMES_LASTING_SECS, TOO_HIGH};

/// Responses wait inside if they take this many times as long as the quickest ones. In a full
/// batch, engines compute a token up to about three times as slowly as in an empty one.
const WAITING_TIMES: f64 = 4.0;

/// A backend with many requests whose responses take far longer than like ones did. The additional
/// time alone exceeds the objective for a first token, so they cannot have begun in time.
pub(super) fn too_high(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let streams = backend.stream_first_byte_ms.is_some() && !backend.stream_first_byte_is_old;
    let has_many = situation.stock.unit == "requests" && backend.in_flight >= MANY;
    if streams || !has_many || is_slow_whole(backend, &situation.backends) {
        return None;
    }
    let tokens = backend.output_tokens?;
    let (now, quickest) = (backend.latency_ms? / 1e3, backend.quickest_ms? / 1e3);
    let objective = situation.queue.objective_seconds.unwrap_or(LONG_WAIT_SECS);
    let waits = now >= quickest * WAITING_TIMES && now - quickest > objective;
    if !waits || backend.latency_is_old {
        return None;
    }
    let BackendCondition { id, watermark, in_flight, .. } = backend;
    let bound = configured_bound(backend);
    // Those that run are the requests that arrive in the time of one response.
    let places = (f64::from(*in_flight) * quickest / now).round().max(1.0);
    let text = format!(
        "{bound} may be too high for {id}: {in_flight} requests are there, and a response of \
         {tokens:.0} tokens takes {} instead of {}, as if about {places:.0} ran at once",
        span(now),
        span(quickest)
    );
    let finding = StatusFinding::new(TOO_HIGH, Level::Warning, text)
        .about(id)
        .lasting(TIMES_LASTING_SECS)
        .figure("watermark", *watermark)
        .figure("in_flight", *in_flight)
        .figure("response_ms", now * 1e3)
        .figure("quickest_ms", quickest * 1e3)
        .figure("places", places)
        .advise(set_places(situation));
    Some(finding)
}
