//! The rule about requests that were not served, and which other finding explains them.

use super::finding::{EndedFinding, Level, StatusFinding};
use super::queue_rules::{self, FLOOD, NEARLY_FULL, WILL_EXPIRE};
use super::sentence::{count, span};
use super::situation::{FlowState, RefusalCount, Situation};
use super::watermark_rules::TOO_LOW;

/// The rule about requests that were not served.
const REFUSED: &str = "requests_refused";
/// It is trouble if more requests fail than are served, and at least so many.
const FAILING_LEAST: u32 = 5;
/// Error codes by which the gateway or its backends fail a sound request. Others are errors of
/// clients, or limits that an operator has set for a tenant.
const UNSERVED: [&str; 14] = [
    "queue_timeout",
    "flow_full",
    "too_many_flows",
    "queue_full",
    "preempted",
    "not_critical",
    "queue_disabled",
    "wait_too_long",
    "backend_error",
    "no_backend",
    "overloaded",
    "storage_full",
    "store_unavailable",
    "internal",
];
/// The refusals concern a flow that floods, and no other, if it has at least this share of them.
const CONTAINED_SHARE: f64 = 0.95;
/// A finding that ended longer ago does not explain the refusals of the last minute.
const EXPLAINS_SECS: f64 = 120.0;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(refused(situation));
}

fn refused(situation: &Situation) -> Option<StatusFinding> {
    let unserved = |refusal: &&RefusalCount| UNSERVED.contains(&refusal.reason);
    let refusals = || situation.refusals.iter().filter(unserved);
    let worst = refusals().find(|refusal| refusal.last_minute > 0)?;
    let all: u64 = refusals().map(|refusal| refusal.last_minute).sum();
    let all = u32::try_from(all).unwrap_or(u32::MAX);
    let (requests, were) = (count(all, "request"), if all == 1 { "was" } else { "were" });
    let reason = worst.reason;
    let mostly = if worst.last_minute < all.into() { ", mostly" } else { ":" };
    let contained = flood_behind(all, situation);
    let of_flow = contained.map(|flow| format!(" of {}", flow.name)).unwrap_or_default();
    let text = format!("{requests}{of_flow} {were} not served in the last minute{mostly} {reason}");
    let most_fail = u64::from(all) > situation.queue.served_last_minute && all >= FAILING_LEAST;
    let trouble = most_fail && contained.is_none();
    let level = if trouble { Level::Trouble } else { Level::Warning };
    let finding = StatusFinding::new(REFUSED, level, text)
        .about(reason)
        .figure("last_minute", all)
        .figure("mostly", worst.last_minute as f64)
        .advise(advice_for(reason));
    Some(finding)
}

/// The flow that floods, if nearly all refused requests are its own: the others are served.
fn flood_behind(all: u32, situation: &Situation) -> Option<&FlowState> {
    let floods =
        |flow: &&FlowState| flow.flooded_lately || queue_rules::floods(flow, situation).is_some();
    let is_refused =
        |flow: &&FlowState| flow.refused_last_minute as f64 >= f64::from(all) * CONTAINED_SHARE;
    situation.flows.iter().filter(is_refused).find(floods)
}

/// Points from consequences to their cause, where another finding is it.
pub(super) fn explain(findings: &mut [StatusFinding], recent: &[EndedFinding]) {
    explain_refusals(findings, recent);
    if !findings.iter().any(|finding| finding.id == TOO_LOW) {
        return;
    }
    // A further backend is of no use while places at this one may be free.
    let waits = |finding: &&mut StatusFinding| [NEARLY_FULL, WILL_EXPIRE].contains(&finding.id);
    for finding in findings.iter_mut().filter(waits) {
        finding.advice = format!("See {TOO_LOW}: a backend may have free places.");
    }
}

/// Advises about the cause of refusals in place of the refusals, where another finding is it: one
/// that holds, or one that has ended and left refusals behind.
fn explain_refusals(findings: &mut [StatusFinding], recent: &[EndedFinding]) {
    let refused = |finding: &StatusFinding| finding.id == REFUSED;
    let Some(at) = findings.iter().position(refused) else { return };
    let reason = findings[at].subject.clone().unwrap_or_default();
    let held = findings.iter().find(|cause| explains((cause.id, cause.level), &reason));
    let lately = |cause: &&EndedFinding| cause.ended_seconds_ago <= EXPLAINS_SECS;
    let ended = || {
        let mut recent = recent.iter().filter(lately);
        recent.find(|cause| explains((cause.id, cause.level), &reason))
    };
    findings[at].advice = match held {
        Some(cause) => format!("See {}: it explains these refusals.", cause.id),
        None => ended().map_or_else(
            || advice_for(&reason).to_owned(),
            |cause| {
                let (id, ago) = (cause.id, span(cause.ended_seconds_ago));
                format!("See {id}, which ended {ago} ago: it explains these refusals.")
            },
        ),
    };
}

/// Whether another finding is the cause of refusals with this error code.
fn explains((id, level): (&str, Level), reason: &str) -> bool {
    let waits = ["queue_timeout", "wait_too_long", "queue_full", "preempted", "flow_full"];
    match id {
        "no_backend" | "no_backend_ready" => true,
        "backend_down" | "backend_ejected" if reason == "backend_error" => true,
        // Another backend serves its models unless this one is trouble.
        "backend_down" | "backend_ejected" => {
            level == Level::Trouble && (waits.contains(&reason) || reason == "no_backend")
        }
        "backend_failing" | "backend_hung" => reason == "backend_error",
        TOO_LOW => waits.contains(&reason),
        WILL_EXPIRE => ["queue_timeout", "wait_too_long"].contains(&reason),
        NEARLY_FULL => ["queue_full", "too_many_flows", "preempted"].contains(&reason),
        FLOOD | "one_flow" => ["flow_full", "queue_full", "preempted"].contains(&reason),
        "model_without_backend" => ["queue_timeout", "no_backend"].contains(&reason),
        "disk_full" | "store_failing" => ["storage_full", "store_unavailable"].contains(&reason),
        _ => false,
    }
}

/// What to do about the most frequent error code.
fn advice_for(reason: &str) -> &'static str {
    match reason {
        "flow_full" => "One flow has used its places. See /flows, and flow_capacity in [queue].",
        "queue_full" | "too_many_flows" => "The queue is full. Add a backend, or bound a flow.",
        "queue_timeout" | "wait_too_long" | "deadline_exceeded" => {
            "Requests wait too long. Add a backend, or bound the flow that sends most."
        }
        "preempted" => "Requests of higher bands took the places of lower ones. Add a backend.",
        "backend_error" => "Attempts at backends fail. See the findings about backends.",
        "no_backend" => "See which model clients ask for, in the access log.",
        "storage_full" => {
            "The files of the Batch API have reached batch.files_limit, or their disk was full. \
             Delete files, or raise the limit."
        }
        _ => "The access log has each request with its reason.",
    }
}
