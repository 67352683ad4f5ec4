//! R05 and the other control headers: limits, ids, sessions, streams.

use std::collections::BTreeSet;

use super::*;

fn with(name: &str, value: &str) -> Box<Intent> {
    chat(&Config::default(), &[(name, value)])
}

fn prefers(name: &str, value: &str) -> Preferences {
    with(name, value).preferences
}

#[test]
fn r05_limits_are_read_and_nonsense_is_passed_over() {
    assert_eq!(prefers("x-max-latency-ms", "100").latency_max, Some(Span::from_millis(100)));
    assert_eq!(prefers("x-request-timeout-ms", "2500").deadline, Some(Span::from_millis(2500)));
    assert_eq!(prefers("x-max-latency-ms", "1.5").latency_max, Some(Span::from_nanos(1_500_000)));
    assert_eq!(prefers("x-deadline-ms", "1763380000123.456").deadline_at, Some(1_763_380_000_123));
    for wrong in ["", "-1", "soon", "-0.5", "1.5s", "NaN", "inf", "-inf", "1e999"] {
        assert_eq!(prefers("x-max-latency-ms", wrong).latency_max, None, "{wrong}");
        assert_eq!(prefers("x-request-timeout-ms", wrong).deadline, None, "{wrong}");
        assert_eq!(prefers("x-max-power-watts", wrong).power_max, None, "{wrong}");
    }
    assert_eq!(prefers("x-max-power-watts", "9.99").power_max, Some(9.99));
    for far in [&u64::MAX.to_string(), "99999999999999999999999"] {
        let far = prefers("x-request-timeout-ms", far);
        assert_eq!(far.deadline, Some(Span::from_nanos(u64::MAX)));
    }
}

/// How long a client waits, as client libraries, gRPC and Envoy state it.
#[test]
fn r05_the_timeouts_of_client_libraries_are_deadlines() {
    let rows = [
        ("grpc-timeout", "300m", 300_000),
        ("grpc-timeout", "2S", 2_000_000),
        ("grpc-timeout", "1M", 60_000_000),
        ("grpc-timeout", "1H", 3_600_000_000),
        ("grpc-timeout", "5000u", 5_000),
        ("grpc-timeout", "99999999n", 99_999),
        ("x-stainless-read-timeout", "600.0", 600_000_000),
        ("x-stainless-read-timeout", "0.5", 500_000),
        ("x-stainless-timeout", "600", 601_000_000),
        ("x-stainless-timeout", "0", 1_000_000),
        ("x-envoy-upstream-rq-timeout-ms", "1500", 1_500_000),
        ("x-envoy-expected-rq-timeout-ms", "15000", 15_000_000),
    ];
    for (name, value, micros) in rows {
        let told = prefers(name, value).deadline.map(|span| span.nanos() / 1000);
        assert_eq!(told, Some(micros), "{name}: {value}");
    }
    let nonsense = [
        ("grpc-timeout", "123456789S"),
        ("grpc-timeout", "S"),
        ("grpc-timeout", ""),
        ("grpc-timeout", "1.5S"),
        ("grpc-timeout", "-1S"),
        ("grpc-timeout", "5 S"),
        ("grpc-timeout", "5µ"),
        ("x-stainless-read-timeout", "None"),
        ("x-stainless-timeout", "-1"),
        ("x-envoy-upstream-rq-timeout-ms", "0"),
        ("x-envoy-expected-rq-timeout-ms", "0"),
    ];
    for (name, value) in nonsense {
        assert_eq!(prefers(name, value).deadline, None, "{name}: {value}");
    }
    let both = [("x-request-timeout-ms", "900"), ("grpc-timeout", "1S")];
    let earliest = chat(&Config::default(), &both).preferences.deadline;
    assert_eq!(earliest, Some(Span::from_millis(900)));
}

#[test]
fn r05_of_a_header_that_comes_twice_the_first_counts() {
    let twice = [("x-request-id", "a"), ("x-request-id", "b"), ("x-request-id", "c")];
    assert_eq!(chat(&Config::default(), &twice).request_id, "a");
}

