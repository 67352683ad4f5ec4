//! O06: requests for configured models wait while no backend lists the model.

use crate::support::gateway::{CONFIGURED, ONE, TWO, config};
use crate::support::{Backend, Call, Gateway, chat};

const CLIENTS: usize = 40;

#[test]
fn o06_no_request_fails_while_a_configured_model_has_no_backend() {
    let backend = Backend::quick().lists(&["m"]);
    let gateway = Gateway::launch(&format!("{CONFIGURED}{TWO}"));
    // At first the file is missing, then it is empty.
    for _ in 0..2 {
        let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&chat("m"))).collect();
        gateway.await_depth(CLIENTS);
        assert_eq!(gateway.get("/ready").status, 200, "load balancers send requests here");
        gateway.list(&[&backend]);
        for call in calls {
            let answer = call.finish();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        gateway.list(&[]);
        gateway.await_ready(0);
    }
    gateway.await_idle();
}

/// The target of a configured name waits while backends serve other models, until a reload names
/// its backend. A model that is not configured does not wait.
#[test]
fn o06_a_configured_target_waits_for_its_backend() {
    let (small, large) = (Backend::quick(), Backend::quick());
    let models = "[[models]]\nname = \"big\"\ntargets = [\"big-v1\"]\n";
    let before = config(&format!("{models}{TWO}"), &[("small", small.address())]);
    let gateway = Gateway::start(&before);
    let waiting = gateway.enqueue(&chat("big"), 0);
    let unknown = gateway.ask(&chat("other"));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "model_not_found"));
    assert_eq!(gateway.ask(&chat("m")).status, 200, "other models are served");
    let entry = format!("url = \"http://{}\"\nmodels = [\"big-v1\"]", large.address());
    gateway.rewrite(&format!("{before}[[backends]]\nid = \"large\"\n{entry}\n"));
    assert_eq!(waiting.finish().status, 200);
    assert_eq!(large.seen().len(), 1);
    gateway.await_idle();
}

#[test]
fn o06_beyond_the_bound_a_request_is_refused_at_once() {
    let gateway = Gateway::launch(&format!("[queue]\nhold_capacity = 2\n{CONFIGURED}"));
    let first = gateway.enqueue(&chat("m"), 0);
    let second = gateway.enqueue(&chat("m"), 1);
    for model in ["m", "not configured"] {
        let refused = gateway.ask(&chat(model));
        assert_eq!((refused.status, refused.code().as_str()), (503, "no_backend"));
        assert_eq!(refused.header("retry-after"), Some("5"));
    }
    // A client that leaves makes room for another.
    drop(first);
    gateway.await_depth(1);
    let third = gateway.enqueue(&chat("m"), 1);
    let backend = Backend::quick().lists(&["m"]);
    gateway.list(&[&backend]);
    assert_eq!([second, third].map(|call| call.finish().status), [200, 200]);
    gateway.await_idle();
}

/// A critical request takes the place of the youngest one of the lowest band.
#[test]
fn p07_held_requests_of_lower_bands_leave_their_places_to_critical_ones() {
    let gateway = Gateway::launch(&format!("[queue]\nhold_capacity = 2\n{CONFIGURED}"));
    let of = |band: &str, others| gateway.enqueue(&chat("m").priority(band), others);
    let (oldest, youngest) = (of("best-effort", 0), of("best-effort", 1));
    let critical = gateway.send(&chat("m").priority("critical"));
    let preempted = youngest.finish();
    assert_eq!(preempted.header("retry-after"), Some("5"));
    preempted.refused(503, "preempted");
    gateway.await_depth(2);
    let last = gateway.send(&chat("m").priority("critical"));
    oldest.finish().refused(503, "preempted");
    gateway.await_depth(2);
    for band in ["critical", "high", "best-effort"] {
        gateway.ask(&chat("m").priority(band)).refused(503, "no_backend");
    }
    let backend = Backend::quick().lists(&["m"]);
    gateway.list(&[&backend]);
    assert_eq!([critical, last].map(|call| call.finish().status), [200, 200]);
    gateway.await_idle();
}

/// Where no request loses its place in the queue, none does here.
#[test]
fn c05_o06_until_full_evicts_no_held_request() {
    let queue = "[queue]\nhold_capacity = 1\nadmission = \"until-full\"\n";
    let gateway = Gateway::launch(&format!("{queue}{CONFIGURED}"));
    let waiting = gateway.enqueue(&chat("m").priority("best-effort"), 0);
    gateway.ask(&chat("m").priority("critical")).refused(503, "no_backend");
    let backend = Backend::quick().lists(&["m"]);
    gateway.list(&[&backend]);
    assert_eq!(waiting.finish().status, 200);
}

#[test]
fn o06_held_requests_are_counted() {
    let backend = Backend::held().lists(&["m"]);
    let gateway = Gateway::launch(&format!("[queue]\nhold_capacity = 3\n{CONFIGURED}{ONE}"));
    let held = |count: usize| {
        gateway.await_metrics("held", |metrics| {
            let found = metrics.sum("tidegate_held_requests") as usize;
            if found == count { Ok(()) } else { Err(found.to_string()) }
        });
    };
    assert!(gateway.metrics().has("tidegate_held_requests"));
    assert_eq!(gateway.metrics().sum("tidegate_hold_capacity"), 3.0);
    let calls = [0, 1, 2].map(|others| gateway.enqueue(&chat("m"), others));
    held(3);
    let [first, second, third] = calls;
    drop(first);
    held(2);
    gateway.list(&[&backend]);
    backend.await_running(1);
    held(1);
    backend.open();
    assert_eq!([second, third].map(|call| call.finish().status), [200, 200]);
    gateway.await_idle();
}

/// The time to live of such a wait is not the one of the queue.
#[test]
fn o06_the_hold_ttl_ends_the_wait() {
    let ttls = "[queue]\nqueue_ttl = \"1h\"\nhold_ttl = \"500ms\"\nhold_capacity = 1\n";
    let gateway = Gateway::launch(&format!("{ttls}{CONFIGURED}"));
    for _ in 0..2 {
        let answer = gateway.ask(&chat("m"));
        assert_eq!((answer.status, answer.code().as_str()), (503, "queue_timeout"));
        assert_eq!(answer.header("retry-after"), Some("5"));
    }
    gateway.await_idle();
}
