//! Each fault does what it says, and the counters come back to rest.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::super::{Fault, Running, Settings};
use super::{ask, chat, chat_body, fast, get, post, raw, send, start, until};

fn faulty(engine: &Running, fault: &str, rest: &str) -> std::io::Result<Vec<u8>> {
    raw(engine, &head(fault), &chat_body(rest))
}

fn head(fault: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nx-fault: {fault}")
}

#[test]
fn a_reset_comes_instead_of_a_response_or_after_some_tokens() {
    let engine = start(fast());
    let error = faulty(&engine, "reset", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let mut stream = send(&engine, &head("reset-after=2"), &chat_body(r#","stream":true"#));
    let mut seen = Vec::new();
    let error = stream.read_to_end(&mut seen).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let seen = String::from_utf8(seen).unwrap();
    assert_eq!(seen.matches("data: ").count(), 3, "a role and two tokens: {seen}");
    let error = faulty(&engine, "reset-after=2", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let seen = until(&engine, |seen| seen.in_flight == 0 && seen.running == 0);
    assert_eq!((seen.failed, seen.aborted), (3, 0));
}

#[test]
fn errors_have_their_status_and_perhaps_a_time_to_come_back() {
    let engine = start(fast());
    let full = ask(&engine, &head("429=7"), &chat_body(""));
    assert!(full.status == 429 && full.head.contains("retry-after: 7\r\n"), "{}", full.head);
    for status in [429, 500, 503] {
        let reply = ask(&engine, &head(&status.to_string()), &chat_body(""));
        assert_eq!((reply.status, reply.head.contains("retry-after")), (status, false));
        assert_eq!(reply.json()["error"]["code"], status);
    }
    let unknown = ask(&engine, &head("tired"), &chat_body(""));
    assert!(unknown.status == 400 && unknown.body.contains("reset-after=TOKENS"));
}

#[test]
fn a_hanging_request_is_there_until_its_client_leaves() {
    let engine = start(fast());
    let stream = send(&engine, &head("hang"), &chat_body(""));
    until(&engine, |seen| seen.in_flight == 1);
    drop(stream);
    let seen = until(&engine, |seen| seen.in_flight == 0);
    assert_eq!((seen.aborted, seen.completed), (1, 0));
}

#[test]
fn an_endless_response_goes_on_until_its_client_leaves() {
    let engine = start(fast());
    let mut stream = send(&engine, &head("never-end"), &chat_body(""));
    let mut some = [0; 2000];
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    until(&engine, |seen| seen.in_flight == 0 && seen.aborted == 1);
}

#[test]
fn garbage_is_no_http_and_a_bad_length_ends_early() {
    let engine = start(fast());
    let garbage = faulty(&engine, "garbage", "").unwrap();
    assert!(!garbage.is_empty() && !garbage.starts_with(b"HTTP"));
    let short = String::from_utf8(faulty(&engine, "bad-length", "").unwrap()).unwrap();
    let (head, body) = short.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 1000") && body.len() < 1000, "{short}");
}

#[test]
fn a_server_that_refuses_comes_back_when_it_is_healed() {
    let engine = start(fast());
    let idle = TcpStream::connect(engine.address()).unwrap();
    assert_eq!(get(&engine, "/health").status, 200, "both connections are taken");
    engine.control().fail(Fault::Refuse(Duration::from_secs(3600)), None);
    let ended = (&idle).read(&mut [0]);
    assert!(ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    // The listener is closed at about the same time.
    let refused = || TcpStream::connect(engine.address()).map_err(|error| error.kind());
    let tries = (0..1000).map(|_| refused()).filter_map(Result::err);
    assert_eq!(tries.take(1).collect::<Vec<_>>(), [ErrorKind::ConnectionRefused]);
    engine.control().heal();
    let back = (0..100_000).map(|_| TcpStream::connect(engine.address()));
    assert!(back.flatten().next().is_some(), "it is back");
    assert_eq!(get(&engine, "/health").status, 200);
}

#[test]
fn the_control_asks_for_faults_by_count_and_everywhere() {
    let engine = start(fast());
    let control = |body: &str| post(&engine, "/control", body).status;
    assert_eq!(control(r#"{"fault":"503","count":2}"#), 200);
    let three = [(); 3].map(|()| chat(&engine, "").status);
    assert_eq!((three, get(&engine, "/health").status), ([503, 503, 200], 200));
    assert_eq!(control(r#"{"fault":"500"}"#), 200);
    assert_eq!([(); 3].map(|()| chat(&engine, "").status), [500; 3]);
    assert_eq!(control(r#"{"fault":"500","everywhere":true}"#), 200);
    assert_eq!((get(&engine, "/health").status, get(&engine, "/metrics").status), (500, 500));
    assert_eq!(control(r#"{"fault":"none"}"#), 200);
    assert_eq!((chat(&engine, "").status, get(&engine, "/health").status), (200, 200));
    for wrong in [r#"{"fault":"tired"}"#, "{}", "no", r#"{"fault":"none","cuont":1}"#] {
        assert_eq!(control(wrong), 400, "{wrong}");
    }
    assert_eq!(get(&engine, "/control").json()["failed"], json!(5));
}

#[test]
fn a_share_of_the_requests_fails_by_chance() {
    let failures = vec![Fault::Status(429, None), Fault::Status(503, None)];
    let engine = start(Settings { failure_share: 0.5, failures, ..fast() });
    let count = |status: u16| {
        (0..100).filter(|_| chat(&engine, r#","max_tokens":1"#).status == status).count()
    };
    for status in [200, 429, 503] {
        let seen = count(status);
        assert!((10..80).contains(&seen), "{seen} of 100 had status {status}");
    }
}