#[test]
fn r05_the_latency_critical_header_is_read() {
    for yes in ["true", "1", "YES", "on"] {
        assert!(prefers("x-latency-critical", yes).latency_critical, "{yes}");
    }
    for no in ["false", "0", "", "maybe"] {
        assert!(!prefers("x-latency-critical", no).latency_critical, "{no}");
    }
}

#[test]
fn r05_an_id_is_kept_if_it_is_short_and_visible() {
    for good in ["voice-stream-001", &"a".repeat(128)] {
        assert_eq!(with("x-request-id", good).request_id, good);
    }
    for bad in ["", "a b", &"a".repeat(129), "é"] {
        let id = with("x-request-id", bad).request_id;
        assert_eq!(id.len(), 16, "{bad}");
        assert!(id.as_bytes().iter().all(u8::is_ascii_hexdigit), "{id:?}");
    }
}

#[test]
fn r05_generated_ids_differ() {
    let id = |_| with("x-request-id", "").request_id.to_str().unwrap().to_owned();
    let ids: BTreeSet<String> = (0..1000).map(id).collect();
    assert_eq!(ids.len(), 1000);
}

#[test]
fn durations_are_read_as_programs_write_them() {
    let rows = [
        ("500ms", 500_000_000),
        ("2s", 2_000_000_000),
        ("2", 2_000_000_000),
        ("1.5", 1_500_000_000),
        ("0.25s", 250_000_000),
        ("1m30s", 90_000_000_000),
        ("1h", 3_600_000_000_000),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("7ns", 7),
        ("0", 0),
    ];
    for (text, nanos) in rows {
        assert_eq!(duration::parse(text).map(Span::nanos), Some(nanos), "{text}");
    }
    for wrong in ["", "-1s", "s", "1x", "1s2", "1..2s", "1 s", "∞", &"1".repeat(65)] {
        assert_eq!(duration::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn streams_are_the_default_where_they_are_in_that_api() {
    let streamed = |path, more: &str| {
        let body = format!(r#"{{"model":"m"{more}}}"#);
        posted(path, body.as_bytes()).unwrap().0.streamed
    };
    assert!(!streamed(CHAT, ""));
    assert!(streamed(CHAT, r#","stream":true"#));
    assert!(!streamed(CHAT, r#","stream":null"#));
    assert!(streamed("/api/chat", ""));
    assert!(streamed("/api/generate", r#","stream":true"#));
    assert!(!streamed("/api/generate", r#","stream":false"#));
    assert!(!streamed("/api/embed", ""));
}

#[test]
fn queue_status_is_for_event_streams_only() {
    let asked = |path, body: &'static str| {
        let parts = parts(Method::POST, path, &[("x-queue-status", b"SSE")]);
        read(&Config::default(), &parts, Bytes::from_static(body.as_bytes()), 0)
            .unwrap()
            .0
            .queue_status
    };
    assert!(asked(CHAT, r#"{"model":"m","stream":true}"#));
    assert!(!asked(CHAT, r#"{"model":"m"}"#));
    assert!(!asked("/api/chat", r#"{"model":"m"}"#), "lines of JSON know no comments");
    assert!(!with("x-queue-status", "yes").queue_status);
}

#[test]
fn a_conversation_is_named_by_the_most_telling_of_its_marks() {
    let session = |body: &str, header: Option<&str>| {
        let headers: Vec<(&str, &[u8])> =
            header.map(|value| ("x-session-id", value.as_bytes())).into_iter().collect();
        let body = Bytes::from(format!(r#"{{"model":"m"{body}}}"#));
        read(&Config::default(), &parts(Method::POST, CHAT, &headers), body, 0).unwrap().0.session
    };
    let a = Some(json_body::hash("a"));
    assert_eq!(session("", None), None);
    assert_eq!(session(r#","user":"a""#, None), a);
    assert_eq!(session(r#","user":"u""#, Some("a")), a);
    assert_eq!(session(r#","user":"u","session":"a""#, Some("h")), a);
    assert_eq!(session(r#","session":"s","prompt_cache_key":"a","user":"u""#, Some("h")), a);
    assert_eq!(session(r#","user":"","session":7,"prompt_cache_key":null"#, Some("")), None);
    assert_eq!(json_body::hash("a"), 0xaf63_dc4c_8601_ec8c, "FNV-1a");
}
