//! O06: from no backend at all, requests wait, one call wakes an autoscaler, and all are served.

use serde_json::json;

use crate::support::gateway::{CONFIGURED, TWO};
use crate::support::{Backend, Call, Gateway, Picker, Recipe, ScriptedResponse, chat};

const CLIENTS: usize = 20;

fn wake(hook: &Backend) -> String {
    format!("[scaler]\nwake_url = \"http://{}/wake\"\nwake_again = \"1h\"\n", hook.address())
}

#[test]
fn o06_twenty_requests_make_one_wake_call_and_all_are_served() {
    let (hook, backend) = (Backend::quick(), Backend::quick().lists(&["m"]));
    let gateway = Gateway::launch(&format!("{}{CONFIGURED}{TWO}", wake(&hook)));
    let first = gateway.enqueue(&chat("m"), 0);
    hook.await_seen(1);
    let calls: Vec<Call> = (1..CLIENTS).map(|_| gateway.send(&chat("m"))).collect();
    gateway.await_depth(CLIENTS);
    let seen = &hook.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/wake"));
    let body = json!({"models": [{"model": "m", "waiting": 1, "backends_wanted": 1}]});
    assert_eq!(seen.json(), body);
    assert_eq!(gateway.metrics().sum("tidegate_backends_wanted"), 13.0, "two at each, 0.8 used");
    gateway.list(&[&backend]);
    for call in calls.into_iter().chain([first]) {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(hook.seen().len(), 1, "one call for all of them");
    gateway.await_idle();
}

/// A request for one model asks for no backend of another.
#[test]
fn o06_a_wake_call_names_only_the_models_that_requests_wait_for() {
    let (hook, backend) = (Backend::quick(), Backend::quick().lists(&["m"]));
    let idle = "[[models]]\nname = \"idle\"\n";
    let gateway = Gateway::launch(&format!("{}{idle}{CONFIGURED}{TWO}", wake(&hook)));
    let call = gateway.enqueue(&chat("m"), 0);
    hook.await_seen(1);
    let body = json!({"models": [{"model": "m", "waiting": 1, "backends_wanted": 1}]});
    assert_eq!(hook.seen()[0].json(), body);
    gateway.list(&[&backend]);
    assert_eq!(call.finish().status, 200);
}

/// A hook that fails is called again, a bounded number of times.
#[test]
fn o06_a_wake_call_that_fails_is_tried_again() {
    let hook = Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::json(503, "{}"),
        _ => ScriptedResponse::json(202, "{}"),
    });
    let backend = Backend::quick().lists(&["m"]);
    let gateway = Gateway::launch(&format!("{}{CONFIGURED}{TWO}", wake(&hook)));
    let call = gateway.enqueue(&chat("m"), 0);
    hook.await_seen(2);
    gateway.list(&[&backend]);
    assert_eq!(call.finish().status, 200);
    assert_eq!(hook.seen().len(), 2);
    gateway.await_idle();
}

/// A hook that does not respond, or only with errors, costs a few calls and no request.
#[test]
fn o06_a_wake_hook_that_hangs_or_fails_loses_no_request() {
    for hook in [Backend::held(), Backend::start(|_| ScriptedResponse::json(500, "{}"))] {
        let backend = Backend::quick().lists(&["m"]);
        let limits = "wake_timeout = \"50ms\"\nwake_attempts = 2\n";
        let gateway = Gateway::launch(&format!("{}{limits}{CONFIGURED}{TWO}", wake(&hook)));
        let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&chat("m"))).collect();
        gateway.await_depth(CLIENTS);
        hook.await_seen(2);
        gateway.process.await_log("attempt=2", 1);
        gateway.list(&[&backend]);
        assert!(calls.into_iter().all(|call| call.finish().status == 200));
        assert_eq!(hook.seen().len(), 2, "a bounded number of calls");
        gateway.await_idle();
    }
}

/// The same through Envoy.
#[test]
fn x02_o06_a_picker_makes_one_wake_call_and_all_are_served() {
    let (hook, backend) = (Backend::quick(), Backend::quick());
    let sections = format!("{}{CONFIGURED}{TWO}", wake(&hook));
    let picker = Picker::launch(Recipe::original_dst(), &sections);
    let calls: Vec<Call> = (0..CLIENTS).map(|_| picker.send(&chat("m"))).collect();
    picker.await_depth(CLIENTS);
    hook.await_seen(1);
    picker.list(&[&backend]);
    for call in calls {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(hook.seen().len(), 1);
    picker.await_idle();
}
