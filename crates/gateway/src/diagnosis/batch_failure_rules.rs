//! The rule about batch queues whose messages fail, whoever is at fault: a wrong path or model, a
//! target that fails, deadlines that pass.
//!
//! A dispatcher that stores each error in good order works as it should, and nobody is served. So
//! the verdict must not be green then.

use std::cmp::Reverse;

use super::finding::{Level, StatusFinding};
use super::situation::{BatchAttempts, BatchQueueState, Situation};

/// The rule.
const FAILING: &str = "batch_requests_fail";
/// So many failures of most attempts are trouble. Fewer may be somebody who tries things.
const TROUBLE_LEAST: u64 = 5;
/// A single failure is told after this time: the next attempt may be served.
const LASTING_SECS: f64 = 5.0;
/// The most reasons that are told.
const REASONS_MAX: usize = 3;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(situation.batch_queues.iter().filter_map(failing));
}

/// A finding about a queue of whose attempts most failed in the last minute.
fn failing(queue: &BatchQueueState) -> Option<StatusFinding> {
    let attempts = &queue.attempts_last_minute;
    let (failed, name) = (attempts.failures(), &queue.name);
    if failed <= attempts.served {
        return None;
    }
    let mut reasons: Vec<(&str, u64)> =
        attempts.failed.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    let told = reasons.iter().take(REASONS_MAX).map(|(reason, count)| format!("{count} {reason}"));
    let told = told.collect::<Vec<_>>().join(", ");
    let all = failed + attempts.served;
    let mut text =
        format!("{failed} of {all} attempts of the batch queue {name} failed in the last minute: ");
    text += &told;
    if attempts.dead > 0 {
        let letters = if attempts.dead == 1 { "letter" } else { "letters" };
        text += &format!(" ({} new dead {letters})", attempts.dead);
    }
    let level = if failed >= TROUBLE_LEAST { Level::Trouble } else { Level::Warning };
    let lasting = if failed > 1 { 0.0 } else { LASTING_SECS };
    let main = reasons.first().map_or("", |(reason, _)| *reason);
    let finding = StatusFinding::new(FAILING, level, text)
        .about(name)
        .lasting(lasting)
        .figure("failed_last_minute", failed as f64)
        .figure("served_last_minute", attempts.served as f64)
        .figure("dead_letters_last_minute", attempts.dead as f64)
        .advise(advice(main, name, attempts));
    Some(finding)
}

/// What to do about the most frequent reason.
fn advice(reason: &str, queue: &str, attempts: &BatchAttempts) -> String {
    let dead = match attempts.dead {
        0 => String::new(),
        _ => format!(
            " `tidegate dispatch dead list --queue {queue}` shows the dead letters, and \
             `dead redrive` sends them again."
        ),
    };
    format!("{}{dead}", main_advice(reason))
}

fn main_advice(reason: &str) -> &'static str {
    match reason {
        "status 404" => {
            "The target does not know the model or the path: compare `model` in the messages with \
             GET /v1/models of the target, and see `path` and `target` of the queue."
        }
        "status 401" | "status 403" => {
            "The target does not let these requests in: see which key the messages carry in their \
             `headers`, and what the target allows it."
        }
        "deadline exceeded" => {
            "The deadlines of these messages passed before they were served: submit messages \
             earlier or with later deadlines. `tidegate dispatch explain` shows what holds the \
             queue back."
        }
        "without an answer before the deadline" => {
            "These messages were sent, and the target did not answer before their deadlines: see \
             its log, and whether it answers at all."
        }
        "invalid request" | "payload unavailable" => {
            "These messages cannot be sent: each result says what its message lacks. Mend the \
             program that submits them."
        }
        client_error if client_error.starts_with("status 4") => {
            "The target does not accept these requests: each result has its error. A request that \
             it never accepts fails again when it is submitted again."
        }
        _ => {
            "The target fails on these requests: see its log. They are sent again with growing \
             pauses until their deadlines, or as often as `dispatch.attempts` allows."
        }
    }
}
