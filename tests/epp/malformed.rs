//! Messages that no Envoy should send: the picker ends that stream and serves the others.

use serde_json::json;

use crate::support::envoy::FREE;
use crate::support::ext_proc::Stream;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Backend, Call, ExtProcStream, Gateway, HttpRequest, chat};

fn talking(sections: &str, backend: &Backend) -> (Gateway, ExtProcStream) {
    let picker = Gateway::picker(&config(sections, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let talk = ExtProcStream::with(picker.process.address());
    (picker, talk)
}

/// A request on the same connection is served, and nothing else is counted.
fn serves(picker: &Gateway, talk: &mut ExtProcStream) {
    let stream = talk.request(&chat("m"), 1_000);
    talk.choice(stream);
    talk.serve(stream, "application/json", &[b"{}"]);
    assert_eq!(talk.ended(stream), "OK");
    picker.await_idle();
}

#[test]
fn x02_messages_that_are_none_end_their_stream_alone() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    let garbage: [&[u8]; 5] = [
        b"\xff\xff\xff\xff\xff",
        // A field that says it is longer than the message.
        b"\x12\xff\xff\xff\x7f",
        // A field number of zero.
        b"\x02\x00",
        // Groups in groups, as deep as they go.
        &[0x0b; 5_000],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for message in garbage {
        let stream = talk.stream();
        talk.raw(stream, message);
        let code = talk.until_ended(stream);
        assert!(code == "INVALID_ARGUMENT" || code == "INTERNAL", "{message:?}: {code}");
        let stream = talk.stream();
        talk.head(stream, &chat("m"), json!({}));
        talk.raw(stream, message);
        let code = talk.until_ended(stream);
        assert_ne!(code, "OK", "{message:?}");
        serves(&picker, &mut talk);
    }
}

#[test]
fn x02_streams_without_a_request_end_without_harm() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    let empty = talk.stream();
    talk.open(empty);
    talk.end(empty);
    assert_eq!(talk.ended(empty), "OK");
    let cut = talk.stream();
    talk.open(cut);
    talk.cancel(cut);
    assert_eq!(talk.ended(cut), "CANCELLED");
    // An empty message, of which a later protocol may have made something.
    let nothing = talk.stream();
    talk.raw(nothing, b"");
    talk.end(nothing);
    talk.until_ended(nothing);
    serves(&picker, &mut talk);
    assert_eq!(picker.metrics().sum("tidegate_requests_total"), 1.0);
}

#[test]
fn x02_messages_out_of_order_end_their_stream_alone() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(ONE, &backend);
    type Step = fn(&mut ExtProcStream, Stream);
    let cases: [(&str, &[Step]); 6] = [
        ("a body first", &[|talk, on| talk.body(on, b"{}", true)]),
        ("an answer first", &[|talk, on| talk.answer_head(on, 200, "a/b", json!({}))]),
        ("trailers first", &[|talk, on| talk.trailers(on)]),
        ("an answer's trailers first", &[|talk, on| talk.answer_trailers(on)]),
        (
            "two heads",
            &[
                |talk, on| talk.head(on, &chat("m"), json!({})),
                |talk, on| talk.head(on, &chat("m"), json!({})),
            ],
        ),
        (
            "an answer in the middle of the request",
            &[
                |talk, on| talk.head(on, &chat("m"), json!({})),
                |talk, on| talk.answer_body(on, b"{}", true),
            ],
        ),
    ];
    for (what, steps) in cases {
        let stream = talk.stream();
        for step in steps {
            step(&mut talk, stream);
        }
        talk.end(stream);
        // Refused, cut, or ignored: it ends, and no other stream suffers.
        eprintln!("{what}: {}", talk.until_ended(stream));
        serves(&picker, &mut talk);
    }
}

#[test]
fn x02_a_message_over_every_limit_is_not_taken_in() {
    let backend = Backend::quick();
    let limit = "[server]\nbody_limit = \"64KiB\"\n";
    let (picker, mut talk) = talking(&format!("{limit}{TWO}"), &backend);
    let stream = talk.stream();
    talk.head(stream, &chat("m"), json!({}));
    talk.body(stream, &vec![b'x'; 24 << 20], true);
    let first = talk.heard(stream);
    let refused = first["got"]["status"] == 413 || first["ended"] == "RESOURCE_EXHAUSTED";
    assert!(refused, "{:.300}", first.to_string());
    serves(&picker, &mut talk);
}

#[test]
fn x02_connections_that_speak_something_else_are_closed() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    let address = picker.process.address();
    let http = Call::open(address, &chat("m").bytes()).answer();
    assert!(http.is_err() || http.is_ok_and(|answer| answer.status >= 400));
    let noise: Vec<u8> = (0..4_096_u32).map(|at| ((at * 7_919) >> 3) as u8).collect();
    let mut call = Call::open(address, &noise);
    call.end();
    assert!(call.answer().is_err());
    drop(Call::open(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    serves(&picker, &mut talk);
}

#[test]
fn x02_a_picker_without_a_reader_ends_with_its_envoy() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(ONE, &backend);
    for _ in 0..3 {
        talk.request(&chat("m"), 1_000);
    }
    picker.await_depth(2);
    let unfinished = talk.stream();
    talk.head(unfinished, &chat("m"), json!({}));
    talk.body(unfinished, b"{\"model\":", false);
    drop(talk);
    picker.await_idle();
}

#[test]
fn x02_silent_streams_end_in_time() {
    let backend = Backend::quick();
    let sections = format!("[server]\nheader_timeout = \"300ms\"\nbody_timeout = \"300ms\"\n{TWO}");
    let (picker, mut talk) = talking(&sections, &backend);
    let silent = talk.stream();
    talk.open(silent);
    assert_eq!(talk.until_ended(silent), "DEADLINE_EXCEEDED");
    let headed = talk.stream();
    talk.head(headed, &chat("m"), json!({}));
    assert_eq!(talk.refusal(headed).0, 408);
    serves(&picker, &mut talk);
}

#[test]
fn x02_silent_connections_are_closed() {
    let backend = Backend::quick();
    let (picker, mut talk) =
        talking(&format!("[server]\nheader_timeout = \"300ms\"\n{TWO}"), &backend);
    for greeting in ["", "PRI * HTT"] {
        let mut silent = Call::open(picker.process.address(), greeting.as_bytes());
        assert!(silent.answer().is_err(), "{greeting:?}");
    }
    serves(&picker, &mut talk);
}

#[test]
fn x02_a_flood_of_headers_is_refused() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    for (count, name) in [(30_000, "x-many-"), (100_000, "")] {
        let many = |ask: HttpRequest, number: usize| match name {
            "" => ask.header("x-same", "v"),
            _ => ask.header(&format!("{name}{number}"), "v"),
        };
        let ask = (0..count).fold(HttpRequest::get("/v1/things"), many);
        let flood = talk.stream();
        talk.head(flood, &ask, json!({"eos": true}));
        assert_eq!(talk.refusal(flood).0, 400);
    }
    serves(&picker, &mut talk);
}
