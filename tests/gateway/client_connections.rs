//! Unusual connections of clients and backends.

use crate::support::gateway::{ONE, TWO};
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat};

/// A gateway whose only place is taken, and where a request may wait for long.
fn patient(backend: &Backend) -> (Gateway, Call) {
    let config = format!("[queue]\nqueue_ttl = \"10m\"\n{ONE}");
    Gateway::occupied(&config, backend, &chat("m").tag("running"))
}

#[test]
fn q09_a_pipelining_client_that_leaves_is_noticed() {
    let backend = Backend::held();
    let (gateway, running) = patient(&backend);
    let bytes = [chat("m").bytes_kept(), chat("m").bytes_kept()].concat();
    let eager = Call::open(gateway.address(), &bytes);
    gateway.await_depth(1);
    drop(eager);
    gateway.await_depth(0);
    backend.open();
    assert_eq!(running.finish().status, 200);
    gateway.await_idle();
}

#[test]
fn q09_a_client_that_sends_more_while_it_waits_and_leaves_is_noticed() {
    let backend = Backend::held();
    let (gateway, running) = patient(&backend);
    let mut eager = Call::open(gateway.address(), &chat("m").bytes_kept());
    gateway.await_depth(1);
    eager.send(&chat("m").bytes_kept()).unwrap();
    // The second request is read by then, or comes with the end.
    gateway.await_depth(1);
    drop(eager);
    gateway.await_depth(0);
    backend.open();
    assert_eq!(running.finish().status, 200);
    gateway.await_idle();
}

#[test]
fn n05_a_backend_that_closes_idle_connections_is_not_at_fault() {
    let backend = Backend::start(|_| {
        ScriptedResponse::ok().then(crate::support::scripted_response::Step::Close)
    });
    let gateway = Gateway::before(TWO, &backend);
    for _ in 0..100 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    assert_eq!(backend.seen().len(), 100);
    assert_eq!(gateway.backend("one")["failures"], 0);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tidegate_requeues_total"), 0.0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let backend = Backend::start(|seen| {
        ScriptedResponse::json(200, &format!("{{\"n\":\"{}\"}}", seen.tag()))
    });
    let gateway = Gateway::before(TWO, &backend);
    let ask = |tag: &str| chat("m").tag(tag).bytes_kept();
    let health = HttpRequest::get("/health").bytes_kept();
    let all = [ask("one"), health, ask("two"), ask("three")].concat();
    let mut call = Call::open(gateway.address(), &all);
    let answers: Vec<_> = (0..4).map(|_| call.answer().unwrap().text()).collect();
    assert_eq!(answers[0], "{\"n\":\"one\"}");
    assert!(answers[1].contains("\"queue\""));
    assert_eq!(answers[2..], ["{\"n\":\"two\"}", "{\"n\":\"three\"}"]);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let body = chat("m").body;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
        content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut call = Call::open(gateway.address(), head.as_bytes());
    assert_eq!(call.status_line(), "HTTP/1.1 100 Continue");
    call.send(&body).unwrap();
    assert_eq!(call.finish().status, 200);
    assert_eq!(backend.seen()[0].header("expect"), None);
}

/// The id comes with the head, so the log has it however early the client leaves: here while the
/// gateway reads a large body.
#[test]
fn q09_a_client_that_leaves_while_its_body_is_read_is_logged_with_its_request_id() {
    let backend = Backend::held();
    let gateway = Gateway::before("[log]\nformat = \"json\"\n", &backend);
    let request = chat("m").with("padding", "x".repeat(16 << 20)).header("x-request-id", "large");
    drop(Call::open(gateway.address(), &request.bytes()));
    assert_eq!(gateway.access_of("large")["outcome"], "client_closed");
}
