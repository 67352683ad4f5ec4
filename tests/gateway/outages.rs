//! N05, R07: requests outlive backends that are full or failing for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::gateway::{TWO, config};
use crate::support::scripted_response::Step;
use crate::support::wait::Stopwatch;
use crate::support::{Backend, Call, Gateway, ScriptedResponse, chat, eventually};

const CLIENTS: usize = 40;

/// Two servers with an outage that the test ends.
struct Outage {
    over: Arc<AtomicBool>,
    servers: [Backend; 2],
}

// === impl Outage ===

impl Outage {
    /// Until the outage is over, both servers give this response.
    fn with(response: impl Fn() -> ScriptedResponse + Clone + Send + Sync + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let server = || {
            let (over, response) = (Arc::clone(&over), response.clone());
            Backend::start(move |_| match over.load(Ordering::SeqCst) {
                true => ScriptedResponse::ok(),
                false => response(),
            })
        };
        let servers = [server(), server()];
        Self { over, servers }
    }

    fn gateway(&self, count: usize) -> Gateway {
        self.gateway_with("eject_for = \"1s\"\n", count)
    }

    fn gateway_with(&self, health: &str, count: usize) -> Gateway {
        let backends =
            [("first", self.servers[0].address()), ("second", self.servers[1].address())];
        Gateway::start(&config(&format!("[health]\n{health}{TWO}"), &backends[..count]))
    }

    fn seen(&self) -> usize {
        self.servers.iter().map(|server| server.seen().len()).sum()
    }

    fn begin(&self) {
        self.over.store(false, Ordering::SeqCst);
    }

    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

fn all_served(calls: Vec<Call>) {
    let failed: Vec<String> = calls
        .into_iter()
        .map(Call::finish)
        .filter(|answer| answer.status != 200)
        .map(|answer| format!("{} {}", answer.status, answer.text()))
        .collect();
    assert!(failed.is_empty(), "{} of {CLIENTS} failed: {failed:?}", failed.len());
}

/// Clients that come during an outage are all served after it. The outage lasts for several times
/// as many attempts as a request has.
fn survive(count: usize, response: impl Fn() -> ScriptedResponse + Clone + Send + Sync + 'static) {
    let outage = Outage::with(response);
    let gateway = outage.gateway(count);
    let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&chat("m"))).collect();
    eventually("many attempts have failed", || match outage.seen() {
        enough @ 12.. => Ok(enough),
        seen => Err(format!("{seen} attempts")),
    });
    outage.end();
    all_served(calls);
    gateway.await_idle();
}

#[test]
fn n05_no_request_fails_while_one_backend_is_full() {
    for status in [503, 429] {
        survive(1, move || ScriptedResponse::json(status, "{}"));
    }
}

#[test]
fn n05_no_request_fails_while_all_backends_are_full() {
    survive(2, || ScriptedResponse::with_headers(503, &["retry-after: 1"], "{}"));
}

#[test]
fn n05_no_request_fails_while_one_backend_fails() {
    survive(1, || ScriptedResponse::json(500, "{}"));
    survive(1, ScriptedResponse::reset);
}

#[test]
fn n05_no_request_fails_while_all_backends_fail() {
    survive(2, || ScriptedResponse::json(502, "{}"));
    survive(2, ScriptedResponse::reset);
}

/// Engines that accept requests and answer none, while their health checks pass.
#[test]
fn n05_no_request_fails_while_backends_are_silent() {
    for count in [1, 2] {
        let outage = Outage::with(|| ScriptedResponse(vec![Step::Silence]));
        let health = "eject_for = \"1s\"\nsilence_limit = \"500ms\"\n";
        let gateway = outage.gateway_with(health, count);
        // A backend without any response so far has no usual time.
        outage.end();
        for _ in 0..6 {
            assert_eq!(gateway.ask(&chat("m").streamed()).status, 200);
        }
        outage.begin();
        let ask = chat("m").streamed();
        let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&ask)).collect();
        let reason = eventually("an ejection", || {
            let backends = gateway.backends();
            let ejected = backends.iter().find(|backend| backend["state"] == "ejected");
            ejected.map(|backend| backend["reason"].to_string()).ok_or(format!("{backends:?}"))
        });
        assert!(reason.contains("it began no response for"), "the page says why: {reason}");
        outage.end();
        all_served(calls);
        gateway.await_idle();
    }
}

