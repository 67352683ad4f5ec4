//! The rules about requests that fail by the doing of their clients: a model or a path that nobody
//! serves, a wrong key, a body that no reader understands, a limit, a client that leaves too soon,
//! a priority that does not exist.
//!
//! A gateway that answers each of them in good order works as it should, and nobody is served. So
//! the verdict must not be green then, whoever is at fault.

use super::finding::{Level, StatusFinding};
use super::sentence::count;
use super::situation::{ClientMistake, Situation};
use crate::error_codes::{Blame, ErrorCode};

/// The rules about such requests, and about priorities that are no bands.
pub(super) const CLIENT_ERRORS: &str = "client_errors";
pub(super) const UNKNOWN_PRIORITY: &str = "unknown_priority";
/// The code of requests whose clients left.
const LEFT: &str = "client_closed";
/// Fewer requests, or a smaller share of all, are the mistakes of every day.
const ERRORS_LEAST: u64 = 5;
/// If most requests fail, so many are a finding.
const FAILING_LEAST: u64 = 2;
const ERRORS_SHARE: f64 = 0.1;
/// The most reasons that are told.
const REASONS_MAX: usize = 3;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(client_errors(situation));
    found.extend(unknown_priority(situation));
}

/// Of the work for the queue, and of all requests: reads are so many in places that they would hide
/// work that fails, or so few that only work is of interest.
fn client_errors(situation: &Situation) -> Vec<StatusFinding> {
    let Situation { refusals, queue, .. } = situation;
    let work = refusals.iter().map(|refusal| (refusal.reason, refusal.of_work));
    let all = refusals.iter().map(|refusal| (refusal.reason, refusal.last_minute));
    let mut found = errors_of((work, queue.served_last_minute), situation);
    let answered = queue.served_last_minute + situation.reads_last_minute;
    for other in errors_of((all, answered), situation) {
        if found.iter().all(|known| known.subject != other.subject) {
            // Somebody may try things.
            found.push(StatusFinding { level: Level::Warning, ..other });
        }
    }
    found.truncate(REASONS_MAX);
    found
}

/// The errors among requests that were refused for these reasons, beside so many that were served.
fn errors_of(
    (refusals, served): (impl Iterator<Item = (&'static str, u64)>, u64),
    situation: &Situation,
) -> Vec<StatusFinding> {
    let reasons: Vec<_> = refusals.chain([(LEFT, situation.left_last_minute)]).collect();
    let failed: u64 = reasons.iter().map(|(_, count)| count).sum();
    let all = failed + served;
    let most_fail = failed > served && failed >= FAILING_LEAST;
    let is_error = |&&(reason, count): &&(&str, u64)| {
        let many = count >= ERRORS_LEAST && count as f64 >= all as f64 * ERRORS_SHARE;
        // Some clients leave by design. That alone is a finding only if most do.
        let is_finding = most_fail && count > 0 || many && reason != LEFT;
        is_finding && !ErrorCode::of(reason).blame.is_ours()
    };
    let errors = reasons.iter().filter(is_error);
    errors.map(|&reason| client_error(reason, (all, served, most_fail), situation)).collect()
}

fn client_error(
    (reason, count): (&'static str, u64),
    (all, served, most_fail): (u64, u64, bool),
    situation: &Situation,
) -> StatusFinding {
    let mistake = situation.client_mistakes.iter().find(|mistake| mistake.reason == reason);
    let code = ErrorCode::of(reason);
    let failed = format!("{count} of {all} requests of the last minute");
    let text = format!("{failed} {}{}", code.happened(), of_whom(mistake));
    // A few requests may be those of one person who tries things.
    let is_known = !matches!(code.blame, Blame::Stranger | Blame::Nobody);
    let is_trouble = most_fail && count >= ERRORS_LEAST && is_known;
    let level = if is_trouble { Level::Trouble } else { Level::Warning };
    StatusFinding::new(CLIENT_ERRORS, level, text)
        .about(reason)
        .figure("last_minute", count as f64)
        .figure("served_last_minute", served as f64)
        .advise(advice(code, mistake))
}

/// Which flow failed most often, for which model, and at which path.
fn of_whom(mistake: Option<&ClientMistake>) -> String {
    let Some(ClientMistake { flow, model, path, .. }) = mistake else { return String::new() };
    let flow = Some(flow).filter(|flow| !["", "-", model].contains(&flow.as_str()));
    let parts = [
        flow.map(|flow| format!(" of {flow}")),
        Some(format!(" for {model:?}")).filter(|_| !model.is_empty()),
        Some(format!(" at {path}")).filter(|_| !path.is_empty()),
    ];
    let parts: String = parts.into_iter().flatten().collect();
    if parts.is_empty() { parts } else { format!(", mostly{parts}") }
}

fn advice(code: &ErrorCode, mistake: Option<&ClientMistake>) -> String {
    let meant = mistake.and_then(|mistake| Some((mistake, mistake.suggestion.as_ref()?)));
    match meant {
        Some((mistake, meant)) if !mistake.path.is_empty() => {
            format!("Did they mean {meant}? Mend the path, or the base URL, in the clients.")
        }
        Some((ClientMistake { model, .. }, meant)) => format!(
            "Did they mean {meant:?}? Mend the name in the clients, or let it stand for that \
             model: [[models]] with name = {model:?} and targets = [{{ model = {meant:?} }}]."
        ),
        None => code.advice(),
    }
}

fn unknown_priority(situation: &Situation) -> Option<StatusFinding> {
    let lately = situation.unknown_priorities_last_minute;
    if lately == 0 {
        return None;
    }
    let value = &situation.unknown_priority;
    let requests = count(u32::try_from(lately).unwrap_or(u32::MAX), "request");
    let text = format!(
        "{requests} of the last minute named a priority that does not exist, such as {value:?}: it \
         has no effect"
    );
    let finding = StatusFinding::new(UNKNOWN_PRIORITY, Level::Note, text)
        .figure("last_minute", lately as f64)
        .advise(
            "X-Priority is critical, high, normal or best-effort, and X-Nexus-Priority is high or \
             normal (docs/HEADERS.md).",
        );
    Some(finding)
}
