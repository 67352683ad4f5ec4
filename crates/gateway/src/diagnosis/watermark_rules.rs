//! Rules about the watermark: a fixed one that is too high, so that the engine queues, or too low,
//! so that places at the engine stay free while requests wait; and one that cannot be found.

use super::advice::{BOUND_KEYS, configured_bound, set_places};
use super::finding::{Level, StatusFinding};
use super::places_rules::{self, PLACES_UNKNOWN};
use super::sentence::{count, span};
use super::situation::{BackendCondition, EngineState, Situation};
use super::whole_response_rules;

/// A reading of an engine is used up to this age.
pub(super) const READING_SECS: f64 = 10.0;
/// A wrong watermark shows for at least so long.
const LASTING_SECS: f64 = 2.0;
/// What comes before the further backends of a joined finding.
const ALSO: &str = "; the same at ";
/// Below this share of its KV cache an engine has room.
const KV_ROOM: f64 = 0.5;
/// Without metrics, times are the only sign. They are less certain, so they last for longer.
pub(super) const TIMES_LASTING_SECS: f64 = 5.0;
/// A server with so many requests may let some of them wait inside.
pub(super) const MANY: u32 = 8;
/// Responses are fast if they begin within this share of the objective. Where none is set, this
/// time stands for it.
const FAST_SHARE: f64 = 0.5;
pub(super) const LONG_WAIT_SECS: f64 = 2.0;
/// The rule about one that is too high.
pub(super) const TOO_HIGH: &str = "watermark_too_high";
/// The rule about one that is too low.
pub(super) const TOO_LOW: &str = "watermark_too_low";

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    let ready = || situation.backends.iter().filter(|backend| backend.ready);
    if situation.stock.mode != "fixed" {
        places_rules::check(situation, found);
        let told = ready().filter(|one| one.places.is_some() && reading(one).is_none());
        found.extend(told.filter_map(|backend| too_high_unread(backend, situation)));
        return;
    }
    for backend in ready() {
        let Some(engine) = reading(backend) else {
            found.extend(too_high_unread(backend, situation));
            found.extend(too_low_by_times(backend, situation));
            continue;
        };
        found.extend(too_high(backend, engine, situation));
        let by_reading = too_low(backend, engine, situation);
        let no_queue = engine.waiting == 0 && engine.kv_used.is_none();
        let unknown = engine.running_max.is_none() && no_queue;
        let by_times = || too_low_by_times(backend, situation).filter(|_| unknown);
        found.extend(by_reading.or_else(by_times));
    }
}

/// Joins findings about several backends to one where the advice is the same.
pub(super) fn join(findings: &mut Vec<StatusFinding>) {
    let about = |finding: &StatusFinding| [TOO_HIGH, TOO_LOW, PLACES_UNKNOWN].contains(&finding.id);
    let mut at = 0;
    while at < findings.len() {
        let (before, rest) = findings.split_at_mut(at);
        let finding = &rest[0];
        let same = |one: &&mut StatusFinding| {
            about(one) && (one.id, &one.advice) == (finding.id, &finding.advice)
        };
        let Some(first) = before.iter_mut().find(same) else {
            at += 1;
            continue;
        };
        let more = if first.text.contains(ALSO) { ", " } else { ALSO };
        first.text = first.text.clone() + more + finding.subject.as_deref().unwrap_or_default();
        findings.remove(at);
    }
}

fn too_high(
    backend: &BackendCondition,
    engine: EngineState,
    situation: &Situation,
) -> Option<StatusFinding> {
    if engine.waiting == 0 {
        return None;
    }
    let BackendCondition { id, watermark, .. } = backend;
    let waiting = count(engine.waiting, "request");
    let text = format!(
        "the watermark of {watermark:.0} is too high for {id}: {waiting} wait inside the engine, \
         where priorities do not count"
    );
    let finding = StatusFinding::new(TOO_HIGH, Level::Warning, text)
        .about(id)
        .lasting(LASTING_SECS)
        .figure("engine_waiting", engine.waiting)
        .figure("engine_running", engine.running)
        .figure("watermark", *watermark)
        .figure("waiting", situation.queue.depth)
        .advise(format!(
            "Leave {BOUND_KEYS} out: the gateway then finds the bound by the metrics. Or set them \
             to about {}.",
            engine.running.max(1)
        ));
    Some(finding)
}

