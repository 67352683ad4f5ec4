//! `X-Queue-Status`: the position in the queue on a stream.

use crate::support::gateway::ONE;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

#[test]
fn queue_status_reports_the_position_while_waiting() {
    let backend = Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::stream_held(&["the ", "tide"]),
    });
    let (gateway, running) =
        Gateway::occupied(&format!("[queue]\nqueue_ttl = \"3s\"\n{ONE}"), &backend, &chat("m"));
    let status = |ask: HttpRequest| ask.streamed().header("X-Queue-Status", "sse");
    let mut told = gateway.enqueue(&status(chat("m")), 0);
    let head = told.head();
    assert_eq!(head.status, 200);
    let comment = String::from_utf8(told.chunk().unwrap()).unwrap();
    assert!(comment.starts_with(": ") || comment.starts_with(":"), "{comment}");
    backend.open();
    assert_eq!(running.finish().status, 200);
    let text = told.finish().text();
    assert!(text.contains("tide") && text.ends_with("data: [DONE]\n\n"), "{text}");
    gateway.await_idle();
}

#[test]
fn a_refusal_after_queue_status_began_is_an_event() {
    let backend = Backend::held();
    let (gateway, _running) =
        Gateway::occupied(&format!("[queue]\nqueue_ttl = \"4s\"\n{ONE}"), &backend, &chat("m"));
    let ask = chat("m").streamed().header("X-Queue-Status", "sse");
    let answer = gateway.ask(&ask);
    assert_eq!(answer.status, 200);
    let text = answer.text();
    let (_, event) = text.split_once("event: error\ndata: ").unwrap();
    let error: serde_json::Value = serde_json::from_str(event.trim()).unwrap();
    assert_eq!(error["error"]["code"], "queue_timeout");
    let leaver = gateway.enqueue(&ask, 0);
    drop(leaver);
    gateway.await_depth(0);
}
