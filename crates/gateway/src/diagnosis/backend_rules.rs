//! Rules about backends: down, ejected, failing, slow, hung.

use super::finding::{Level, StatusFinding};
use super::sentence::{count, span};
use super::situation::{BackendCondition, Situation};
use super::token_rules;
use super::watermark_rules::READING_SECS;

/// A backend is slow if it takes this many times as long as the others, and so much longer.
const SLOW_TIMES: f64 = 3.0;
const SLOW_MORE_MS: f64 = 100.0;
/// The same for the time from token to token.
const SLOW_TOKEN_MORE_MS: f64 = 20.0;
/// A slow backend stays slow down to this part of these bounds.
const SLOW_ENDS_AT: f64 = 0.6;
/// How long a backend is slower than its peers before it is found. A time from token to token may
/// come from one response.
const SLOW_SECS: f64 = 2.0;
const SLOW_TOKEN_SECS: f64 = 5.0;
/// The finding outlasts such a time in which it is not found: short after a moment, and long once
/// it is shown.
const MOMENT_SECS: f64 = 3.0;
const SLOW_KEPT_SECS: f64 = 30.0;
/// The rule about a slow one.
pub(super) const SLOW: &str = "backend_slow";
/// A backend misses the objective for so long.
const ALONE_SECS: f64 = 5.0;
/// A backend is hung if it has had requests without a sign of life for this many times its usual
/// time to a first byte, and for so many seconds.
const HUNG_TIMES: f64 = 5.0;
const HUNG_SECS: f64 = 10.0;
/// The same for a backend that has answered no request yet: it may load its model.
const COLD_HUNG_SECS: f64 = 30.0;
/// A backend that hangs now and then is one finding.
const HUNG_KEPT_SECS: f64 = 60.0;
/// A backend fails if this share of its attempts fails, and so many in a minute, for so long.
const FAILING_SHARE: f64 = 0.1;
const FAILING_PER_MINUTE: f64 = 3.0;
const FAILING_SECS: f64 = 2.0;
/// A backend may be full or start for so long.
const FULL_SECS: f64 = 10.0;
const STARTING_SECS: f64 = 30.0;

/// A time that a backend takes, in milliseconds.
type Figure = fn(&BackendCondition) -> Option<f64>;

/// Times of long ago are no figures.
const STREAM: Figure =
    |backend| backend.stream_first_byte_ms.filter(|_| !backend.stream_first_byte_is_old);
const WHOLE: Figure = |backend| backend.latency_ms.filter(|_| !backend.latency_is_old);

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
        let alone = || misses_objective(backend, situation);
        let tokens = || token_rules::slow_tokens(backend, situation);
        found.extend(slow(backend, &situation.backends).or_else(alone).or_else(tokens));
    }
    found.extend(hung(backend));
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
        .advise(ready_again(stay().find(|backend| backend.drained_by_operator), drained))
}

/// What makes a backend ready: the operator may have drained this one.
fn ready_again(by_operator: Option<&BackendCondition>, all_drained: bool) -> String {
    let undo = by_operator.map(|backend| format!("`tidegate drain {} --undo`", backend.id));
    let first = match undo {
        Some(undo) if all_drained => format!("{undo} lets it serve again."),
        Some(undo) => format!(
            "Start a model server, or correct its address. {undo} lets the drained one serve again."
        ),
        None => "Start a model server, or correct its address.".to_owned(),
    };
    format!("{first} Requests wait until their time to live ends.")
}