fn too_low(
    backend: &BackendCondition,
    engine: EngineState,
    situation: &Situation,
) -> Option<StatusFinding> {
    let kv_full = engine.kv_used.is_some_and(|used| used >= KV_ROOM);
    if !is_held_back(backend, situation) || engine.waiting > 0 || kv_full {
        return None;
    }
    let BackendCondition { id, watermark, .. } = backend;
    let depth = situation.queue.depth;
    let idle = match (engine.running_max, engine.kv_used) {
        (Some(most), _) if most <= engine.running => return None,
        (Some(most), _) => format!("{} of its {most} places are free", most - engine.running),
        (None, Some(used)) => format!("its KV cache is {:.0} % used", used * 100.0),
        // Nothing shows a free place.
        (None, None) => return None,
    };
    // Free memory alone does not show a free place: the engine may run no more at once.
    let is = if engine.running_max.is_some() { "is" } else { "may be" };
    let text = format!(
        "the watermark of {watermark:.0} {is} too low for {id}: {idle} while requests wait"
    );
    let mut finding = StatusFinding::new(TOO_LOW, Level::Warning, text)
        .about(id)
        .lasting(LASTING_SECS)
        .figure("engine_running", engine.running)
        .figure("watermark", *watermark)
        .figure("waiting", depth)
        .advise(format!(
            "Leave {BOUND_KEYS} out: the gateway then finds the bound by the metrics. Or raise \
             them while the engine itself queues nothing. If the engine runs no more at once \
             (--max-num-seqs), the watermark is right: add a backend."
        ));
    if let Some(used) = engine.kv_used {
        finding = finding.figure("kv_used", used);
    }
    Some(finding)
}

/// The last reading of its metrics, unless it is old.
pub(super) fn reading(backend: &BackendCondition) -> Option<EngineState> {
    backend.engine.filter(|engine| engine.age_seconds < READING_SECS)
}

/// Whether requests wait that the backend could take below its watermark.
fn is_held_back(backend: &BackendCondition, situation: &Situation) -> bool {
    model_waits(backend, situation) && backend.stock as f64 >= backend.watermark
}

/// Whether requests wait for one of its models.
pub(super) fn model_waits(backend: &BackendCondition, situation: &Situation) -> bool {
    let waits = |model: &String| {
        situation.models.iter().any(|waits| waits.name == *model && waits.queue_depth > 0)
    };
    let any = situation.queue.depth > 0 && backend.models.iter().any(|model| model == "*");
    any || backend.models.iter().any(waits)
}

/// A watermark of 1 without any sign of free places. Most engines run more than one request at
/// once. Of a higher watermark nothing is known.
fn too_low_by_times(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let first_byte = backend.first_byte_ms? / 1e3;
    let objective = situation.queue.objective_seconds.unwrap_or(LONG_WAIT_SECS);
    let one_at_once = situation.stock.unit == "requests" && backend.watermark <= 1.0;
    let is_fast = first_byte <= objective * FAST_SHARE;
    if !one_at_once || !is_fast || !is_held_back(backend, situation) {
        return None;
    }
    let BackendCondition { id, watermark, .. } = backend;
    let text = format!(
        "the watermark of {watermark:.0} may be too low for {id}: it gets one request at once, \
         and its responses begin after {} while requests wait",
        span(first_byte)
    );
    let finding = StatusFinding::new(TOO_LOW, Level::Warning, text)
        .about(id)
        .lasting(TIMES_LASTING_SECS)
        .figure("watermark", *watermark)
        .figure("first_byte_ms", first_byte * 1e3)
        .figure("waiting", situation.queue.depth)
        .advise(format!(
            "Set {BOUND_KEYS} to the number of requests that the server runs at once. Without \
             metrics and without streams the gateway cannot find it, so do not leave them out. If \
             it is one, the watermark is right: add a backend."
        ));
    Some(finding)
}

/// A configured number that is too high for a backend whose metrics are not read.
fn too_high_unread(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let by_first_bytes = too_high_by_times(backend, situation);
    by_first_bytes.or_else(|| whole_response_rules::too_high(backend, situation))
}

/// First bytes that come late although no request waits in the gateway, at a backend with many
/// requests: they may wait inside the server.
fn too_high_by_times(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let first_byte = backend.stream_first_byte_ms.filter(|_| !backend.stream_first_byte_is_old);
    let first_byte = first_byte? / 1e3;
    let objective = situation.queue.objective_seconds?;
    let has_many = situation.stock.unit == "requests" && backend.in_flight >= MANY;
    if !has_many || first_byte <= objective || situation.queue.depth > 0 {
        return None;
    }
    let BackendCondition { id, watermark, in_flight, .. } = backend;
    let text = format!(
        "{} may be too high for {id}: {} are there, and a first byte takes {} although no request \
         waits in the gateway",
        configured_bound(backend),
        count(*in_flight, "request"),
        span(first_byte)
    );
    let finding = StatusFinding::new(TOO_HIGH, Level::Warning, text)
        .about(id)
        .lasting(LASTING_SECS)
        .figure("watermark", *watermark)
        .figure("in_flight", *in_flight)
        .figure("first_byte_ms", first_byte * 1e3)
        .figure("objective_ms", objective * 1e3)
        .advise(set_places(situation));
    Some(finding)
}
