//! X01: bodies and streams pass unchanged in both directions, and without delay.

use serde_json::json;

use crate::support::gateway::{ONE, TWO};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, forwarding, queueing};

/// Sends a body and returns the body that the backend received.
fn carried(body: &[u8]) -> Vec<u8> {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.ask(&HttpRequest::post("/v1/chat/completions", body)).status, 200);
    backend.seen().remove(0).body
}

#[test]
fn x01_request_bodies_pass_byte_for_byte() {
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\":\"K\u{f6}ln\"}"}});
    let image = format!("data:image/png;base64,{}", "QUJD".repeat(300_000));
    let bodies = [
        "{\"model\":\"m\",\"unknown\":{\"deep\":[1,2.50,1e300,null]},\"big\":12345678901234567890}"
            .to_owned(),
        "\n{ \"a\" : \"\\u00e9\\/\" ,\t\"model\":\"m\", \"stop\":\"x\", \"a\": 2 }\n".to_owned(),
        json!({"model": "m", "messages": [
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "calm"}]})
        .to_string(),
        json!({"model": "m", "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": image}}]}]})
        .to_string(),
    ];
    for body in bodies {
        assert!(carried(body.as_bytes()) == body.as_bytes(), "{:.80} was changed", body);
    }
}

#[test]
fn x01_responses_pass_byte_for_byte_with_their_status_and_headers() {
    const STATUSES: &[u16] = &[200, 201, 400, 418, 422];
    let backend = forwarding::backend_with_statuses(STATUSES);
    forwarding::check_statuses(&Gateway::before(TWO, &backend), STATUSES);
}

#[test]
fn x01_streams_pass_byte_for_byte_with_comments_and_done() {
    let (backend, bytes) = forwarding::backend_with_stream();
    forwarding::check_stream(&Gateway::before(TWO, &backend), &bytes);
}

#[test]
fn x01_trailers_pass() {
    let answer = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
        3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n";
    let backend = Backend::start(move |_| ScriptedResponse::raw(answer));
    let gateway = Gateway::before(TWO, &backend);
    let answer = gateway.ask(&chat("m").header("te", "trailers"));
    assert_eq!((answer.text().as_str(), answer.trailers.len()), ("abc", 1));
    assert_eq!(answer.trailers[0], ("x-sum".into(), "7".into()));
}

#[test]
fn x01_every_piece_of_a_stream_goes_on_at_once() {
    let backend = forwarding::backend_with_words();
    forwarding::check_words(&Gateway::before(TWO, &backend), &backend);
}

#[test]
fn x01_a_slow_reader_slows_the_backend_and_not_the_gateways_memory() {
    let backend = forwarding::backend_without_end();
    forwarding::check_slow_reader(&Gateway::before(TWO, &backend), &backend);
}

#[test]
fn x01_a_client_that_leaves_its_stream_ends_it_at_the_backend() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["one ", "two "]));
    queueing::check_client_leaves_stream(&Gateway::before(ONE, &backend), &backend);
}

#[test]
fn x01_other_paths_pass_under_the_same_control() {
    let backend = Backend::start(|_| ScriptedResponse::json(200, "{\"object\":\"thing\"}").held());
    let gateway = Gateway::before(ONE, &backend);
    let body = "{\"model\":\"m\",\"input\":\"x\"}";
    let first = gateway.send(&HttpRequest::post("/v1/audio/speech?voice=low%20tide", body));
    backend.await_running(1);
    let second = gateway.enqueue(&HttpRequest::post("/v1/things/7", "{}"), 0);
    let third = gateway.enqueue(&HttpRequest::post("/v1/rerank", body), 1);
    backend.open();
    for call in [first, second, third] {
        assert_eq!(call.finish().text(), "{\"object\":\"thing\"}");
    }
    let seen = backend.seen();
    let mut paths: Vec<_> = seen.iter().map(|seen| (&*seen.method, &*seen.path)).collect();
    // Requests without a model are one flow.
    paths.sort_unstable();
    let speech = "/v1/audio/speech?voice=low%20tide";
    assert_eq!(paths, [("POST", speech), ("POST", "/v1/rerank"), ("POST", "/v1/things/7")]);
    assert_eq!(backend.most(), 1);
    let form = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n";
    let mut ask = HttpRequest::post("/v1/audio/transcriptions", form);
    ask.headers = vec![("content-type".into(), "multipart/form-data; boundary=b".into())];
    assert_eq!(gateway.ask(&ask).status, 200);
    assert_eq!(backend.seen()[3].body, form.as_bytes());
    let nowhere = gateway.get("/nowhere");
    assert_eq!(nowhere.status, 404, "{}", nowhere.text());
}

#[test]
fn x01_models_are_merged_over_backends() {
    let (one, two) = (Backend::quick().lists(&["m", "a"]), Backend::quick().lists(&["m", "b"]));
    let entry = |id: &str, backend: &Backend| {
        format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{}\"\n", backend.address())
    };
    let gateway = Gateway::start(&format!("{}{}", entry("one", &one), entry("two", &two)));
    let listed = gateway.get("/v1/models").json();
    assert_eq!(listed["object"], "list");
    let mut names: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["a", "b", "m"]);
    let tags = gateway.get("/api/tags").json();
    assert_eq!(tags["models"].as_array().unwrap().len(), 3, "{tags}");
    assert_eq!(gateway.get("/api/version").status, 200);
    let learnt = gateway.ask(&chat("b"));
    assert_eq!((learnt.status, learnt.header("x-backend-used")), (200, Some("two")));
}

#[test]
fn x01_ollamas_own_paths_wait_and_stream_alike() {
    let lines = "{\"message\":{\"content\":\"the\"},\"done\":false}\n{\"done\":true}\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\
        transfer-encoding: chunked\r\n\r\n";
    let sent = format!("{head}{:x}\r\n{lines}\r\n0\r\n\r\n", lines.len());
    let backend = Backend::start(move |_| ScriptedResponse::raw(&*sent).held());
    let gateway = Gateway::before(ONE, &backend);
    let ask = |path: &str| HttpRequest::post(path, "{\"model\":\"m\"}").priority("high");
    let paths = ["/api/chat", "/api/generate", "/api/embed"];
    let first = gateway.send(&ask(paths[0]));
    backend.await_running(1);
    let mut calls = vec![first];
    calls.push(gateway.enqueue(&ask(paths[1]), 0));
    calls.push(gateway.enqueue(&ask(paths[2]), 1));
    backend.open();
    for call in calls {
        let answer = call.finish();
        assert_eq!(
            (answer.text().as_str(), answer.header("x-priority-boost")),
            (lines, Some("200"))
        );
    }
    let seen: Vec<_> = backend.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(seen, paths);
}

#[test]
fn x03_headers_for_the_gateway_do_not_reach_a_backend() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let dropped = [
        ("x-gateway-destination-endpoint", "127.0.0.1:1"),
        ("Proxy-Authorization", "secret"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "x"),
    ];
    let kept = [("tracestate", "a=b")];
    let seen = forwarding::check_headers(&gateway, &backend, chat("m"), &dropped, &kept);
    assert_eq!(seen.header("host"), Some(backend.address().to_string().as_str()));
}
