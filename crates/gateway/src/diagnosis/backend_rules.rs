//! Rules about backends: down, ejected, failing, hung.

use super::finding::{Level, StatusFinding};
use super::hang_rules;
use super::situation::{BackendCondition, Situation};
use super::slow_rules;

/// The rules about one that is lost.
pub(super) const DOWN: &str = "backend_down";
pub(super) const EJECTED: &str = "backend_ejected";
pub(super) const FAILING: &str = "backend_failing";
/// A backend fails if this share of its attempts fails, and so many in a minute, for so long.
const FAILING_SHARE: f64 = 0.1;
const FAILING_PER_MINUTE: f64 = 3.0;
const FAILING_SECS: f64 = 2.0;
/// A backend refuses if this share of its last responses does, of at least so many.
const REFUSING_SHARE: f64 = 0.8;
const REFUSING_LEAST: u32 = 20;
/// A backend that fails is ejected again and again. Its other findings need so long to show that.
const EJECTED_KEPT_SECS: f64 = 30.0;
/// A backend may be full or start for so long.
const FULL_SECS: f64 = 10.0;
const STARTING_SECS: f64 = 30.0;
/// A server that answers may give no model list for so long. A finding about it stays for the other
/// time, because a server that refuses requests may also fail every other health check.
const LIST_SECS: f64 = 10.0;
const LIST_KEPT_SECS: f64 = 30.0;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    if !situation.has_backends {
        return;
    }
    let Situation { backends, backends_ready, backends_total, .. } = situation;
    found.extend(situation.discovery.iter().map(|problem| discovery(problem)));
    found.extend(situation.discovery_left_out.iter().map(|problem| left_out(problem)));
    if *backends_total == 0 && situation.discovery.is_empty() {
        found.push(none(situation));
    } else if *backends_ready == 0 {
        found.push(all_down(situation));
    }
    for backend in backends {
        check_backend(backend, situation, found);
    }
}

fn check_backend(
    backend: &BackendCondition,
    situation: &Situation,
    found: &mut Vec<StatusFinding>,
) {
    found.extend(state_of(backend, situation));
    if backend.ready {
        found.extend(failing(backend));
        found.extend(refusing(backend, situation));
        found.extend(slow_rules::slow(backend, situation));
    }
    found.extend(hang_rules::hung(backend, situation));
}

/// Why backends are not known.
fn discovery(problem: &str) -> StatusFinding {
    let text = format!("discovery in Kubernetes: {problem}");
    StatusFinding::new("discovery_failing", Level::Trouble, text).about(problem).advise(
        "Backends that were found before stay in use, unless the pool was deleted. \
         docs/KUBERNETES.md has the role that the service account needs. The gateway tries again \
         by itself.",
    )
}

/// Objects of the cluster that are not used.
fn left_out(problem: &str) -> StatusFinding {
    let text = format!("discovery in Kubernetes: {problem}");
    StatusFinding::new("discovery_incomplete", Level::Warning, text)
        .about(problem)
        .advise("Correct the objects that are left out. The others are used.")
}

fn none(situation: &Situation) -> StatusFinding {
    let Situation { discovery_empty, queue, .. } = situation;
    if discovery_empty.is_empty() {
        let text = "there is no backend".to_owned();
        return StatusFinding::new("no_backend", Level::Trouble, text).advise(
            "Name a model server with --backend URL or [[backends]], or start one on this machine.",
        );
    }
    // A pool may be scaled to zero: then nothing is wrong until requests wait.
    let level = if queue.depth > 0 { Level::Warning } else { Level::Note };
    let text = format!("there is no backend: {}", discovery_empty.join("; "));
    StatusFinding::new("no_backend", level, text).figure("waiting", queue.depth).advise(
        "Requests wait for the first one, up to queue.hold_ttl. If none comes, compare the \
         selector with the labels of the pods, and see whether the pods have an address.",
    )
}

