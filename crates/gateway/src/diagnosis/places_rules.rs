//! The rule about backends whose places cannot be found: they tell no metrics, and their responses
//! begin when they are complete. The limit of `auto` is a guess there, too high or too low.

use super::advice::set_places;
use super::finding::{Level, StatusFinding};
use super::sentence::{count, span};
use super::situation::{BackendCondition, Situation};
use super::watermark_rules::{LONG_WAIT_SECS, MANY, TIMES_LASTING_SECS, model_waits, reading};

/// The rule about them.
pub(super) const PLACES_UNKNOWN: &str = "places_unknown";

/// One that shows it names all: the others will be in the same state under load.
pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    let blind = || situation.backends.iter().filter(|backend| is_blind(backend));
    let shows =
        |backend: &&BackendCondition| backend.in_flight >= MANY || is_at_limit(backend, situation);
    let Some(level) = blind().filter(shows).map(|backend| level(backend, situation)).max() else {
        return;
    };
    let others = blind().filter(|backend| !shows(backend));
    let all = blind().filter(shows).chain(others);
    found.extend(all.map(|backend| finding(backend, situation, level)));
}

/// Whether nothing shows how many requests run there and how many wait inside.
fn is_blind(backend: &BackendCondition) -> bool {
    let streams = backend.stream_first_byte_ms.is_some() && !backend.stream_first_byte_is_old;
    let seen = streams || reading(backend).is_some() || backend.places.is_some();
    backend.ready && !seen && backend.first_byte_ms.is_some()
}

/// Whether requests wait that it gets only below the limit that the gateway has guessed.
fn is_at_limit(backend: &BackendCondition, situation: &Situation) -> bool {
    let is_full = backend.watermark > 0.0 && f64::from(backend.in_flight) >= backend.watermark;
    is_full && model_waits(backend, situation)
}

/// It is a warning if responses come late, by a wait inside the server or before it.
fn level(backend: &BackendCondition, situation: &Situation) -> Level {
    let queue = &situation.queue;
    let wanted = queue.objective_seconds.unwrap_or(LONG_WAIT_SECS);
    let oldest = queue.oldest_seconds.filter(|_| is_at_limit(backend, situation)).unwrap_or(0.0);
    let is_late = backend.first_byte_ms.is_some_and(|millis| millis / 1e3 > wanted);
    if is_late || oldest > wanted { Level::Warning } else { Level::Note }
}

fn finding(backend: &BackendCondition, situation: &Situation, level: Level) -> StatusFinding {
    let BackendCondition { id, in_flight, watermark, .. } = backend;
    let millis = backend.first_byte_ms.unwrap_or(0.0);
    let so = match is_at_limit(backend, situation) {
        true => {
            let limit = count(*watermark as u32, "request");
            format!("its limit of {limit} is a guess, and requests wait")
        }
        false => {
            let requests = count(*in_flight, "request");
            let are = if *in_flight == 1 { "is" } else { "are" };
            format!("{requests} {are} in flight there, and a response takes {}", span(millis / 1e3))
        }
    };
    let text = format!(
        "{id} tells no metrics and its responses do not stream, so its places cannot be found: {so}"
    );
    StatusFinding::new(PLACES_UNKNOWN, level, text)
        .about(id)
        .lasting(TIMES_LASTING_SECS)
        .figure("in_flight", *in_flight)
        .figure("watermark", *watermark)
        .figure("first_byte_ms", millis)
        .advise(set_places(situation))
}
