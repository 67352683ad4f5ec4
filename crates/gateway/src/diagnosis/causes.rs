//! Which finding is the cause of another: the consequence then advises about its cause only. Two
//! findings with two different advices confuse.

use super::backend_rules::{DOWN, EJECTED, FAILING};
use super::finding::{EndedFinding, Level, StatusFinding};
use super::hang_rules::HUNG;
use super::memory::sort;
use super::places_rules::PLACES_UNKNOWN;
use super::queue_rules::{FLOOD, NEARLY_FULL, WILL_EXPIRE};
use super::refusal_rules::REFUSED;
use super::sentence::span;
use super::watermark_rules::TOO_LOW;
use crate::error_codes::{Blame, ErrorCode};

/// A finding that ended longer ago does not explain the refusals of the last minute.
const EXPLAINS_SECS: f64 = 120.0;
/// A request that fails is counted so much later at most.
const COUNTED_SECS: f64 = 3.0;
/// Findings about waits, which other findings cause.
const CONSEQUENCES: [&str; 2] = [NEARLY_FULL, WILL_EXPIRE];
/// A cause may be noticed so much later than its consequence.
const NOTICED_SECS: f64 = 5.0;

/// Points from consequences to their cause, where another finding is it: one that holds, or one
/// that has ended and left refusals behind. A request waits for at most the time to live.
pub(super) fn explain(findings: &mut [StatusFinding], recent: &[EndedFinding], ttl_seconds: f64) {
    for at in 0..findings.len() {
        if !CONSEQUENCES.contains(&findings[at].id) {
            continue;
        }
        let waits = |cause: &StatusFinding| !cause.is_past && explains_waits(cause);
        let cause = latest_before(findings, findings[at].began_secs, waits);
        let advice = cause.map(|cause| match findings[cause].id {
            // A further backend is of no use while places at this one may be free.
            id @ (TOO_LOW | PLACES_UNKNOWN) => format!("See {id}: a backend may have free places."),
            id => format!("See {id}: it explains these waits."),
        });
        if let Some(advice) = advice {
            findings[at].advice = advice;
        }
    }
    explain_refusals(findings, recent, ttl_seconds);
    sort(findings);
}

/// The cause that is the last change before a consequence that began so long ago: what was there
/// long before, without this consequence, does not explain it. Of causes that came after it, the
/// first one.
fn latest_before(
    findings: &[StatusFinding],
    began: f64,
    is_cause: impl Fn(&StatusFinding) -> bool,
) -> Option<usize> {
    let distance = |at: &usize| {
        let cause = &findings[*at];
        let before = cause.began_secs - began;
        // What has a cause of its own explains the least.
        let rank = (CONSEQUENCES.contains(&cause.id), before < -NOTICED_SECS);
        (rank, before.abs())
    };
    let causes = (0..findings.len()).filter(|&at| is_cause(&findings[at]));
    causes.min_by(|one, other| {
        let ((one_rank, one), (other_rank, other)) = (distance(one), distance(other));
        one_rank.cmp(&other_rank).then(one.total_cmp(&other))
    })
}

/// Whether requests wait because of it: fewer backends serve, one flow has most of the queue, or
/// places may stay free.
fn explains_waits(cause: &StatusFinding) -> bool {
    match cause.id {
        DOWN | EJECTED | HUNG | FLOOD | TOO_LOW | "no_backend_ready" => true,
        PLACES_UNKNOWN => cause.level > Level::Note,
        _ => fails_most(cause),
    }
}

/// Whether a backend fails most attempts, so that its requests wait for another one.
fn fails_most(cause: &StatusFinding) -> bool {
    let figure = |name| cause.evidence.get(name).copied().unwrap_or(0.0);
    cause.id == FAILING && figure("failed_per_minute") > figure("answered_per_minute")
}

fn explain_refusals(findings: &mut [StatusFinding], recent: &[EndedFinding], ttl_seconds: f64) {
    let Some(at) = findings.iter().position(|finding| finding.id == REFUSED) else { return };
    let (reason, level) = (findings[at].subject.clone().unwrap_or_default(), findings[at].level);
    let began = findings[at].began_secs;
    let is_time = ErrorCode::of(&reason).blame == Blame::Time;
    let held = latest_before(findings, began, |cause| {
        explains((cause.id, cause.level), &reason) || (is_time && fails_most(cause))
    });
    if let Some(cause) = held {
        let cause = &mut findings[cause];
        // What makes most requests fail is as bad as that.
        if [DOWN, EJECTED, HUNG].contains(&cause.id) && !cause.is_past {
            cause.level = cause.level.max(level);
        }
        findings[at].advice = format!("See {}: it explains these refusals.", cause.id);
        return;
    }
    let waits = ErrorCode::of(&reason).blame.is_capacity();
    let later = if waits { ttl_seconds } else { COUNTED_SECS };
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
    let blame = ErrorCode::of(reason).blame;
    let waits = blame.is_capacity();
    match id {
        "no_backend" | "no_backend_ready" => waits || blame == Blame::Backend,
        // The others have to serve its requests too, unless this one is trouble: then none does.
        DOWN | EJECTED | HUNG => {
            waits
                || reason == "backend_error"
                || (level == Level::Trouble && reason == "no_backend")
        }
        FAILING => reason == "backend_error",
        TOO_LOW => waits,
        PLACES_UNKNOWN => waits && level > Level::Note,
        WILL_EXPIRE => blame == Blame::Time,
        // A flow may be full in a queue that is not.
        NEARLY_FULL => blame == Blame::Place && reason != "flow_full",
        FLOOD | "one_flow" => blame == Blame::Place,
        "model_without_backend" => ["queue_timeout", "no_backend"].contains(&reason),
        "disk_full" | "store_failing" => blame == Blame::Storage,
        _ => false,
    }
}
