//! Rules about a fixed watermark: too high, so that the engine queues, or too low, so that places
//! at the engine stay free while requests wait.

use super::finding::{Level, StatusFinding};
use super::sentence::count;
use super::situation::{BackendCondition, EngineState, Situation};

/// A reading of an engine is used up to this age.
pub(super) const READING_SECS: f64 = 10.0;
/// A wrong watermark shows for at least so long.
const LASTING_SECS: f64 = 2.0;
/// What comes before the further backends of a joined finding.
const ALSO: &str = "; the same at ";
/// Below this share of its KV cache an engine has room.
const KV_ROOM: f64 = 0.5;
/// The rule about one that is too high.
pub(super) const TOO_HIGH: &str = "watermark_too_high";
/// The rule about one that is too low.
pub(super) const TOO_LOW: &str = "watermark_too_low";

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    if situation.stock.mode != "fixed" {
        return;
    }
    for backend in situation.backends.iter().filter(|backend| backend.ready) {
        let Some(engine) = backend.engine.filter(|engine| engine.age_seconds < READING_SECS) else {
            continue;
        };
        found.extend(too_high(backend, engine, situation));
        found.extend(too_low(backend, engine, situation));
    }
}

/// Joins findings about several backends to one where the advice is the same.
pub(super) fn join(findings: &mut Vec<StatusFinding>) {
    let about = |finding: &StatusFinding| [TOO_HIGH, TOO_LOW].contains(&finding.id);
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
            "Leave controller.watermark_per_backend out: the gateway then finds the bound. Or set \
             it to about {}.",
            engine.running.max(1)
        ));
    Some(finding)
}

fn too_low(
    backend: &BackendCondition,
    engine: EngineState,
    situation: &Situation,
) -> Option<StatusFinding> {
    let model_waits = |model: &String| {
        situation.models.iter().any(|waits| waits.name == *model && waits.queue_depth > 0)
    };
    let waits = backend.models.iter().any(model_waits)
        || (situation.queue.depth > 0 && backend.models.iter().any(|model| model == "*"));
    let is_at_bound = backend.stock as f64 >= backend.watermark;
    let free = match engine.running_max {
        Some(most) => most.saturating_sub(engine.running),
        None => u32::from(engine.kv_used < KV_ROOM),
    };
    if !waits || !is_at_bound || engine.waiting > 0 || free == 0 || engine.kv_used >= KV_ROOM {
        return None;
    }
    let BackendCondition { id, watermark, .. } = backend;
    let depth = situation.queue.depth;
    let idle = match engine.running_max {
        Some(most) => format!("{free} of its {most} places are free"),
        None => format!("its KV cache is {:.0} % used", engine.kv_used * 100.0),
    };
    // Free memory alone does not show a free place: the engine may run no more at once.
    let is = if engine.running_max.is_some() { "is" } else { "may be" };
    let text = format!(
        "the watermark of {watermark:.0} {is} too low for {id}: {idle} while requests wait"
    );
    let finding = StatusFinding::new(TOO_LOW, Level::Warning, text)
        .about(id)
        .lasting(LASTING_SECS)
        .figure("engine_running", engine.running)
        .figure("kv_used", engine.kv_used)
        .figure("watermark", *watermark)
        .figure("waiting", depth)
        .advise(
            "Leave controller.watermark_per_backend out: the gateway then finds the bound. Or \
             raise it while the engine itself queues nothing. If the engine runs no more at once \
             (--max-num-seqs), the watermark is right: add a backend.",
        );
    Some(finding)
}
