//! Checks of forwarding that hold for the gateway and for the picker behind Envoy. Each has a
//! function for the backend and one for the requests.

use super::backend::{Backend, Seen};
use super::gateway::Gateway;
use super::http_request::{HttpRequest, chat};
use super::scripted_response::{ScriptedResponse, Step, delta, event};
use super::wait::eventually;

/// Headers for the gateway, which no backend gets.
const DROPPED: [(&str, &str); 13] = [
    ("X-Priority", "high"),
    ("X-Nexus-Priority", "high"),
    ("X-Workload-Context", "{}"),
    ("X-Max-Latency-Ms", "10"),
    ("X-Latency-Critical", "1"),
    ("X-Media-Type", "audio"),
    ("X-Request-Timeout-Ms", "60000"),
    ("x-gateway-inference-objective", "o"),
    ("x-gateway-inference-fairness-id", "f"),
    ("x-llm-d-inference-objective", "o"),
    ("x-llm-d-inference-fairness-id", "f"),
    ("x-llm-d-inference-ttl", "9"),
    ("x-slo-ttft-ms", "9"),
];
/// Headers that pass unchanged.
const KEPT: [(&str, &str); 5] = [
    ("Authorization", "Bearer key"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("x-own", "1"),
    ("accept", "text/event-stream"),
    ("user-agent", "tester"),
];
const BODY: &str = "{ \"tool_calls\" : [ ],\n \"reasoning_content\":\"\u{1f30a}\", \"n\":1.0e-7 }";
const WORDS: [&str; 3] = ["the ", "tide ", "turns"];

/// A backend that responds with one status after the other.
pub(crate) fn backend_with_statuses(statuses: &'static [u16]) -> Backend {
    let headers = ["content-type: application/vnd.x+json", "x-own: 1", "x-own: 2", "etag: \"v\""];
    Backend::start(move |seen| {
        ScriptedResponse::with_headers(statuses[seen.number], &headers, BODY)
    })
}

pub(crate) fn check_statuses(gateway: &Gateway, statuses: &[u16]) {
    for &status in statuses {
        let response = gateway.ask(&chat("m"));
        assert_eq!((response.status, response.text().as_str()), (status, BODY));
        let own: Vec<_> = response.headers.iter().filter(|(name, _)| name == "x-own").collect();
        assert_eq!(own.len(), 2, "{:?}", response.headers);
        assert_eq!(response.header("content-type"), Some("application/vnd.x+json"));
        assert_eq!(response.header("etag"), Some("\"v\""));
    }
    gateway.await_idle();
}

/// A backend that streams comments, fields, and a character that is cut in two; and the bytes.
pub(crate) fn backend_with_stream() -> (Backend, Vec<u8>) {
    let wave = "\u{1f30a}".to_owned();
    let (half, rest) = wave.as_bytes().split_at(2);
    let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
    let tool = "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}";
    let pieces: Vec<Vec<u8>> = vec![
        b": keep-alive\n\n".to_vec(),
        b"event: x\r\nid: 7\r\nretry: 10\r\ndata: {}\r\n\r\n".to_vec(),
        delta("the").into_bytes(),
        event(tool).into_bytes(),
        [b"data: ".as_slice(), half].concat(),
        [rest, b"\n\n"].concat(),
        b"data: [DONE]\n\n".to_vec(),
    ];
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
        cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let sent: Vec<u8> = head.bytes().chain(pieces.iter().flat_map(|piece| chunk(piece))).collect();
    let sent = [sent, b"0\r\n\r\n".to_vec()].concat();
    (Backend::start(move |_| ScriptedResponse::raw(sent.clone())), pieces.concat())
}

pub(crate) fn check_stream(gateway: &Gateway, bytes: &[u8]) {
    let response = gateway.ask(&chat("m").streamed());
    assert_eq!(response.body, bytes);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
}

/// A backend that streams a word each time the test releases it.
pub(crate) fn backend_with_words() -> Backend {
    Backend::start(|_| ScriptedResponse::stream_held(&WORDS))
}

pub(crate) fn check_words(gateway: &Gateway, backend: &Backend) {
    let mut call = gateway.send(&chat("m").streamed());
    let mut piece = String::new();
    for word in WORDS {
        backend.release(1);
        // The backend holds the next word, so the gateway did not wait for it.
        piece = String::from_utf8(call.chunk().unwrap()).unwrap();
        assert!(piece.contains(word), "{piece}");
    }
    // The end may have come together with the last word.
    assert!((piece + &call.finish().text()).ends_with("data: [DONE]\n\n"));
    gateway.await_idle();
}

/// A backend whose response does not end.
pub(crate) fn backend_without_end() -> Backend {
    let piece = vec![b'x'; 64 << 10];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1usize << 40);
    Backend::start(move |_| ScriptedResponse::raw(&*head).then(Step::Endless(piece.clone())))
}

pub(crate) fn check_slow_reader(gateway: &Gateway, backend: &Backend) {
    let mut call = gateway.send(&chat("m"));
    assert_eq!(call.head().status, 200);
    // The buffers on the way fill first. Wait until the counter stops.
    let mut last = (0, 0);
    eventually("stands still", || {
        let sent = backend.endless();
        last = if sent == last.0 { (sent, last.1 + 1) } else { (sent, 0) };
        if sent > 0 && last.1 > 50 { Ok(()) } else { Err(format!("{sent} bytes")) }
    });
    assert!(backend.endless() < 64 << 20, "{} bytes without a reader", backend.endless());
    drop(call);
    backend.await_left(1);
    gateway.await_idle();
}

/// Sends a request with the headers above and these; returns the request that the backend got.
pub(crate) fn check_headers(
    gateway: &Gateway,
    backend: &Backend,
    ask: HttpRequest,
    dropped: &[(&str, &str)],
    kept: &[(&str, &str)],
) -> Seen {
    let (dropped, kept) = ([&DROPPED[..], dropped].concat(), [&KEPT[..], kept].concat());
    let all = dropped.iter().chain(&kept);
    let ask = all.fold(ask, |ask, (name, value)| ask.header(name, value));
    assert_eq!(gateway.ask(&ask).status, 200);
    let seen = backend.seen().remove(0);
    for (name, _) in dropped {
        let value = seen.header(&name.to_ascii_lowercase());
        assert_eq!(value, None, "{name} reached the backend");
    }
    for (name, value) in kept {
        assert_eq!(seen.header(&name.to_ascii_lowercase()), Some(value), "{name}");
    }
    seen
}
