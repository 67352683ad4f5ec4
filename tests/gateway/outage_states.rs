//! N05, O06: no request fails while all backends are out for five seconds of a time to live of
//! thirty seconds, whatever the outage is.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::support::eventually;
use crate::support::gateway::{CONFIGURED, TWO, config};
use crate::support::scripted_response::Step;
use crate::support::wait::Stopwatch;
use crate::support::{Backend, Call, Gateway, HttpRequest, Nowhere, ScriptedResponse, chat};

const CLIENTS: usize = 40;
const OUTAGE: Duration = Duration::from_secs(5);
/// The clients come during most of the outage, several at a time: a single one could be the cause
/// of the failures itself.
const AT_ONCE: usize = 8;
const APART: Duration = Duration::from_millis(800);
const TTL: &str = "[queue]\nqueue_ttl = \"30s\"\nhold_ttl = \"30s\"\n";

/// The response to a request, which may be a stream, when the outage lasts for this long yet.
type Response = fn(bool, Duration) -> ScriptedResponse;

/// Backends that respond in a wrong way.
const WRONG: [(&str, Response); 5] = [
    ("full, 503", |_, _| ScriptedResponse::json(503, "{}")),
    ("full, 429", |_, _| ScriptedResponse::with_headers(429, &["retry-after: 1"], "{}")),
    ("failing, 500", |_, _| ScriptedResponse::json(500, "{}")),
    ("failing, 502", |_, _| ScriptedResponse::json(502, "{}")),
    ("failing, resets", |_, _| ScriptedResponse::reset()),
];

/// Backends that accept requests and do not respond.
const WEDGED: [(&str, Response); 4] = [
    ("wedged, then responds", |_, left| ScriptedResponse::ok().after(left)),
    ("wedged, then resets", |_, left| ScriptedResponse::reset().after(left)),
    ("wedged, and forgets its requests", |_, _| ScriptedResponse::silence()),
    ("wedged behind the head of a stream", |streamed, _| match streamed {
        true => ScriptedResponse::stream_head().then(Step::Silence),
        false => ScriptedResponse::silence(),
    }),
];

/// Half of the requests are streams.
fn ask(number: usize) -> HttpRequest {
    match number.is_multiple_of(2) {
        true => chat("m").streamed(),
        false => chat("m").with("max_tokens", 16),
    }
}

fn arrive(gateway: &Gateway) -> Vec<Call> {
    let watch = Stopwatch::start();
    let arrival = |number: usize| {
        reach(watch, APART * (number / AT_ONCE) as u32);
        gateway.send(&ask(number))
    };
    (0..CLIENTS).map(arrival).collect()
}

fn reach(watch: Stopwatch, span: Duration) {
    eventually("late enough", || if watch.elapsed() >= span { Ok(()) } else { Err("".into()) });
}

/// Waits for all responses. Returns a report of those that are not good.
fn failures(calls: Vec<Call>) -> Vec<String> {
    let responses = calls.into_iter().map(Call::finish);
    let failed = responses.filter(|response| response.status != 200);
    failed.map(|response| format!("{} {}", response.status, response.text())).collect()
}

/// Two backends that have served requests, and then are out.
fn out(health: &str, response: Response) -> Vec<String> {
    let began: Arc<OnceLock<Stopwatch>> = Arc::default();
    let server = || {
        let began = Arc::clone(&began);
        Backend::start(move |seen| {
            let left = began.get().and_then(|began| OUTAGE.checked_sub(began.elapsed()));
            let streamed = seen.json()["stream"] == true;
            left.map_or_else(ScriptedResponse::ok, |left| response(streamed, left))
        })
    };
    let servers = [server(), server()];
    let backends = [("first", servers[0].address()), ("second", servers[1].address())];
    let gateway = Gateway::start(&config(&format!("{TTL}{health}{TWO}"), &backends));
    assert!((0..8).all(|number| gateway.ask(&ask(number)).status == 200));
    began.set(Stopwatch::start()).unwrap();
    let failures = failures(arrive(&gateway));
    gateway.await_idle();
    failures
}

/// A backend whose connections are refused, and that then starts.
fn refused() -> Vec<String> {
    let nowhere = Nowhere::reserve();
    let address = nowhere.address();
    let gateway = Gateway::launch(&config(&format!("{TTL}{TWO}"), &[("late", address)]));
    let watch = Stopwatch::start();
    let calls = arrive(&gateway);
    reach(watch, OUTAGE);
    drop(nowhere);
    let _backend = Backend::start_at(address, |_| ScriptedResponse::ok());
    failures(calls)
}

/// A backend that no list names, and that is then listed.
fn unlisted() -> Vec<String> {
    let backend = Backend::quick();
    let gateway = Gateway::launch(&format!("{TTL}{CONFIGURED}{TWO}"));
    let watch = Stopwatch::start();
    let calls = arrive(&gateway);
    reach(watch, OUTAGE);
    gateway.list(&[&backend]);
    failures(calls)
}

#[test]
fn n05_no_request_of_forty_fails_in_five_seconds_of_any_outage() {
    let wedged = "[health]\nsilence_limit = \"2s\"\n";
    let failed: Vec<(&str, Vec<String>)> = thread::scope(|scope| {
        let wrong = WRONG.map(|(name, response)| (name, scope.spawn(move || out("", response))));
        let wedged =
            WEDGED.map(|(name, response)| (name, scope.spawn(move || out(wedged, response))));
        let absent = [("refused", scope.spawn(refused)), ("in no list", scope.spawn(unlisted))];
        let all = wrong.into_iter().chain(wedged).chain(absent);
        all.map(|(name, case)| (name, case.join().unwrap())).collect()
    });
    for (name, failures) in failed {
        assert!(
            failures.is_empty(),
            "{name}: {} of {CLIENTS} failed: {failures:?}",
            failures.len()
        );
    }
}
