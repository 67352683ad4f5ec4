//! Rules about slow backends: slower than their peers, than the objective, or than before.

use super::finding::{Level, StatusFinding};
use super::sentence::span;
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
/// Responses are of like length up to this factor. Beyond it, the time per token differs too: the
/// prompt counts for less, and other requests run beside a long response.
const LIKE_LENGTH: f64 = 4.0;
/// Without known lengths, a backend may be slow from this factor on, over so many responses a
/// minute: the median of the last 16 is then mostly of this minute. Requests are spread over the
/// backends of a model, so their mean lengths hardly differ by as much.
const UNKNOWN_TIMES: f64 = 5.0;
const UNKNOWN_PER_MINUTE: f64 = 8.0;
const UNKNOWN_SECS: f64 = 10.0;
/// What is compared with the peers.
const FIRST_BYTE: &str = "first byte";
const TOKEN: &str = "token";
const WHOLE_RESPONSE: &str = "whole response";

/// A time that a backend takes, in milliseconds.
type Figure = fn(&BackendCondition) -> Option<f64>;

/// Times of long ago are no figures.
const STREAM: Figure =
    |backend| backend.stream_first_byte_ms.filter(|_| !backend.stream_first_byte_is_old);
const WHOLE: Figure = |backend| backend.latency_ms.filter(|_| !backend.latency_is_old);

/// A backend that is slow, by the measure that shows it best.
pub(super) fn slow(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    slower_than_peers(backend, &situation.backends)
        .or_else(|| misses_objective(backend, situation))
        .or_else(|| token_rules::slow_tokens(backend, situation))
        .or_else(|| slower_at_unknown_length(backend, &situation.backends))
}

/// The other ready backends of its models.
fn peers_of<'a>(
    backend: &'a BackendCondition,
    all: &'a [BackendCondition],
) -> Vec<&'a BackendCondition> {
    let is_peer = |other: &&BackendCondition| {
        other.ready && other.id != backend.id && shares_model(other, backend)
    };
    all.iter().filter(is_peer).collect()
}

/// Whether its whole responses take far longer than those of its peers.
pub(super) fn is_slow_whole(backend: &BackendCondition, all: &[BackendCondition]) -> bool {
    slower_whole(backend, &peers_of(backend, all)).is_some()
}

fn slower_than_peers(
    backend: &BackendCondition,
    all: &[BackendCondition],
) -> Option<StatusFinding> {
    let peers = peers_of(backend, all);
    let first = slower(backend, &peers, (STREAM, SLOW_MORE_MS)).filter(|_| begins_freely(backend));
    let found = [slower_whole(backend, &peers), slower_tokens(backend, &peers), first];
    let parts = [WHOLE_RESPONSE, TOKEN, FIRST_BYTE].into_iter().zip(found);
    let found = parts.filter_map(|(part, times)| Some((part, times?)));
    // The time that showed it first goes on to do so: the others change places from look to look.
    let ratio = |(part, (own, usual)): &(&'static str, (f64, f64))| {
        if backend.slow_by == Some(*part) { f64::INFINITY } else { own / usual.max(1.0) }
    };
    let (part, (own, usual)) = found.max_by(|one, other| ratio(one).total_cmp(&ratio(other)))?;
    let (id, times) = (&backend.id, own / usual.max(1.0));
    let what = match backend.output_tokens.filter(|_| part == WHOLE_RESPONSE) {
        Some(tokens) => format!("response of {tokens:.0} tokens"),
        None => part.to_owned(),
    };
    let text = format!(
        "{id} is slow: a {what} takes {}, {times:.0} times as long as at its peers",
        span(own / 1e3)
    );
    let finding = StatusFinding::new(SLOW, Level::Warning, text)
        .about(id)
        .lasting(if part == TOKEN { SLOW_TOKEN_SECS } else { SLOW_SECS })
        .kept(slow_kept(backend), format!("{id} was slow until"))
        .shown_by(part)
        .figure("own_ms", own)
        .figure("peers_ms", usual)
        .advise(compare_with_peers(backend));
    Some(finding)
}

