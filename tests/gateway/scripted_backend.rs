//! Tests of the test support: the scripted backend, and the client that reads its responses.

use crate::support::scripted_response::Step;
use crate::support::{Backend, Call, ScriptedResponse, chat};

fn call(backend: &Backend, tag: &str) -> Call {
    Call::open(backend.address(), &chat("m").tag(tag).bytes())
}

#[test]
fn held_responses_go_in_order_of_arrival() {
    let backend = Backend::held();
    let first = call(&backend, "first");
    backend.await_held(1);
    let second = call(&backend, "second");
    backend.await_held(2);
    backend.release(1);
    assert_eq!(first.finish().status, 200);
    backend.await_running(1);
    backend.release(1);
    assert_eq!(second.finish().status, 200);
    assert_eq!((backend.most(), backend.tags()), (2, vec!["first".into(), "second".into()]));
}

#[test]
fn a_client_that_leaves_a_held_response_blocks_no_other() {
    let backend = Backend::held();
    let first = call(&backend, "first");
    backend.await_running(1);
    let second = call(&backend, "second");
    backend.await_running(2);
    drop(first);
    backend.await_left(1);
    backend.release(1);
    assert_eq!(second.finish().status, 200);
}

#[test]
fn streams_resets_and_trailers_follow_the_script() {
    let trailers = "3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "reset" => ScriptedResponse::reset(),
        "cut" => ScriptedResponse::stream_begun("a").then(Step::Close),
        _ => ScriptedResponse::raw(format!("{head}{trailers}")),
    });
    let answer = call(&backend, "").finish();
    assert_eq!((answer.text(), answer.trailers.len()), ("abc".into(), 1));
    assert!(call(&backend, "reset").answer().is_err());
    assert!(call(&backend, "cut").answer().is_err());
    backend.stop();
    let again = Backend::start_at(backend.address(), |_| ScriptedResponse::ok());
    assert_eq!(call(&again, "").finish().status, 200);
}
