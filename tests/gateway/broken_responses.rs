//! N05, R07: responses that break off after they have begun.

use crate::support::gateway::{ONE, TWO, config};
use crate::support::scripted_response::{Step, delta};
use crate::support::tools::tool;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

/// A stream with this content type that sends one chunk and closes its connection.
fn cut_off(content_type: &str, more: &str, data: &str) -> ScriptedResponse {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{more}");
    let chunk = format!("{:x}\r\n{data}\r\n", data.len());
    let head = format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}");
    ScriptedResponse::raw(head).then(Step::Close)
}

/// Sends a request whose response breaks off, and reads until the gateway cuts the connection.
fn read_until_cut(gateway: &Gateway, ask: &HttpRequest) -> String {
    gateway.send(ask).read_until_cut()
}

#[test]
fn n05_a_broken_stream_ends_with_an_error_that_clients_know() {
    let backend = Backend::start(|seen| {
        let event = delta("half");
        match seen.tag().as_str() {
            "an event" => cut_off("text/event-stream; charset=utf-8", "", &event),
            "windows" => cut_off("text/event-stream", "", "data: {}\r\n\r\n"),
            "lines" => cut_off("application/x-ndjson", "", "{\"response\":\"half\"}\n"),
            "half" => cut_off("text/event-stream", "", &event[..20]),
            "gzip" => cut_off("text/event-stream", "content-encoding: gzip\r\n", "data: {}\n\n"),
            _ => cut_off("application/json", "", "{\"half\":\n\n"),
        }
    });
    let gateway = Gateway::before(&format!("[health]\neject_after = 100\n{ONE}"), &backend);
    let read = |tag: &str| read_until_cut(&gateway, &chat("m").streamed().tag(tag));
    let message = "The response broke off: it closed the connection in the middle of its answer. \
                   Send the request again.";
    let error = format!(
        "data: {{\"error\":{{\"message\":\"{message}\",\"type\":\"server_error\",\
         \"code\":\"backend_error\",\"param\":null}}}}\n\n"
    );
    assert_eq!(read("an event"), delta("half") + &error);
    assert_eq!(read("windows"), format!("data: {{}}\r\n\r\n{error}"));
    let line = format!("{{\"error\":\"{message}\",\"code\":\"backend_error\"}}\n");
    assert_eq!(read("lines"), format!("{{\"response\":\"half\"}}\n{line}"));
    // Nothing can be added to half an event, to compressed bytes, or to a response in one piece.
    assert_eq!(read("half"), delta("half")[..20]);
    assert_eq!(read("gzip"), "data: {}\n\n");
    assert_eq!(read("whole"), "{\"half\":\n\n");
    gateway.await_idle();
}

/// A response in progress proves nothing: only a whole one ends a series of broken ones.
#[test]
fn r07_a_backend_that_breaks_its_responses_is_ejected() {
    let bad = Backend::start(|seen| match seen.number {
        2 => ScriptedResponse::stream(&["data: {}\n\n"]),
        _ => cut_off("text/event-stream", "", "data: {}\n\n"),
    });
    let health = "[health]\neject_after = 3\neject_for = \"1h\"\n";
    let gateway = Gateway::before(&format!("{health}{TWO}"), &bad);
    let ask = chat("m").streamed();
    for number in 0..6 {
        assert_eq!(gateway.backend("one")["state"], "ready", "after {number} responses");
        match number {
            2 => assert_eq!(gateway.ask(&ask).status, 200),
            _ => _ = read_until_cut(&gateway, &ask),
        }
    }
    let shown = gateway.backend("one");
    assert_eq!(shown["state"], "ejected", "{shown}");
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains("closed the connection in the middle"), "{reason}");
}

#[test]
fn r07_a_client_that_leaves_is_no_failure_of_the_backend() {
    let backend = Backend::start(|_| ScriptedResponse::stream_begun("half").then(Step::Silence));
    let health = "[health]\neject_after = 1\n";
    let gateway = Gateway::start(&config(&format!("{health}{TWO}"), &[("one", backend.address())]));
    for left in 1..4 {
        let mut call = gateway.send(&chat("m").streamed());
        assert!(call.chunk().is_some());
        drop(call);
        backend.await_left(left);
        gateway.await_idle();
        assert_eq!(gateway.backend("one")["state"], "ready");
    }
}

#[test]
fn n05_a_backend_that_sends_interim_responses_without_end_fails() {
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "endless" => ScriptedResponse(vec![Step::Endless(hint.into())]),
        _ => ScriptedResponse::raw(hint.repeat(100)).then_all(ScriptedResponse::ok()),
    });
    let gateway = Gateway::before(&format!("[retry]\nattempts = 1\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m").tag("endless"));
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(answer.text().contains("too many interim responses"), "{}", answer.text());
    assert_eq!(gateway.ask(&chat("m")).status, 200, "some are allowed");
    gateway.await_idle();
}

/// A response that is cut short must not look whole, whichever way its end is told.
#[test]
fn n05_a_response_that_is_cut_short_is_cut_for_the_client_too() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "length" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            ScriptedResponse::raw(format!("{head}content-length: 100\r\n\r\n{{\"half\":"))
                .then(Step::Close)
        }
        _ => cut_off("application/json", "", "{\"half\":"),
    });
    let gateway = Gateway::before(&format!("[health]\neject_after = 100\n{ONE}"), &backend);
    let url = format!("{}/v1/chat/completions", gateway.url());
    for framing in ["length", "chunked"] {
        let body = chat("m").tag(framing).body;
        let body = String::from_utf8(body).unwrap();
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let mut curl = tool("curl");
            curl.args(["-sS", "-o", "/dev/null", version, &url, "-d", &body]);
            let ended = curl.output().unwrap().status;
            assert!(!ended.success(), "{framing} {version} looks whole");
        }
    }
    gateway.await_idle();
}
