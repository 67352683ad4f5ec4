//! The picker's own responses are those of `serve`: the same JSON, codes and headers, and the
//! reason that other pickers give beside them.

use crate::support::envoy::Recipe;
use crate::support::gateway::{ONE, TWO};
use crate::support::{Backend, HttpRequest, Picker, chat, queueing};

const REASON: &str = "x-llm-d-request-dropped-reason";

#[test]
fn x02_c09_every_refusal_has_its_own_code_and_reason() {
    let backend = Backend::held();
    let section = "[queue]\ntotal_capacity = 3\nflow_capacity = 2\nqueue_ttl = \"2s\"\n\
        flow_by = [\"header:x-team\"]\n";
    let picker = Picker::before(&format!("{section}{ONE}"), &backend);
    let team = |team: &str| chat("m").header("x-team", team);
    let running = picker.send(&team("a"));
    backend.await_running(1);
    let mut waiting = vec![picker.enqueue(&team("a"), 0), picker.enqueue(&team("a"), 1)];
    let full = picker.ask(&team("a"));
    full.refused(503, "flow_full");
    assert_eq!(full.header(REASON), Some("rejected-saturated"));
    assert_eq!(full.header("content-type"), Some("application/json"));
    assert!(full.header("x-request-id").is_some(), "{:?}", full.headers);
    waiting.push(picker.enqueue(&team("b"), 2));
    picker.ask(&team("c")).refused(503, "too_many_flows");
    picker.ask(&team("b")).refused(503, "queue_full");
    for call in waiting {
        let late = call.finish();
        late.refused(503, "queue_timeout");
        assert_eq!(late.header(REASON), Some("rejected-ttl-expired"));
    }
    drop(running);
    backend.await_left(1);
    picker.await_idle();
}

#[test]
fn x02_c05_critical_only_refuses_requests_that_would_wait() {
    let backend = Backend::held();
    let sections = format!("[queue]\nadmission = \"critical-only\"\n{ONE}");
    let (picker, running) = Picker::occupied(&sections, &backend, &chat("m"));
    queueing::check_critical_only(&picker, &backend, running);
}

#[test]
fn x02_an_invalid_request_is_refused_at_once() {
    let backend = Backend::quick();
    let picker = Picker::before(TWO, &backend);
    let path = "/v1/chat/completions";
    let cases = [
        (chat("nobody-has-it"), 404, "model_not_found"),
        (chat("nobody-has-it").streamed(), 404, "model_not_found"),
        (HttpRequest::post(path, "{\"model\": \"m\""), 400, "invalid_request"),
        (HttpRequest::post(path, "[1, 2]"), 400, "invalid_request"),
        (HttpRequest::post(path, "{\"messages\": []}"), 400, "invalid_request"),
    ];
    for (ask, status, code) in cases {
        let answer = picker.ask(&ask);
        let told = (answer.status, answer.code());
        assert_eq!(told, (status, code.to_owned()), "{ask:?}: {}", answer.text());
    }
    assert_eq!(backend.seen().len(), 0);
    picker.await_idle();
}

#[test]
fn x02_a_body_over_the_limit_is_refused_before_its_end() {
    let backend = Backend::quick();
    let picker = Picker::before(&format!("[server]\nbody_limit = \"64KiB\"\n{TWO}"), &backend);
    let answer = picker.ask(&super::chat_of(2 << 20));
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    assert_eq!(picker.ask(&chat("m")).status, 200, "the next one is served");
    picker.await_idle();
}

#[test]
fn x02_without_any_backend_clients_get_a_retry_after() {
    let config = "[discovery]\nendpoints_file = \"none.yaml\"\n";
    let picker = Picker::launch(Recipe::original_dst(), config);
    for ask in [chat("m"), chat("m").streamed()] {
        let answer = picker.ask(&ask);
        assert_eq!((answer.status, answer.code().as_str()), (503, "no_backend"));
        assert_eq!(answer.header("retry-after"), Some("5"));
        assert_eq!(answer.header(REASON), Some("rejected-no-endpoints"));
    }
}

#[test]
fn x02_n07_waiting_requests_are_refused_when_the_picker_ends() {
    let backend = Backend::held();
    let mut picker = Picker::before(ONE, &backend);
    let running = picker.send(&chat("m"));
    backend.await_running(1);
    let waiting = picker.enqueue(&chat("m"), 0);
    picker.gateway.process.signal("TERM");
    let answer = waiting.finish();
    answer.refused(503, "shutting_down");
    assert_eq!(answer.header(REASON), Some("rejected-shutting-down"));
    backend.open();
    assert_eq!(running.finish().status, 200, "what runs may end");
    assert!(picker.gateway.process.exit().success());
}

#[test]
fn x02_x03_bodies_are_bounded_all_together() {
    let backend = Backend::held();
    let limits = "[server]\nbody_limit = \"64KiB\"\nbodies_limit = \"128KiB\"\n";
    let (picker, running) = Picker::occupied(&format!("{limits}{ONE}"), &backend, &chat("m"));
    let waiting = [0, 1].map(|others| picker.enqueue(&super::chat_of(60 << 10), others));
    picker.ask(&super::chat_of(60 << 10)).refused(503, "overloaded");
    backend.open();
    assert!([running].into_iter().chain(waiting).all(|call| call.finish().status == 200));
    assert_eq!(picker.ask(&super::chat_of(60 << 10)).status, 200, "what was held is given back");
    picker.await_idle();
}
