//! The cost of reading a request. Run it optimised and read the figure.

use std::time::Duration;

use super::*;

/// The least of many batches, so that a busy machine does not count: some microseconds unoptimised.
#[test]
fn r09_a_band_is_found_in_less_than_a_tenth_of_a_millisecond() {
    let headers: [(&str, &[u8]); 3] = [
        ("x-priority", b"unknown"),
        ("x-llm-d-inference-objective", b"unknown"),
        ("x-media-type", b"audio"),
    ];
    let parts = parts(Method::POST, CHAT, &headers);
    let config = Config::default();
    let none = RequestAttributes::default();
    let batch = || {
        let began = tokio::time::Instant::now();
        for _ in 0..100 {
            let stated = band::stated(&ControlHeaders::of(&parts.headers), &config, None);
            let (band, _) = band::ruled(&config, &none, (stated, None), None);
            assert_eq!(band, Band::High);
        }
        began.elapsed() / 100
    };
    let least = (0..50).map(|_| batch()).min().unwrap();
    eprintln!("the band of a request took {least:?}");
    assert!(least < Duration::from_micros(100), "{least:?}");
}

#[test]
fn reading_a_chat_of_a_kilobyte_is_measured() {
    let line = "The tide rises, the tide falls, and the gate stands between. ";
    let message = |role| format!(r#"{{"role":"{role}","content":"{}\n"}}"#, line.repeat(4));
    let messages = [message("system"), message("user"), message("assistant")].join(",");
    let body = format!(
        r#"{{"model":"llama-3-8b","messages":[{messages}],"stream":true,"temperature":0.7}}"#
    );
    let headers: [(&str, &[u8]); 7] = [
        ("host", b"127.0.0.1:8430"),
        ("content-type", b"application/json"),
        ("authorization", b"Bearer sk-0123456789"),
        ("user-agent", b"OpenAI/Python 2.0.0"),
        ("accept", b"application/json"),
        ("connection", b"keep-alive"),
        ("x-priority", b"high"),
    ];
    let (parts, body) = (parts(Method::POST, CHAT, &headers), Bytes::from(body));
    let config = Config::default();
    let rounds = 2_000;
    let began = tokio::time::Instant::now();
    for draw in 0..rounds {
        let (intent, _) = read(&config, &parts, body.clone(), draw).unwrap();
        assert_eq!(intent.band, Band::High);
    }
    let each = began.elapsed() / rounds as u32;
    let copies: Vec<HeaderMap> = (0..rounds).map(|_| parts.headers.clone()).collect();
    let id = HeaderValue::from_static("id");
    let began = tokio::time::Instant::now();
    for copy in copies {
        assert_eq!(headers::to_upstream(copy, &id).iter().count(), 5);
    }
    let forwarded = began.elapsed() / rounds as u32;
    eprintln!("reading {} bytes took {each:?}, its headers {forwarded:?}", body.len());
}
