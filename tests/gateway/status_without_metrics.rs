//! M03: the diagnosis where the servers tell no metrics and the clients do not stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use super::status::named;
use crate::support::backend::Seen;
use crate::support::gateway::config;
use crate::support::queueing::succeed;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// An objective that a test need not wait for.
const OBJECTIVE: &str = "[queue]\nslo_ttft = \"100ms\"\n";

/// A backend that does what the request says: it responds at once, late, or when it is released.
fn obedient() -> Backend {
    Backend::start(|seen: &Seen| match seen.json()["user"].as_str() {
        Some("late") => ScriptedResponse::ok().after_ms(600),
        Some("held") => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::ok(),
    })
}

fn told(what: &str) -> HttpRequest {
    chat("m").with("user", what)
}

/// Ends the clients of a test, also if it fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The first responses are quick, and those that come while many are there take long: most of them
/// wait inside the server.
#[test]
fn m03_a_watermark_that_is_too_high_is_named_by_whole_responses() {
    let backend = obedient();
    let keys = ["watermark", "lower_bound", "upper_bound"];
    let keys = keys.map(|key| format!("{key}_per_backend = 64\n")).concat();
    let sections = format!("{OBJECTIVE}[controller]\n{keys}");
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    for _ in 0..3 {
        succeed([gateway.send(&told("quick"))]);
        gateway.get("/status");
    }
    succeed((0..12).map(|_| gateway.send(&told("late"))).collect::<Vec<_>>());
    let calls: Vec<_> = (0..10).map(|_| gateway.send(&told("held"))).collect();
    let found = named(&gateway, ("watermark_too_high", "one"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("the watermark of 64 may be too high for one: 10 requests"), "{text}");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.contains("upper_bound_per_backend"), "{advice}");
    backend.open();
    succeed(calls);
}

/// Without metrics and without streams, `auto` cannot find how many requests the server runs.
#[test]
fn m03_a_guessed_limit_is_named_while_requests_wait_for_it() {
    let backend = obedient();
    let gateway = Gateway::start(&config(OBJECTIVE, &[("one", backend.address())]));
    let is_over = AtomicBool::new(false);
    let client = || {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(gateway.ask(&told("late")).status, 200);
        }
    };
    let found = thread::scope(|scope| {
        let _all: Vec<_> = (0..24).map(|_| scope.spawn(client)).collect();
        let _end = SetAtEnd(&is_over);
        named(&gateway, ("places_unknown", "one"), "")
    });
    assert_eq!(found["level"], "warning", "{found}");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains(" is a guess, and requests wait"), "{text}");
}

/// Whether a response will be long cannot be known of a request without a limit, so the gateway
/// leaves it at a backend that hangs.
#[test]
fn m03_a_hang_is_told_with_what_the_gateway_does_about_it() {
    let after_hang = |ask: &HttpRequest| {
        let backend = obedient();
        let sections = "[health]\nsilence_limit = \"30s\"\n";
        let gateway = Gateway::start(&config(sections, &[("one", backend.address())]));
        succeed([gateway.send(&told("quick"))]);
        let call = gateway.send(ask);
        (backend, gateway, call)
    };
    let unlimited = after_hang(&told("held"));
    let limited = after_hang(&told("held").with("max_tokens", 5));
    let advice = |(_, gateway, _): &(_, Gateway, _)| {
        let found = named(gateway, ("backend_hung", "one"), "");
        assert_eq!(found["level"], "trouble", "no other backend serves the model: {found}");
        found["advice"].as_str().unwrap().to_owned()
    };
    let kept = advice(&unlimited);
    assert!(kept.contains("neither stream nor have max_tokens"), "{kept}");
    assert!(!kept.contains("elsewhere"), "{kept}");
    let taken_back = advice(&limited);
    assert!(taken_back.contains("ejects it after health.silence_limit"), "{taken_back}");
    for (backend, _, call) in [unlimited, limited] {
        backend.open();
        succeed([call]);
    }
}

/// Its trials are no service, and its server runs.
#[test]
fn m03_a_backend_on_trial_is_not_counted_as_ready() {
    let backend = Backend::start(|seen: &Seen| match seen.json()["user"].as_str() {
        Some("held") => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::json(500, "{}"),
    });
    let sections = "[health]\neject_after = 1\neject_for = \"20s\"\n";
    let gateway = Gateway::start(&config(sections, &[("one", backend.address())]));
    let failed = gateway.send(&told("quick"));
    let trial = gateway.send(&told("held"));
    let page: Value = eventually("on trial", || {
        let page = gateway.get("/status").json();
        // Its trials begin before its ejection is over, because no other backend serves the model.
        let backend = &page["backends"][0];
        let is_tried = backend["state"] != "ready" && backend["in_flight"] == 1;
        if is_tried { Ok(page) } else { Err(page.to_string()) }
    });
    assert_eq!(
        (&page["backends_ready"], &page["backends"][0]["ready"]),
        (&0.into(), &false.into())
    );
    assert_eq!(page["findings"][0]["id"], "no_backend_ready", "{page}");
    let advice = page["findings"][0]["advice"].as_str().unwrap();
    assert!(advice.starts_with("Read the log of the model server"), "{advice}");
    backend.open();
    drop((failed, trial));
}
