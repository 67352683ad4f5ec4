//! N05, R07: whose fault a failure is, by what a backend does for other models and other callers,
//! and where a request goes that has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::gateway::{ONE, TWO};
use crate::support::keys::Keys;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// Backends of which the first are preferred, with this line in each entry.
fn in_order(sections: &str, backends: &[&Backend], line: &str) -> String {
    let entry = |(at, backend): (usize, &&Backend)| {
        let (address, latency) = (backend.address(), 10 + 300 * at);
        format!(
            "[[backends]]\nid = \"b{at}\"\nurl = \"http://{address}\"\n{line}\n\
             latency_ms = {latency}\npower_watts = 1\n"
        )
    };
    let entries: String = backends.iter().enumerate().map(entry).collect();
    format!("{sections}{entries}")
}

const MODEL: &str = "models = [\"m\"]";

fn urgent() -> HttpRequest {
    chat("m").priority("critical").header("X-Latency-Critical", "true")
}

fn failing() -> Backend {
    Backend::start(|_| ScriptedResponse::json(500, "{}"))
}

/// It meets each backend once, although those that fail it are preferred and always free.
#[test]
fn n05_a_request_that_fails_in_several_places_goes_on_to_the_next() {
    let (first, second, good) = (failing(), failing(), Backend::quick());
    let settings = format!("[queue]\nqueue_ttl = \"9s\"\n[health]\neject_after = 9\n{TWO}");
    let gateway = Gateway::start(&in_order(&settings, &[&first, &second, &good], MODEL));
    let answer = gateway.ask(&urgent());
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("b2")));
    assert_eq!([&first, &second, &good].map(|backend| backend.seen().len()), [1, 1, 1]);
    gateway.await_idle();
}

/// A request that has failed pauses only if it has failed everywhere: it takes the place at the
/// good backend as soon as there is one.
#[test]
fn n05_a_failed_request_takes_the_first_place_at_a_backend_that_has_not_failed_it() {
    let (bad, busy) = (failing(), Backend::held());
    let settings = format!("[queue]\nqueue_ttl = \"9s\"\n[health]\neject_after = 9\n{ONE}");
    let gateway = Gateway::start(&in_order(&settings, &[&bad, &busy], MODEL));
    let running = gateway.send(&chat("m").header("X-Target-Backend", "b1"));
    busy.await_running(1);
    let call = gateway.send(&urgent());
    eventually("a second attempt", || match bad.seen().len() {
        0..2 => Err("not yet".into()),
        _ => Ok(()),
    });
    busy.open();
    let answer = call.finish();
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("b1")));
    assert!(bad.seen().len() <= 4, "it goes back once in a second: {}", bad.seen().len());
    assert_eq!(running.finish().status, 200);
    gateway.await_idle();
}

/// What the backend answers for another model proves nothing.
#[test]
fn n05_a_backend_that_fails_all_requests_of_one_model_is_waited_for() {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let backend = Backend::start(move |seen| match seen.json()["model"].as_str() {
        Some("m") if !ended.load(Ordering::SeqCst) => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    let config =
        in_order(&format!("[retry]\nshare = 0\n{TWO}"), &[&backend], "models = [\"m\", \"n\"]");
    let gateway = Gateway::start(&config);
    let attempts = || backend.seen().iter().filter(|seen| seen.json()["model"] == "m").count();
    let calls: Vec<_> = (0..2).map(|_| gateway.send(&chat("m"))).collect();
    for attempt in 1..=8 {
        eventually("an attempt", || match attempts() {
            enough if enough >= attempt => Ok(()),
            few => Err(few.to_string()),
        });
        assert_eq!(gateway.ask(&chat("n")).status, 200);
    }
    over.store(true, Ordering::SeqCst);
    for call in calls {
        let answer = call.finish();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    gateway.await_idle();
}

/// The failing requests of one tenant close no backend that serves another one; when it fails both,
/// it is ejected.
#[test]
fn r07_x05_failing_requests_of_one_tenant_eject_no_backend_that_serves_others() {
    let keys = Keys::new();
    let (honest, poison) = (keys.tenant("honest", "a"), keys.tenant("poison", "b"));
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&broken);
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "bad" => ScriptedResponse::json(500, "{}"),
        _ if breaks.load(Ordering::SeqCst) => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    let sections = format!(
        "{}[[tenants]]\nname = \"honest\"\n[[tenants]]\nname = \"poison\"\n\
         [admin]\nwithout_key = \"all\"\n{TWO}",
        keys.section()
    );
    let gateway = Gateway::start(&in_order(&sections, &[&backend], MODEL));
    let state = || gateway.backend("b0")["state"].as_str().unwrap().to_owned();
    let bad = || backend.tags().iter().filter(|tag| *tag == "bad").count();
    let mut poisons = Vec::new();
    for _ in 0..6 {
        assert_eq!(gateway.ask(&chat("m").key(&honest)).status, 200);
        let before = bad();
        poisons.extend((0..5).map(|_| gateway.send(&chat("m").tag("bad").key(&poison))));
        eventually("failures", || match bad() - before {
            5.. => Ok(()),
            few => Err(few.to_string()),
        });
        assert_eq!(state(), "ready");
    }
    assert_eq!(gateway.ask(&chat("m").key(&honest)).status, 200);
    broken.store(true, Ordering::SeqCst);
    let waiting: Vec<_> = (0..3).map(|_| gateway.send(&chat("m").key(&honest))).collect();
    eventually("ejected", || match state() {
        ejected if ejected == "ejected" => Ok(()),
        other => Err(other),
    });
    drop((poisons, waiting));
    gateway.await_idle();
}

/// A request that fails at every backend is held against the first one alone.
#[test]
fn r07_a_request_that_fails_everywhere_ejects_one_backend_at_most() {
    let backend = || {
        Backend::start(|seen| match seen.tag().as_str() {
            "bad" => ScriptedResponse::json(500, "{}"),
            _ => ScriptedResponse::ok(),
        })
    };
    let backends = [backend(), backend(), backend()];
    let settings = format!("[health]\neject_after = 1\neject_for = \"1h\"\n{TWO}");
    let [first, second, third] = &backends;
    let gateway = Gateway::start(&in_order(&settings, &[first, second, third], MODEL));
    for name in ["b1", "b2"] {
        let answer = gateway.ask(&chat("m").header("X-Target-Backend", name));
        assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some(name)));
    }
    let poison = gateway.send(&urgent().tag("bad"));
    // After its second attempt there, the first one counts.
    eventually("attempts", || match second.seen().len() + third.seen().len() {
        6.. => Ok(()),
        few => Err(few.to_string()),
    });
    let states = gateway.backends();
    let states: Vec<&str> = states.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ejected", "ready", "ready"]);
    drop(poison);
    gateway.await_idle();
}
