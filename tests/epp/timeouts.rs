//! Every wait is bounded, for a silent backend and for a client that does not read.

use crate::support::gateway::ONE;
use crate::support::{Backend, Picker, ScriptedResponse, chat};

fn patient(limits: &str, backend: &Backend) -> Picker {
    Picker::before(&format!("[upstream]\n{limits}\n{ONE}"), backend)
}

#[test]
fn x02_a_request_to_a_silent_backend_times_out() {
    let backend = Backend::start(|_| ScriptedResponse::silence());
    let picker = patient("answer_timeout = \"300ms\"", &backend);
    let first = picker.send(&chat("m"));
    let second = picker.send(&chat("m"));
    for call in [first, second] {
        let answer = call.finish();
        assert_eq!((answer.status, answer.code().as_str()), (502, "backend_error"));
    }
    backend.await_left(2);
    picker.await_idle();
}

#[test]
fn x02_the_clients_own_deadline_ends_its_answer() {
    let backend = Backend::start(|_| ScriptedResponse::silence());
    let picker = patient("", &backend);
    let answer = picker.ask(&chat("m").header("x-request-timeout-ms", "300"));
    assert_eq!((answer.status, answer.code().as_str()), (504, "deadline_exceeded"));
    backend.await_left(1);
    picker.await_idle();
}

#[test]
fn x02_a_response_that_stands_still_is_cut() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "stalls" => ScriptedResponse::stream_begun("a").then_all(ScriptedResponse::silence()),
        _ => ScriptedResponse::ok(),
    });
    let picker = patient("stall_timeout = \"300ms\"", &backend);
    let mut stalled = picker.send(&chat("m").tag("stalls").streamed());
    assert!(stalled.chunk().is_some());
    assert_eq!(picker.ask(&chat("m")).status, 200, "its place is free");
    assert!(stalled.answer().is_err(), "it was cut");
    backend.await_left(1);
    picker.await_idle();
}

/// An answer of 64 MB fills every buffer on its way.
#[test]
fn x02_a_client_that_reads_nothing_makes_room() {
    let big = "x".repeat(64 << 20);
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "big" => ScriptedResponse::json(200, &big),
        _ => ScriptedResponse::ok(),
    });
    let picker = patient("stall_timeout = \"500ms\"", &backend);
    let deaf = picker.send(&chat("m").tag("big"));
    backend.await_seen(1);
    assert_eq!(picker.ask(&chat("m")).status, 200, "its place is free");
    drop(deaf);
    picker.await_idle();
}
