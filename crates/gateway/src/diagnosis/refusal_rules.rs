//! The rule about requests that were not served.

use super::advice::more_capacity;
use super::finding::{Level, StatusFinding};
use super::queue_rules;
use super::sentence::count;
use super::situation::{FlowState, RefusalCount, Situation};

/// The rule about requests that were not served.
pub(super) const REFUSED: &str = "requests_refused";
/// It is trouble if more requests fail than are served, and at least so many.
const FAILING_LEAST: u32 = 5;
/// Error codes by which the gateway or its backends fail a sound request. Others are errors of
/// clients, or limits that an operator has set for a tenant.
pub(super) const UNSERVED: [&str; 15] = [
    "queue_timeout",
    "flow_full",
    "too_many_flows",
    "queue_full",
    "preempted",
    "not_critical",
    "queue_disabled",
    "wait_too_long",
    "backend_error",
    "failed_by_backend",
    "no_backend",
    "overloaded",
    "storage_full",
    "store_unavailable",
    "internal",
];
/// The refusals concern a flow that floods, and no other, if it has at least this share of them.
const CONTAINED_SHARE: f64 = 0.95;
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
        .advise(advice_for(reason, situation));
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

/// What to do about the most frequent error code.
fn advice_for(reason: &str, situation: &Situation) -> String {
    let advice = match reason {
        "flow_full" => "One flow has used its places. See /flows, and flow_capacity in [queue].",
        "queue_full" | "too_many_flows" => "The queue is full. Add a backend, or bound a flow.",
        "queue_timeout" | "wait_too_long" | "deadline_exceeded" => {
            return format!("Requests wait too long. {}", more_capacity(situation));
        }
        "preempted" => "Requests of higher bands took the places of lower ones. Add a backend.",
        "backend_error" => "Attempts at backends fail. See the findings about backends.",
        "failed_by_backend" => {
            "The backends answer with a 5xx status that no other attempt mends: see their logs."
        }
        "no_backend" => "See which model clients ask for, in the access log.",
        "storage_full" => {
            "The files of the Batch API have reached batch.files_limit, or their disk was full. \
             Delete files, or raise the limit."
        }
        _ => "The access log has each request with its reason.",
    };
    advice.to_owned()
}
