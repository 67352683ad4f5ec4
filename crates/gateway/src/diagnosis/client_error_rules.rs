//! The rules about requests that fail by the doing of their clients: a model that nobody serves, a
//! wrong key, a body that no reader understands, a limit, a priority that does not exist.
//!
//! A gateway that answers each of them in good order works as it should, and nobody is served. So
//! the verdict must not be green then, whoever is at fault.

use super::finding::{Level, StatusFinding};
use super::refusal_rules::UNSERVED;
use super::sentence::count;
use super::situation::{ClientMistake, RefusalCount, Situation};

/// The rules about such requests, and about priorities that are no bands.
pub(super) const CLIENT_ERRORS: &str = "client_errors";
pub(super) const UNKNOWN_PRIORITY: &str = "unknown_priority";
/// Fewer requests, or a smaller share of all, are the mistakes of every day.
const ERRORS_LEAST: u64 = 5;
/// If most requests fail, so many are a finding.
const FAILING_LEAST: u64 = 2;
const ERRORS_SHARE: f64 = 0.1;
/// The most reasons that are told.
const REASONS_MAX: usize = 3;
/// Codes of requests whose client is not known: anybody can send them.
pub(super) const STRANGERS: [&str; 4] =
    ["missing_api_key", "invalid_api_key", "expired_api_key", "invalid_token"];

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(client_errors(situation));
    found.extend(unknown_priority(situation));
}

fn client_errors(situation: &Situation) -> Vec<StatusFinding> {
    let failed: u64 = situation.refusals.iter().map(|refusal| refusal.of_work).sum();
    let all = failed + situation.queue.served_last_minute;
    let most_fail = failed > situation.queue.served_last_minute && failed >= FAILING_LEAST;
    let is_error = |refusal: &&RefusalCount| {
        let count = refusal.of_work;
        let many = count >= ERRORS_LEAST && count as f64 >= all as f64 * ERRORS_SHARE;
        !UNSERVED.contains(&refusal.reason) && (many || (most_fail && count > 0))
    };
    let reasons = situation.refusals.iter().filter(is_error).take(REASONS_MAX);
    reasons.map(|refusal| client_error(refusal, (all, most_fail), situation)).collect()
}

fn client_error(
    refusal: &RefusalCount,
    (all, most_fail): (u64, bool),
    situation: &Situation,
) -> StatusFinding {
    let reason = refusal.reason;
    let mistake = situation.client_mistakes.iter().find(|mistake| mistake.reason == reason);
    let failed = format!("{} of {all} requests of the last minute", refusal.of_work);
    let text = format!("{failed} {}{}", what_happened(reason), of_whom(mistake));
    // A few requests may be those of one person who tries things.
    let is_trouble = most_fail && refusal.of_work >= ERRORS_LEAST && !STRANGERS.contains(&reason);
    let level = if is_trouble { Level::Trouble } else { Level::Warning };
    StatusFinding::new(CLIENT_ERRORS, level, text)
        .about(reason)
        .figure("last_minute", refusal.of_work as f64)
        .figure("served_last_minute", situation.queue.served_last_minute as f64)
        .advise(advice(reason, mistake))
}

fn what_happened(reason: &str) -> String {
    match reason {
        "model_not_found" => "asked for a model that no backend has".to_owned(),
        "missing_api_key" => "came without an API key".to_owned(),
        "invalid_api_key" => "came with an unknown API key".to_owned(),
        "expired_api_key" => "came with an expired API key".to_owned(),
        "invalid_token" => "came with a token that is not accepted".to_owned(),
        "refused_by_backend" => "were refused by their backend with a 4xx status".to_owned(),
        code => format!("were refused with {code}"),
    }
}

/// Which flow failed most often, and for which model.
fn of_whom(mistake: Option<&ClientMistake>) -> String {
    let Some(ClientMistake { flow, model, .. }) = mistake else { return String::new() };
    match (flow.as_str(), model.as_str()) {
        ("" | "-", "") => String::new(),
        ("" | "-", model) => format!(", mostly for {model:?}"),
        (flow, "") => format!(", mostly of {flow}"),
        (flow, model) if flow == model => format!(", mostly for {model:?}"),
        (flow, model) => format!(", mostly of {flow} for {model:?}"),
    }
}

fn advice(reason: &str, mistake: Option<&ClientMistake>) -> String {
    let text = match reason {
        "model_not_found" => return model_advice(mistake),
        "missing_api_key" => {
            "The clients have no key: send it as `Authorization: Bearer KEY`. `tidegate key new` \
             makes one."
        }
        "invalid_api_key" | "expired_api_key" | "invalid_token" => {
            "Give the clients a key that is in force (`tidegate key new`), or find out who \
             guesses: the access log has each request if log.access is on."
        }
        "refused_by_backend" => {
            "The model server does not accept these requests: see its log, and the error that \
             clients get. A request that it never accepts fails again when it is sent again."
        }
        "rate_limited" => "These tenants are at their limits in [[tenants]]: raise them, or wait.",
        _ => "The access log has each request with its reason (log.access).",
    };
    text.to_owned()
}

fn model_advice(mistake: Option<&ClientMistake>) -> String {
    let meant = mistake.and_then(|mistake| Some((&mistake.model, mistake.suggestion.as_ref()?)));
    match meant {
        Some((asked, meant)) => format!(
            "Did they mean {meant:?}? Mend the name in the clients, or let it stand for that \
             model: [[models]] with name = {asked:?} and targets = [{{ model = {meant:?} }}]."
        ),
        None => {
            "Clients must ask for a name that GET /v1/models lists. A name of their own becomes \
                 one by an entry in [[models]] with its targets."
                .to_owned()
        }
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