/// A finding about a backend that gets no requests.
fn state_of(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let BackendCondition { id, reason, .. } = backend;
    let why = reason.as_deref().unwrap_or("the reason is unknown");
    let level = if is_needed(backend, situation) { Level::Trouble } else { Level::Warning };
    let finding = match backend.state {
        "unready" => {
            let text = format!("{id} is down: {why}");
            StatusFinding::new("backend_down", level, text).advise(format!(
                "See whether the model server at {} runs and can be reached from here. The \
                 gateway checks it again by itself.",
                backend.url
            ))
        }
        "ejected" | "on_trial" => {
            let text = format!("{id} is ejected: {why}");
            let back = backend.returns_in_seconds.unwrap_or(0.0);
            StatusFinding::new("backend_ejected", level, text)
                .figure("returns_in_seconds", back)
                .advise(format!(
                    "Read the log of the model server at {}. The gateway tries it again by itself.",
                    backend.url
                ))
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
                .advise(
                    "Wait until the model is loaded. If the server refuses its model list, \
                     allow it, or list the models in [[backends]].",
                )
        }
        _ => return None,
    };
    Some(finding.about(id).figure("in_flight", backend.in_flight))
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
    let (id, percent) = (&backend.id, share * 100.0);
    let text = format!("{percent:.0} % of the attempts at {id} fail: {why}");
    let finding = StatusFinding::new("backend_failing", Level::Warning, text)
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

fn slow(backend: &BackendCondition, all: &[BackendCondition]) -> Option<StatusFinding> {
    let peers = |other: &&BackendCondition| {
        other.ready && other.id != backend.id && shares_model(other, backend)
    };
    let peers: Vec<&BackendCondition> = all.iter().filter(peers).collect();
    let first = slower(backend, &peers, (STREAM, SLOW_MORE_MS)).map(|times| ("first byte", times));
    let token = slower_tokens(backend, &peers).map(|times| ("token", times));
    let length = slower(backend, &peers, (WHOLE, SLOW_MORE_MS)).map(|t| ("whole response", t));
    let length = length.filter(|_| !is_long(backend, &peers));
    let ratio = |(_, (own, usual)): &(&str, (f64, f64))| own / usual.max(1.0);
    let found = [length, token, first].into_iter().flatten();
    let (what, (own, usual)) = found.max_by(|one, other| ratio(one).total_cmp(&ratio(other)))?;
    let (id, times) = (&backend.id, own / usual.max(1.0));
    let text = format!(
        "{id} is slow: a {what} takes {}, {times:.0} times as long as at its peers",
        span(own / 1e3)
    );
    let finding = StatusFinding::new(SLOW, Level::Warning, text)
        .about(id)
        .lasting(if what == "token" { SLOW_TOKEN_SECS } else { SLOW_SECS })
        .kept(slow_kept(backend), format!("{id} was slow until"))
        .figure("own_ms", own)
        .figure("peers_ms", usual)
        .advise(format!(
            "See whether {} shares its GPU, is throttled or has other settings than its peers. \
             Until then, take it out of [[backends]].",
            backend.url
        ));
    Some(finding)
}

/// A backend whose first tokens come later than the objective although no request waits: no order
/// of the queue can help, and it may have no peer that shows how slow it is.
fn misses_objective(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let own = STREAM(backend)? / 1e3;
    let objective = situation.queue.objective_seconds?;
    if own <= objective || backend.answered_per_minute == 0.0 || backend.idle {
        return None;
    }
    // While requests wait, a longer time says less. It does not begin the finding, nor end it.
    let waits = situation.queue.depth > 0;
    if (waits && !backend.was_slow) || waits_inside(backend) {
        return None;
    }
    let id = &backend.id;
    let when = if waits { "once the request is sent" } else { "although no request waits" };
    let text = format!(
        "{id} is slow: a first token takes {} {when}, and the objective is {}",
        span(own),
        span(objective)
    );
    let finding = StatusFinding::new(SLOW, Level::Warning, text)
        .about(id)
        .lasting(ALONE_SECS)
        .kept(slow_kept(backend), format!("{id} was slow until"))
        .figure("own_ms", own * 1e3)
        .figure("objective_ms", objective * 1e3)
        .advise(format!(
            "See whether {} shares its GPU, is throttled, or gets longer prompts than it can \
             compute in time. If this is its usual speed, raise queue.slo_ttft: requests count as \
             late before they could be served.",
            backend.url
        ));
    Some(finding)
}

/// Whether requests wait inside the engine, or did so of late: that explains late first tokens.
fn waits_inside(backend: &BackendCondition) -> bool {
    let engine = backend.engine.filter(|engine| engine.age_seconds < READING_SECS);
    let queues = engine.is_some_and(|engine| {
        let places = engine.running_max.unwrap_or(engine.running);
        engine.waiting > 0 || backend.in_flight > places.max(engine.running)
    });
    queues || backend.queued_lately
}

/// The backend's own time and that of its peers, if its own is far longer.
fn slower(
    backend: &BackendCondition,
    peers: &[&BackendCondition],
    (figure, more_ms): (Figure, f64),
) -> Option<(f64, f64)> {
    let own = figure(backend)?;
    let usual = median(peers.iter().filter_map(|peer| figure(peer)).collect())?;
    let part = if backend.was_slow { SLOW_ENDS_AT } else { 1.0 };
    let is_slower = own >= usual * SLOW_TIMES * part && own >= usual + more_ms * part;
    is_slower.then_some((own, usual))
}

/// The same for the time from token to token. It grows with the number of streams, so peers with
/// far fewer requests do not count.
fn slower_tokens(backend: &BackendCondition, peers: &[&BackendCondition]) -> Option<(f64, f64)> {
    let as_busy = |peer: &&&BackendCondition| peer.in_flight * 2 >= backend.in_flight;
    let peers: Vec<&BackendCondition> = peers.iter().filter(as_busy).copied().collect();
    let token: Figure = |backend| backend.token_ms.filter(|_| !backend.token_ms_is_old);
    slower(backend, &peers, (token, SLOW_TOKEN_MORE_MS))
}

/// How long the finding about a slow backend outlasts the last look at which it was found.
pub(super) fn slow_kept(backend: &BackendCondition) -> f64 {
    if backend.was_slow { SLOW_KEPT_SECS } else { MOMENT_SECS }
}

/// Whether longer responses explain longer times: a token takes no longer than at its peers.
fn is_long(backend: &BackendCondition, peers: &[&BackendCondition]) -> bool {
    let per_token = |backend: &BackendCondition| {
        Some(WHOLE(backend)? / backend.output_tokens.filter(|&tokens| tokens >= 1.0)?)
    };
    let usual = median(peers.iter().filter_map(|peer| per_token(peer)).collect());
    per_token(backend).zip(usual).is_some_and(|(own, usual)| own < usual * SLOW_TIMES)
}

fn shares_model(one: &BackendCondition, other: &BackendCondition) -> bool {
    one.models.iter().any(|model| other.models.contains(model))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn hung(backend: &BackendCondition) -> Option<StatusFinding> {
    let silent = backend.silent_seconds.filter(|_| backend.in_flight > 0)?;
    let usual = backend.usual_first_byte_ms.or(backend.first_byte_ms).unwrap_or(0.0) / 1e3;
    let least = if backend.first_byte_ms.is_some() { HUNG_SECS } else { COLD_HUNG_SECS };
    if silent < least.max(usual * HUNG_TIMES) {
        return None;
    }
    let (id, requests) = (&backend.id, count(backend.in_flight, "request"));
    let text = format!("{id} hangs: {requests} there, and no byte for {}", span(silent));
    let finding = StatusFinding::new("backend_hung", Level::Warning, text)
        .about(id)
        .kept(HUNG_KEPT_SECS, format!("{id} hung until"))
        .figure("in_flight", backend.in_flight)
        .figure("silent_seconds", silent)
        .figure("usual_first_byte_seconds", usual)
        .advise(
            "Look at the model server: it accepts requests and computes nothing. The gateway \
             ejects it after health.silence_limit and sends its requests elsewhere.",
        );
    Some(finding)
}