fn all_down(situation: &Situation) -> StatusFinding {
    let reasons = situation.backends.iter().filter(|backend| backend.state != "leaving").take(3);
    let reasons = reasons.map(|backend| {
        format!("{}: {}", backend.id, backend.reason.as_deref().unwrap_or(backend.state))
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let starting = situation.backends.iter().all(|backend| backend.state == "starting");
    let level = if starting { Level::Warning } else { Level::Trouble };
    let stay = || situation.backends.iter().filter(|backend| backend.state != "leaving");
    let is_drained = |backend: &BackendCondition| backend.state == "draining";
    let drained = stay().next().is_some() && stay().all(is_drained);
    let why = if drained { ", because every one is drained" } else { "" };
    let reasons = if reasons.is_empty() { reasons } else { format!(" ({reasons})") };
    let text = format!("no backend is ready{why}{reasons}");
    StatusFinding::new("no_backend_ready", level, text)
        .figure("backends", situation.backends_total as f64)
        .figure("waiting", situation.queue.depth)
        .advise(ready_again(situation, drained))
}

/// What makes a backend ready: its server may run and fail, or an operator may have drained it.
fn ready_again(situation: &Situation, all_drained: bool) -> String {
    let backends = || situation.backends.iter().filter(|backend| backend.state != "leaving");
    let is_tried = |backend: &&BackendCondition| matches!(backend.state, "ejected" | "on_trial");
    let by_operator = backends().find(|backend| backend.drained_by_operator);
    let undo = by_operator.map(|backend| format!("`tidegate drain {} --undo`", backend.id));
    let first = match backends().find(is_tried) {
        Some(tried) => mend_server(tried),
        None => "Start a model server, or correct its address.".to_owned(),
    };
    let first = match undo {
        Some(undo) if all_drained => format!("{undo} lets it serve again."),
        Some(undo) => format!("{first} {undo} lets the drained one serve again."),
        None => first,
    };
    format!("{first} Requests wait until their time to live ends.")
}

/// What to do about a server that runs and fails.
fn mend_server(backend: &BackendCondition) -> String {
    format!(
        "Read the log of the model server at {}, and restart it if it hangs. The gateway tries it \
         again by itself.",
        backend.url
    )
}

/// A finding about a backend that gets no requests.
fn state_of(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let BackendCondition { id, reason, .. } = backend;
    let why = reason.as_deref().unwrap_or("the reason is unknown");
    let level = if is_needed(backend, situation) { Level::Trouble } else { Level::Warning };
    let finding = match backend.state {
        "starting" if backend.list_failing_seconds.is_some_and(|secs| secs >= LIST_SECS) => {
            let text = format!("{id} gets no requests: {why}");
            StatusFinding::new("model_list_unknown", level, text)
                .kept(LIST_KEPT_SECS, format!("{id} got no requests ({why}) until"))
                .advise(format!(
                    "Let the gateway read the model list of the server at {}: it may need a key \
                     (api_key_env), or a rule of the network. Or list its models in [[backends]].",
                    backend.url
                ))
        }
        "unready" => {
            let text = format!("{id} is down: {why}");
            StatusFinding::new(DOWN, level, text).advise(reach(backend))
        }
        "ejected" | "on_trial" => {
            let text = match backend.state {
                "ejected" => format!("{id} is ejected: {why}"),
                _ => format!("{id} is on trial, with one request at a time: {why}"),
            };
            let back = backend.returns_in_seconds.unwrap_or(0.0);
            StatusFinding::new(EJECTED, level, text)
                .kept(EJECTED_KEPT_SECS, format!("{id} was ejected ({why}) until"))
                .past_at_once()
                .figure("returns_in_seconds", back)
                .advise(mend_server(backend))
        }
        "full" => {
            let text = format!("{id} reports that it is full: {why}");
            StatusFinding::new("backend_full", Level::Warning, text).lasting(FULL_SECS).advise(
                "Another client may use this model server, or its own limit is below the \
                 watermark. Lower controller.watermark_per_backend, or leave it out.",
            )
        }
        "draining" => {
            let text = format!("{id} gets no new requests: {why}");
            StatusFinding::new("backend_draining", Level::Note, text).advise(
                "It finishes its requests. If an operator drains it, `tidegate drain ID --undo` \
                 ends that.",
            )
        }
        "starting" => {
            let text = format!("{id} is not ready yet: {why}");
            StatusFinding::new("backend_starting", Level::Warning, text)
                .lasting(STARTING_SECS)
                .advise("Wait until the model is loaded.")
        }
        _ => return None,
    };
    Some(finding.about(id).figure("in_flight", backend.in_flight))
}

/// What to do about a backend that is down.
fn reach(backend: &BackendCondition) -> String {
    let url = &backend.url;
    if backend.is_own_gateway {
        return format!(
            "Its address {url} is one of this gateway. Correct its url in [[backends]] to that of \
             a model server, or take it out."
        );
    }
    let first = match backend.lacks_address {
        true => format!("Correct the name in its address {url}, or see the DNS of this machine."),
        false => {
            format!("See whether the model server at {url} runs and can be reached from here.")
        }
    };
    format!("{first} The gateway checks it again by itself.")
}

/// Whether no other backend serves one of its models.
fn is_needed(backend: &BackendCondition, situation: &Situation) -> bool {
    let serves = |model: &String| {
        situation.backends.iter().any(|other| {
            other.ready && other.models.iter().any(|listed| listed == model || listed == "*")
        })
    };
    situation.backends_ready == 0 || backend.models.iter().any(|model| !serves(model))
}

fn failing(backend: &BackendCondition) -> Option<StatusFinding> {
    let (failed, answered) = (backend.failed_per_minute, backend.answered_per_minute);
    let share = failed / (failed + answered).max(1.0);
    if failed < FAILING_PER_MINUTE || share < FAILING_SHARE {
        return None;
    }
    let why = backend.last_error.as_deref().unwrap_or("the reason is unknown");
    let (id, percent, all) = (&backend.id, share * 100.0, failed + answered);
    let text = format!(
        "{failed:.0} of the {all:.0} attempts at {id} in the last minute failed ({percent:.0} %): \
         {why}"
    );
    let finding = StatusFinding::new(FAILING, Level::Warning, text)
        .about(id)
        .lasting(FAILING_SECS)
        .figure("failed_per_minute", failed)
        .figure("answered_per_minute", answered)
        .advise(format!(
            "Read the log of the model server at {}. The gateway sends failed requests elsewhere \
             and ejects the backend after failures in a row.",
            backend.url
        ));
    Some(finding)
}

/// A backend that answers, and serves nothing. It answers fast, so the router may prefer it.
fn refusing(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let BackendCondition { id, url, last_responses, last_refused, refusal_status, .. } = backend;
    if !refuses(backend) {
        return None;
    }
    let serves = |other: &BackendCondition| {
        let same = |model: &String| model == "*" || backend.models.contains(model);
        other.ready && other.id != *id && !refuses(other) && other.models.iter().any(same)
    };
    let is_served = situation.backends.iter().any(serves);
    let level = if is_served { Level::Warning } else { Level::Trouble };
    let text = format!(
        "{id} refuses requests: {last_refused} of its last {last_responses} responses are \
         refusals, the last with status {refusal_status}"
    );
    let cause = match refusal_status {
        401 | 403 => "wants another key: see api_key_env and api_key_file of this backend",
        300..=399 => "sends clients elsewhere: see its address, which may need https",
        404 | 405 | 501 => {
            "does not know the path or the model: see its address, and for which task it was \
             started"
        }
        _ => "refuses what it should serve: read its log",
    };
    let finding = StatusFinding::new("backend_refusing", level, text)
        .about(id)
        .figure("responses", *last_responses)
        .figure("refused", *last_refused)
        .figure("status", *refusal_status)
        .advise(format!(
            "The model server at {url} {cause}. Until then, `tidegate drain {id}` keeps new \
             requests away from it: the router may prefer it, because it answers fast."
        ));
    Some(finding)
}

fn refuses(backend: &BackendCondition) -> bool {
    let share = f64::from(backend.last_refused) / f64::from(backend.last_responses.max(1));
    backend.last_responses >= REFUSING_LEAST && share >= REFUSING_SHARE
}
