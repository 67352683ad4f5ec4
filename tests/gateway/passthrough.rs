//! X01: bodies and streams pass unchanged in both directions, and without delay.

use serde_json::json;

use crate::support::gateway::{ONE, TWO};
use crate::support::scripted_response::{Step, delta, event};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

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
fn x01_answers_pass_byte_for_byte_with_their_status_and_headers() {
    let body = "{ \"tool_calls\" : [ ],\n \"reasoning_content\":\"\u{1f30a}\", \"n\":1.0e-7 }";
    let headers = ["content-type: application/vnd.x+json", "x-own: 1", "x-own: 2", "etag: \"v\""];
    for status in [200, 201, 400, 418, 422] {
        let backend =
            Backend::start(move |_| ScriptedResponse::with_headers(status, &headers, body));
        let gateway = Gateway::before(TWO, &backend);
        let answer = gateway.ask(&chat("m"));
        assert_eq!((answer.status, answer.text().as_str()), (status, body));
        let own: Vec<_> = answer.headers.iter().filter(|(name, _)| name == "x-own").collect();
        assert_eq!(own.len(), 2, "{:?}", answer.headers);
        assert_eq!(answer.header("content-type"), Some("application/vnd.x+json"));
        assert_eq!(answer.header("etag"), Some("\"v\""));
    }
}

#[test]
fn x01_streams_pass_byte_for_byte_with_comments_and_done() {
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
    let whole = pieces.concat();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
        cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let sent: Vec<u8> = head.bytes().chain(pieces.iter().flat_map(|piece| chunk(piece))).collect();
    let sent = [sent, b"0\r\n\r\n".to_vec()].concat();
    let backend = Backend::start(move |_| ScriptedResponse::raw(sent.clone()));
    let gateway = Gateway::before(TWO, &backend);
    let answer = gateway.ask(&chat("m").streamed());
    assert_eq!(answer.body, whole);
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
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
    let backend = Backend::start(|_| super::streams(&["the ", "tide ", "turns"]));
    let gateway = Gateway::before(TWO, &backend);
    let mut call = gateway.send(&chat("m").streamed());
    for word in ["the ", "tide ", "turns"] {
        backend.release(1);
        // The next word is held back, so the gateway did not wait for it.
        let piece = String::from_utf8(call.chunk().unwrap()).unwrap();
        assert!(piece.contains(word), "{piece}");
    }
    assert!(call.finish().text().contains("[DONE]"));
}

#[test]
fn x01_a_slow_reader_slows_the_backend_and_not_the_gateways_memory() {
    let piece = vec![b'x'; 64 << 10];
    let length = 1usize << 40;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    let backend =
        Backend::start(move |_| ScriptedResponse::raw(&*head).then(Step::Endless(piece.clone())));
    let gateway = Gateway::before(TWO, &backend);
    let mut call = gateway.send(&chat("m"));
    assert_eq!(call.head().status, 200);
    // The kernel buffers fill first. Wait until the counter stops.
    let mut last = (0, 0);
    crate::support::eventually("stands still", || {
        let sent = backend.endless();
        last = if sent == last.0 { (sent, last.1 + 1) } else { (sent, 0) };
        if sent > 0 && last.1 > 50 { Ok(()) } else { Err(format!("{sent} bytes")) }
    });
    assert!(backend.endless() < 64 << 20, "{} bytes for nobody", backend.endless());
    drop(call);
    backend.await_left(1);
    gateway.await_idle();
}

#[test]
fn x01_a_client_that_leaves_its_stream_ends_it_at_the_backend() {
    let backend = Backend::start(|_| super::streams(&["one ", "two "]));
    let gateway = Gateway::before(ONE, &backend);
    let mut call = gateway.send(&chat("m").streamed());
    backend.release(1);
    assert!(call.chunk().is_some());
    let next = gateway.enqueue(&chat("m").streamed(), 0);
    drop(call);
    backend.await_left(1);
    backend.open();
    assert_eq!(next.finish().status, 200);
    gateway.await_idle();
}

#[test]
fn x01_other_paths_pass_under_the_same_control() {
    let backend = Backend::start(|_| ScriptedResponse::json(200, "{\"object\":\"thing\"}").held());
    let gateway = Gateway::before(ONE, &backend);
    let body = "{\"model\":\"m\",\"input\":\"x\"}";
    let first = gateway.send(&HttpRequest::post("/v1/audio/speech?voice=low%20tide", body));
    backend.await_running(1);
    let second = gateway.enqueue(&HttpRequest::get("/v1/things/7"), 0);
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
    assert_eq!(paths, [("GET", "/v1/things/7"), ("POST", speech), ("POST", "/v1/rerank")]);
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
        ("x-gateway-destination-endpoint", "127.0.0.1:1"),
        ("Proxy-Authorization", "secret"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "x"),
    ];
    let kept = [
        ("Authorization", "Bearer key"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=b"),
        ("x-own", "1"),
        ("accept", "text/event-stream"),
        ("user-agent", "tester"),
    ];
    let mut ask = chat("m");
    for (name, value) in dropped.iter().chain(&kept) {
        ask = ask.header(name, value);
    }
    assert_eq!(gateway.ask(&ask).status, 200);
    let seen = backend.seen().remove(0);
    for (name, _) in dropped {
        let value = seen.header(&name.to_ascii_lowercase());
        assert_eq!(value, None, "{name} reached the backend");
    }
    for (name, value) in kept {
        assert_eq!(seen.header(&name.to_ascii_lowercase()), Some(value), "{name}");
    }
    assert_eq!(seen.header("host"), Some(backend.address().to_string().as_str()));
}
