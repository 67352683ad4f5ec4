//! Advice that several rules give.

use super::situation::{BackendCondition, Situation};
use super::watermark_rules::reading;

/// The keys that fix the bounds of each backend. With the watermark alone, the bounds lie around
/// it, and places stay free while requests wait.
pub(super) const BOUND_KEYS: &str = "watermark_per_backend, lower_bound_per_backend and \
                                     upper_bound_per_backend in [controller]";

/// What to do where only the operator can know the number of places.
pub(super) fn set_places(situation: &Situation) -> String {
    if situation.stock.mode != "fixed" {
        return "Set `places` of the backend in [[backends]] to the number of requests that the \
                server runs at once. Or start the server with metrics."
            .into();
    }
    format!(
        "Set {BOUND_KEYS} to the number of requests that the server runs at once. Or start the \
         server with metrics, and leave these keys out."
    )
}

/// The configured number that bounds the requests at a backend.
pub(super) fn configured_bound(backend: &BackendCondition) -> String {
    match backend.places {
        Some(places) => format!("places = {places}"),
        None => format!("the watermark of {:.0}", backend.watermark),
    }
}

/// What to do if more requests arrive than are served. A configured watermark that is reached at
/// every backend bounds what they serve, unless the engines tell that they run no more.
pub(super) fn more_capacity(situation: &Situation) -> String {
    let add = "add a backend, or bound the flow that sends most";
    let add = match reached_watermark(situation) {
        Some(watermark) => format!(
            "The configured watermark of {watermark:.0} is reached at every backend: if the \
             servers can run more requests at once, raise {BOUND_KEYS}. Otherwise {add}"
        ),
        None => add.replacen('a', "A", 1),
    };
    format!("More requests arrive than the backends serve. {add}.")
}

/// The configured watermark, if all ready backends have reached it and may have more places.
fn reached_watermark(situation: &Situation) -> Option<f64> {
    if situation.stock.mode != "fixed" || situation.stock.unit != "requests" {
        return None;
    }
    let mut ready = situation.backends.iter().filter(|backend| backend.ready).peekable();
    let watermark = ready.peek()?.watermark;
    ready.all(may_run_more).then_some(watermark)
}

fn may_run_more(backend: &BackendCondition) -> bool {
    let runs_all = reading(backend).is_some_and(|engine| {
        engine.waiting > 0 || engine.running_max.is_some_and(|most| most <= engine.running)
    });
    backend.stock as f64 >= backend.watermark && !runs_all
}