/// A slow request is not taken back while the backend answers others.
#[test]
fn n05_a_slow_request_stays_while_its_backend_answers_others() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "slow" => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("[health]\nsilence_limit = \"300ms\"\n{TWO}"), &backend);
    let quick = chat("m").with("max_tokens", 1);
    assert_eq!(gateway.ask(&quick).status, 200);
    let slow = gateway.send(&quick.clone().tag("slow"));
    backend.await_held(1);
    let watch = Stopwatch::start();
    while watch.elapsed() < Duration::from_millis(1500) {
        assert_eq!(gateway.ask(&quick).status, 200);
    }
    backend.open();
    assert_eq!(slow.finish().status, 200);
    let sent = backend.tags().into_iter().filter(|tag| tag == "slow").count();
    assert_eq!((sent, &gateway.backend("one")["state"]), (1, &"ready".into()));
}

/// A request that a full backend sent back ends with the gateway's own answer and its Retry-After.
#[test]
fn n05_a_request_that_waits_for_a_full_backend_ends_at_its_time_to_live() {
    let backend = Backend::start(|_| ScriptedResponse::json(503, "{\"backend\":1}"));
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"1s\"\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.code().as_str()), (503, "queue_timeout"));
    assert!(answer.header("retry-after").is_some());
    gateway.await_idle();
}

/// An ejected backend that alone serves a model is tried by one request at a time.
#[test]
fn r07_an_ejected_backend_is_tried_by_one_request_at_a_time() {
    let outage = Outage::with(|| ScriptedResponse::json(500, "{}"));
    let gateway = outage.gateway(1);
    let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&chat("m"))).collect();
    let shown = eventually("ejected", || match gateway.backend("first") {
        shown if shown["state"] == "ejected" => Ok(shown),
        shown => Err(shown.to_string()),
    });
    assert_eq!(shown["reason"], "it answered 500 Internal Server Error");
    gateway.await_metrics("idle at the backend", |metrics| {
        let stock = metrics.sum("tidegate_stock_level");
        if stock <= 1.0 { Ok(()) } else { Err(format!("{stock} in flight")) }
    });
    let before = outage.seen();
    outage.servers[0].await_seen(before + 3);
    let seen = outage.servers[0].seen();
    let times: Vec<_> = seen[before..].iter().map(|seen| seen.at).collect();
    let apart = times.windows(2).all(|pair| (pair[1] - pair[0]).as_millis() >= 200);
    assert!(apart, "trials come with pauses: {times:?}");
    outage.end();
    all_served(calls);
}

/// A request that fails by itself, at backends that serve all others, is given up.
#[test]
fn n05_a_request_that_fails_wherever_it_goes_is_given_up() {
    let server = || {
        Backend::start(|seen| match seen.tag().as_str() {
            "poison" => ScriptedResponse::json(500, "{\"poison\":1}").held(),
            _ => ScriptedResponse::ok(),
        })
    };
    let servers = [server(), server()];
    let backends = [("first", servers[0].address()), ("second", servers[1].address())];
    let gateway = Gateway::start(&config(TWO, &backends));
    let poisoned = |server: &Backend| server.tags().iter().filter(|tag| *tag == "poison").count();
    let poison = gateway.send(&chat("m").tag("poison"));
    let mut before = [0, 0];
    for _ in 0..3 {
        let at = eventually("an attempt", || {
            let at = (0..2).find(|&at| poisoned(&servers[at]) > before[at]);
            at.ok_or(format!("{before:?}"))
        });
        before[at] += 1;
        // Both serve others meanwhile.
        for name in ["first", "second"] {
            let answer = gateway.ask(&chat("m").header("X-Target-Backend", name));
            assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some(name)));
        }
        servers[at].release(1);
    }
    let answer = poison.finish();
    assert_eq!((answer.status, answer.text().as_str()), (500, "{\"poison\":1}"));
    let tries: usize = servers.iter().map(poisoned).sum();
    assert_eq!(tries, 3, "as many attempts as are configured");
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}

/// X-Queue-Wait-Ms and the access line count every wait, also those after an attempt.
#[test]
fn r05_the_wait_of_a_request_includes_its_waits_after_attempts() {
    let outage = Outage::with(|| ScriptedResponse::with_headers(503, &["retry-after: 1"], "{}"));
    let gateway = outage.gateway(1);
    let call = gateway.send(&chat("m").header("X-Request-ID", "waiting"));
    eventually("sent back", || match gateway.backend("first")["state"].to_string() {
        state if state.contains("full") => Ok(()),
        state => Err(state),
    });
    outage.end();
    let answer = call.finish();
    let waited: f64 = answer.header("x-queue-wait-ms").unwrap().parse().unwrap();
    assert!(waited >= 500.0, "the backend asked for a pause of one second: {waited} ms");
    let first_byte = gateway.backend("first")["first_byte_ms"].as_f64().unwrap();
    assert!(first_byte < waited / 2.0, "{first_byte} ms at the backend is without the wait");
}
