//! Which finding is the cause of another: the consequence then advises about its cause only. Two
//! findings with two different advices confuse.

use super::backend_rules::{DOWN, EJECTED};
use super::finding::{EndedFinding, Level, StatusFinding};
use super::hang_rules::HUNG;
use super::memory::sort;
use super::places_rules::PLACES_UNKNOWN;
use super::queue_rules::{FLOOD, NEARLY_FULL, WILL_EXPIRE};
use super::refusal_rules::REFUSED;
use super::sentence::span;
use super::watermark_rules::TOO_LOW;

/// A finding that ended longer ago does not explain the refusals of the last minute.
const EXPLAINS_SECS: f64 = 120.0;
/// A request that fails is counted so much later at most.
const COUNTED_SECS: f64 = 3.0;
/// Error codes of requests that waited in vain, or for which there was no place to wait.
const WAITS: [&str; 5] = ["queue_timeout", "wait_too_long", "queue_full", "preempted", "flow_full"];

/// Points from consequences to their cause, where another finding is it: one that holds, or one
/// that has ended and left refusals behind. A request waits for at most the time to live.
pub(super) fn explain(findings: &mut [StatusFinding], recent: &[EndedFinding], ttl_seconds: f64) {
    let waits = findings.iter().find(|cause| !cause.is_past && explains_waits(cause));
    let advice = waits.map(|cause| match cause.id {
        // A further backend is of no use while places at this one may be free.
        TOO_LOW | PLACES_UNKNOWN => format!("See {}: a backend may have free places.", cause.id),
        id => format!("See {id}: it explains these waits."),
    });
    let consequences =
        |finding: &&mut StatusFinding| [NEARLY_FULL, WILL_EXPIRE].contains(&finding.id);
    if let Some(advice) = advice {
        findings.iter_mut().filter(consequences).for_each(|one| one.advice.clone_from(&advice));
    }
    explain_refusals(findings, recent, ttl_seconds);
    sort(findings);
}

/// Whether requests wait because of it: fewer backends serve, one flow has most of the queue, or
/// places may stay free.
fn explains_waits(cause: &StatusFinding) -> bool {
    match cause.id {
        DOWN | EJECTED | HUNG | FLOOD | TOO_LOW | "no_backend_ready" => true,
        PLACES_UNKNOWN => cause.level > Level::Note,
        _ => false,
    }
}

fn explain_refusals(findings: &mut [StatusFinding], recent: &[EndedFinding], ttl_seconds: f64) {
    let Some(at) = findings.iter().position(|finding| finding.id == REFUSED) else { return };
    let (reason, level) = (findings[at].subject.clone().unwrap_or_default(), findings[at].level);
    let held = findings.iter_mut().find(|cause| explains((cause.id, cause.level), &reason));
    if let Some(cause) = held {
        // What makes most requests fail is as bad as that.
        if [DOWN, EJECTED, HUNG].contains(&cause.id) && !cause.is_past {
            cause.level = cause.level.max(level);
        }
        findings[at].advice = format!("See {}: it explains these refusals.", cause.id);
        return;
    }
    let later = if WAITS.contains(&reason.as_str()) { ttl_seconds } else { COUNTED_SECS };
    let latest = (findings[at].since_seconds + later).min(EXPLAINS_SECS);
    let ended = recent.iter().find(|cause| {
        cause.ended_seconds_ago <= latest && explains((cause.id, cause.level), &reason)
    });
    if let Some(cause) = ended {
        let (id, ago) = (cause.id, span(cause.ended_seconds_ago));
        findings[at].advice =
            format!("See {id}, which ended {ago} ago: it explains these refusals.");
    }
}

/// Whether another finding is the cause of refusals with this error code.
fn explains((id, level): (&str, Level), reason: &str) -> bool {
    let waits = WAITS.contains(&reason);
    let expires = ["queue_timeout", "wait_too_long"].contains(&reason);
    match id {
        "no_backend" | "no_backend_ready" => {
            waits || ["no_backend", "backend_error", "not_critical"].contains(&reason)
        }
        // The others have to serve its requests too, unless this one is trouble: then none does.
        DOWN | EJECTED | HUNG => {
            waits
                || reason == "backend_error"
                || (level == Level::Trouble && reason == "no_backend")
        }
        "backend_failing" => reason == "backend_error",
        TOO_LOW => waits,
        PLACES_UNKNOWN => waits && level > Level::Note,
        WILL_EXPIRE => expires,
        NEARLY_FULL => ["queue_full", "too_many_flows", "preempted"].contains(&reason),
        FLOOD | "one_flow" => ["flow_full", "queue_full", "preempted"].contains(&reason),
        "model_without_backend" => ["queue_timeout", "no_backend"].contains(&reason),
        "disk_full" | "store_failing" => ["storage_full", "store_unavailable"].contains(&reason),
        _ => false,
    }
}
