//! N05, R07: requests that fail by themselves, or that a backend refuses alone, do not hurt others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::gateway::{ONE, TWO, config};
use crate::support::keys::Keys;
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// A server that fails every request with the tag `bad`.
fn failing_bad_requests() -> Backend {
    Backend::start(|seen| match seen.tag().as_str() {
        "bad" => ScriptedResponse::json(500, "{\"bad\":1}"),
        _ => ScriptedResponse::ok(),
    })
}

fn of_team(team: &str) -> HttpRequest {
    chat("m").tag(team).header("x-team", team)
}

fn await_ejection(gateway: &Gateway) {
    eventually("an ejection", || {
        let state = gateway.backend("one")["state"].to_string();
        if state.contains("ejected") { Ok(()) } else { Err(state) }
    });
}

/// Teams whose requests all fail have their share of the trials, and no more.
#[test]
fn n05_requests_that_always_fail_do_not_take_every_trial() {
    let backend = failing_bad_requests();
    let queue = "[queue]\nflow_by = [\"header:x-team\"]\nqueue_ttl = \"12s\"\n";
    let gateway = Gateway::before(&format!("{queue}[health]\neject_for = \"1s\"\n{TWO}"), &backend);
    assert_eq!(gateway.ask(&of_team("good")).status, 200);
    // One team alone would not eject a backend that serves another one.
    let bad = |at: u32| chat("m").tag("bad").header("x-team", &format!("bad {}", at % 2));
    let first: Vec<Call> = (0..30).map(|at| gateway.send(&bad(at))).collect();
    await_ejection(&gateway);
    let good: Vec<Call> = (0..5).map(|_| gateway.send(&of_team("good"))).collect();
    let more: Vec<Call> = (0..30).map(|at| gateway.send(&bad(at))).collect();
    for call in good {
        let answer = call.finish();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop((first, more));
    gateway.await_idle();
}

/// Requests that are given up get the backend's own response, however many there are in turn.
#[test]
fn n05_each_request_that_is_given_up_gets_the_backends_response() {
    let backend = failing_bad_requests();
    let gateway = Gateway::before(&format!("[retry]\nattempts = 1\n{TWO}"), &backend);
    for _ in 0..8 {
        let answer = gateway.ask(&chat("m").tag("bad"));
        assert_eq!((answer.status, answer.text().as_str()), (500, "{\"bad\":1}"));
    }
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}

/// A backend that refused a request once is a place for it again, if the other one is full.
#[test]
fn n05_a_request_returns_to_its_backend_while_the_other_one_is_full() {
    for refusal in [429, 500] {
        let refused = AtomicUsize::new(0);
        let once = Backend::start(move |_| match refused.fetch_add(1, Ordering::SeqCst) {
            0 => ScriptedResponse::json(refusal, "{}"),
            _ => ScriptedResponse::ok(),
        });
        let held = Backend::held();
        let backends = [("held", held.address()), ("once", once.address())];
        let sections = format!("[queue]\nqueue_ttl = \"8s\"\n{ONE}");
        let gateway = Gateway::start(&config(&sections, &backends));
        gateway.await_ready(2);
        // One of these fills the other backend; the one that was refused must be served.
        let tags = ["a", "b"];
        let mut calls: Vec<Call> =
            tags.map(|tag| gateway.send(&chat("m").tag(tag))).into_iter().collect();
        held.await_held(1);
        let filling = tags.iter().position(|&tag| held.tags() == [tag]).unwrap();
        let served = calls.remove(1 - filling);
        assert_eq!(served.finish().status, 200, "after {refusal}");
        held.open();
        assert_eq!(calls.remove(0).finish().status, 200);
    }
}

/// A `Retry-After` of zero closes a full backend for a moment all the same.
#[test]
fn n05_a_retry_after_of_zero_is_no_storm() {
    let full = || ScriptedResponse::with_headers(503, &["retry-after: 0"], "{}");
    let backend = Backend::start(move |_| full());
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"2s\"\n{TWO}"), &backend);
    gateway.ask(&chat("m")).refused(503, "queue_timeout");
    let attempts = backend.seen().len();
    assert!((2..=9).contains(&attempts), "{attempts} attempts in two seconds");
}

