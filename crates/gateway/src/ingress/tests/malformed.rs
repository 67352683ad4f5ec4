//! X03: malformed bodies and headers.

use proptest::prelude::*;

use super::*;

#[test]
fn x03_bodies_that_are_no_json_object_are_refused() {
    let bodies: [&[u8]; 14] = [
        b"",
        b" ",
        b"null",
        b"7",
        b"\"text\"",
        b"[{\"model\":\"m\"}]",
        b"{\"model\":\"m\"",
        b"{\"model\":\"m\"}}",
        b"{\"model\":\"m\"} {\"model\":\"n\"}",
        b"{\"model\":\"m\",}",
        b"{'model':'m'}",
        b"\xef\xbb\xbf[{\"model\":\"m\"}]",
        b"{\"model\":\"m\",\"x\":\"\xff\"}",
        b"{\"model\":\"m\",\"options\":7}",
    ];
    for body in bodies {
        let result = posted(CHAT, body);
        let shown = String::from_utf8_lossy(body);
        assert!(matches!(result, Err(Fault::InvalidRequest(_))), "{shown}: {result:?}");
    }
}

#[test]
fn x03_deep_bodies_are_refused_wherever_they_are_deep() {
    let keys = [
        r#"{"model":"m","messages":@}"#,
        r#"{"model":"m","x":@}"#,
        r#"{"model":"m","stream":@}"#,
        r#"{"n":@,"model":"m"}"#,
        r#"{"user":@,"model":"m"}"#,
        r#"{"model":"m","options":{"x":@}}"#,
        r#"{"model":"m","options":{"num_predict":@}}"#,
    ];
    for (body, (open, close)) in
        keys.into_iter().flat_map(|body| [(body, ("[", "]")), (body, ("{\"a\":", "}"))])
    {
        let nested = |depth: usize| {
            let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            code(posted(CHAT, body.replace('@', &value).as_bytes()))
        };
        assert_eq!(nested(100), "ok", "{body} {open}");
        assert_eq!(nested(200), "invalid_request", "{body} {open}");
        assert_eq!(nested(100_000), "invalid_request", "{body} {open}");
    }
    let model = format!(r#"{{"model":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(code(posted(CHAT, model.as_bytes())), "invalid_request");
}

#[test]
fn x03_a_complaint_never_quotes_much_of_a_body() {
    let body = format!(r#"{{"model":"m","options":"{}"}}"#, "é".repeat(100_000));
    let Err(Fault::InvalidRequest(text)) = posted(CHAT, body.as_bytes()) else { panic!() };
    assert!(text.len() < 300, "{}", text.len());
}

#[test]
fn x03_an_error_gives_its_position() {
    let Err(Fault::InvalidRequest(text)) = posted(CHAT, b"{\"model\":\n nope}") else { panic!() };
    assert!(text.contains("line 2 column"), "{text}");
}

/// Pieces of JSON in any order: close enough to JSON to get deep into the parser.
fn shards() -> impl Strategy<Value = Vec<u8>> {
    const SHARDS: [&str; 22] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"model\"",
        "\"m\"",
        "\"stream\"",
        "true",
        "1",
        "-1e9",
        "\"messages\"",
        "\"options\"",
        "\"num_predict\"",
        "null",
        "\"\\u0061\"",
        "\"\\",
        " ",
        "é",
        "\"n\"",
        "\"image_url\"",
    ];
    let shard = proptest::sample::select(&SHARDS[..]);
    proptest::collection::vec(shard, 0..40).prop_map(|shards| shards.concat().into_bytes())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..300), shards()]
}

proptest! {
    #[test]
    fn x03_no_body_makes_it_panic_and_none_passes_that_is_no_json(body in bytes()) {
        for path in [CHAT, "/api/chat", "/v1/other"] {
            let result = posted(path, &body);
            if path != "/v1/other" && result.is_ok() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
            }
        }
    }

    #[test]
    fn x03_no_form_makes_it_panic(mut body in bytes(), cut in 0usize..200) {
        let form = b"--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B--";
        body.extend_from_slice(&form[..cut.min(form.len())]);
        let kind: (&str, &[u8]) = ("content-type", b"multipart/form-data; boundary=B");
        let parts = parts(Method::POST, "/v1/audio/translations", &[kind]);
        let _ = read(&Config::default(), &parts, body.into(), 0);
    }

    #[test]
    fn x03_no_header_makes_it_panic_or_fail(
        value in header_bytes(40),
        which in 0usize..16,
    ) {
        const NAMES: [&str; 16] = [
            "x-priority", "x-nexus-priority", "x-llm-d-inference-objective", "x-media-type",
            "x-workload-context", "x-max-latency-ms", "x-latency-critical", "x-request-id",
            "x-request-timeout-ms", "x-llm-d-inference-ttl", "x-session-id", "x-queue-status",
            "x-gateway-inference-fairness-id", "content-type", "te", "connection",
        ];
        let parts = parts(Method::POST, CHAT, &[(NAMES[which], &value)]);
        let body = Bytes::from_static(br#"{"model":"m"}"#);
        let (intent, _) = read(&Config::default(), &parts, body, 0).unwrap();
        let sent = headers::to_upstream(parts.headers, &intent.request_id);
        prop_assert!(sent.iter().count() <= sent.most());
    }

    #[test]
    fn x03_no_path_makes_it_panic(path in "/(v1|api)/[a-z%0-9./\\\\;]{0,30}") {
        if let Ok(Route::Proxied { .. }) = path::classify(&Method::GET, &path) {
            prop_assert!(!path.contains("/../") && !path.contains("//"));
        }
        path::card_id(&path);
    }
}
