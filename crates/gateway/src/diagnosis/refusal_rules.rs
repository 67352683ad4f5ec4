//! The rule about requests that were not served.

use super::advice::more_capacity;
use super::finding::{Level, StatusFinding};
use super::queue_rules;
use super::sentence::count;
use super::situation::{ConnectionState, FlowState, RefusalCount, Situation};
use crate::error_codes::{Blame, ErrorCode};

/// The rule about requests that were not served.
pub(super) const REFUSED: &str = "requests_refused";
/// It is trouble if more requests fail than are served, and at least so many.
const FAILING_LEAST: u32 = 5;
/// The refusals concern a flow that floods, and no other, if it has at least this share of them.
const CONTAINED_SHARE: f64 = 0.95;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(refused(situation));
}

fn refused(situation: &Situation) -> Option<StatusFinding> {
    // Others are errors of clients, or limits that an operator has set for a tenant.
    let unserved = |refusal: &&RefusalCount| ErrorCode::of(refusal.reason).blame.is_ours();
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
    let code = ErrorCode::of(reason);
    match code.blame {
        Blame::Time => format!("Requests wait too long. {}", more_capacity(situation)),
        _ if reason == "overloaded" => {
            let ConnectionState { open, most, .. } = situation.connections;
            let requests = count(situation.queue.depth + situation.queue.in_flight, "request");
            format!("{} Now {open} of {most} are open, with {requests}.", code.advice())
        }
        _ => code.advice(),
    }
}