/// A backend that refuses one model serves the others meanwhile.
#[test]
fn n05_a_model_that_is_refused_does_not_close_its_backend_for_others() {
    let backend = Backend::start(|seen| match seen.json()["model"].as_str() {
        Some("scarce") => ScriptedResponse::with_headers(429, &["retry-after: 2"], "{}"),
        _ => ScriptedResponse::ok(),
    });
    let address = backend.address();
    let gateway = Gateway::start(&format!(
        "{ONE}[[backends]]\nid = \"one\"\nurl = \"http://{address}\"\n\
         models = [\"scarce\", \"m\"]\n"
    ));
    let scarce = gateway.send(&chat("scarce"));
    backend.await_seen(1);
    // The refused request waits for longer than any of these may.
    for _ in 0..10 {
        let answer = gateway.ask(&chat("m").header("x-llm-d-inference-ttl", "15s"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop(scarce);
    gateway.await_idle();
}

/// After an ejection a good health check lets all requests in, although none was answered yet.
#[test]
fn r07_a_backend_that_works_for_long_is_not_on_trial_for_as_long() {
    let broken = AtomicUsize::new(0);
    let backend = Backend::start(move |_| match broken.fetch_add(1, Ordering::SeqCst) {
        0..5 => ScriptedResponse::reset(),
        _ => ScriptedResponse::ok().held(),
    });
    let health = "[health]\neject_for = \"1s\"\ninterval = \"1s\"\n";
    let gateway = Gateway::before(
        &format!(
            "{health}[controller]\nlower_bound_per_backend = 5\n\
             watermark_per_backend = 5\nupper_bound_per_backend = 5\n"
        ),
        &backend,
    );
    let calls: Vec<Call> = (0..5).map(|_| gateway.send(&chat("m"))).collect();
    backend.await_held(5);
    backend.open();
    for call in calls {
        assert_eq!(call.finish().status, 200);
    }
}

/// A failure after the time to live gives the client the backend's response, not a timeout.
#[test]
fn n05_a_late_failure_is_passed_on() {
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{\"late\":1}").after_ms(1500));
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"1s\"\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.text().as_str()), (500, "{\"late\":1}"));
}

/// A client that waited in vain after failures learns of the last one.
#[test]
fn n05_a_timeout_after_failures_names_the_last_one() {
    let backend = failing_bad_requests();
    let sections = format!("[queue]\nqueue_ttl = \"2s\"\n[health]\neject_for = \"1s\"\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    let calls: Vec<Call> = (0..12).map(|_| gateway.send(&chat("m").tag("bad"))).collect();
    let texts: Vec<String> = calls.into_iter().map(|call| call.finish().text()).collect();
    let named = texts.iter().filter(|text| text.contains("it answered 500")).count();
    assert!(named > 0, "{texts:?}");
}

/// Without a queue a client gets the response of a full backend at once.
#[test]
fn c08_without_a_queue_a_full_backends_response_is_passed_on() {
    let full = || Backend::start(|_| ScriptedResponse::json(503, "{\"full\":1}"));
    let servers = [full(), full()];
    let backends = [("first", servers[0].address()), ("second", servers[1].address())];
    let gateway = Gateway::start(&config(&format!("[queue]\nenabled = false\n{TWO}"), &backends));
    gateway.await_ready(2);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.text().as_str()), (503, "{\"full\":1}"));
    assert!(servers.iter().map(|server| server.seen().len()).sum::<usize>() <= 2);
}

/// Failing requests of one tenant use up only its own budget of repeated attempts.
#[test]
fn n05_x05_failing_requests_of_one_tenant_leave_repeated_attempts_to_others() {
    let keys = Keys::new();
    let (honest, failing) = (keys.tenant("honest", "a"), keys.tenant("failing", "b"));
    let once = Arc::new(AtomicUsize::new(0));
    let [one, two] = [(); 2].map(|()| {
        let once = Arc::clone(&once);
        Backend::start(move |seen| match seen.tag().as_str() {
            "bad" => ScriptedResponse::json(500, "{}"),
            "flaky" if once.fetch_add(1, Ordering::Relaxed) == 0 => {
                ScriptedResponse::json(500, "{}")
            }
            _ => ScriptedResponse::ok(),
        })
    });
    let sections = format!(
        "{}[[tenants]]\nname = \"honest\"\n[[tenants]]\nname = \"failing\"\n\
         [admin]\nwithout_key = \"all\"\n[retry]\nattempts = 2\nshare = 0\n\
         [health]\neject_after = 1000\n",
        keys.section()
    );
    let gateway =
        Gateway::start(&config(&sections, &[("one", one.address()), ("two", two.address())]));
    let attempts = |tag: &str| {
        [&one, &two].iter().flat_map(|server| server.tags()).filter(|seen| seen == tag).count()
    };
    let bad = chat("m").tag("bad").key(&failing);
    let mut seen = 0;
    let used = (0..200).position(|_| {
        let call = gateway.send(&bad);
        // Others are served meanwhile, which proves whose fault its failures are.
        while !call.has_begun() {
            for name in ["one", "two"] {
                let other = chat("m").key(&honest).header("X-Target-Backend", name);
                assert_eq!(gateway.ask(&other).status, 200);
            }
        }
        assert_eq!(call.finish().status, 500);
        let tried = attempts("bad") - std::mem::replace(&mut seen, attempts("bad"));
        tried == 1
    });
    assert_eq!(used, Some(100), "the budget of a tenant is a hundred attempts");
    assert_eq!(gateway.ask(&chat("m").tag("flaky").key(&honest)).status, 200);
    assert_eq!(attempts("flaky"), 2, "it failed once and was tried again");
}