fn compare_with_peers(BackendCondition { id, url, .. }: &BackendCondition) -> String {
    format!(
        "See whether {url} shares its GPU, is throttled or has other settings than its peers. \
         Until then, `tidegate drain {id}` keeps new requests away from it."
    )
}

/// A backend whose whole responses take far longer than those of its peers, where the lengths of
/// none are known: its last responses, and most of those before.
fn slower_at_unknown_length(
    backend: &BackendCondition,
    all: &[BackendCondition],
) -> Option<StatusFinding> {
    let is_measured = |one: &&BackendCondition| {
        one.output_tokens.is_none() && one.answered_per_minute >= UNKNOWN_PER_MINUTE
    };
    let time = |one: &BackendCondition| Some(WHOLE(one)?.min(one.usual_first_byte_ms?));
    let peers = peers_of(backend, all).into_iter().filter(is_measured).filter_map(time);
    let usual = median(peers.collect())?;
    let own = Some(backend).filter(is_measured).and_then(time)?;
    let part = if backend.was_slow { SLOW_ENDS_AT } else { 1.0 };
    if own < usual * UNKNOWN_TIMES * part || own < usual + SLOW_MORE_MS * part {
        return None;
    }
    let id = &backend.id;
    let text = format!(
        "{id} may be slow: its responses take {}, and those of its peers {}; their lengths are not \
         known",
        span(own / 1e3),
        span(usual / 1e3)
    );
    let finding = StatusFinding::new(SLOW, Level::Warning, text)
        .about(id)
        .lasting(UNKNOWN_SECS)
        .kept(slow_kept(backend), format!("{id} was slow until"))
        .figure("own_ms", own)
        .figure("peers_ms", usual)
        .advise(compare_with_peers(backend));
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
    if (waits && !backend.was_slow) || !begins_freely(backend) || waits_inside(backend) {
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
    slower_by(backend, (own, usual), more_ms)
}

fn slower_by(
    backend: &BackendCondition,
    (own, usual): (f64, f64),
    more_ms: f64,
) -> Option<(f64, f64)> {
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

/// The same for a whole response. Its length decides how long it takes, and lengths differ by any
/// factor, so it is compared only where the lengths are known and alike: then with the time that
/// the peers take for so many tokens. A short response is mostly its prompt, so at least with the
/// time of theirs.
fn slower_whole(backend: &BackendCondition, peers: &[&BackendCondition]) -> Option<(f64, f64)> {
    let tokens = |one: &BackendCondition| one.output_tokens.filter(|&tokens| tokens >= 1.0);
    let own_tokens = tokens(backend)?;
    let is_alike = |peer: &&&BackendCondition| {
        tokens(peer).is_some_and(|length| own_tokens <= length * LIKE_LENGTH)
    };
    let usual = |peer: &&BackendCondition| {
        let longer = (own_tokens / tokens(peer)?).max(1.0);
        Some(WHOLE(peer)? * longer)
    };
    let usual = median(peers.iter().filter(is_alike).filter_map(usual).collect())?;
    slower_by(backend, (WHOLE(backend)?, usual), SLOW_MORE_MS)
}

/// Whether first bytes show how fast the backend is: they did not wait inside its engine. While
/// that is not known, they begin no finding, nor do they end one.
fn begins_freely(backend: &BackendCondition) -> bool {
    let is_read = backend.engine.is_some_and(|engine| engine.age_seconds < READING_SECS);
    let waited = waits_inside(backend) || (backend.first_byte_waited && !is_read);
    !waited || backend.was_slow
}

fn shares_model(one: &BackendCondition, other: &BackendCondition) -> bool {
    one.models.iter().any(|model| other.models.contains(model))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
