//! Requests and responses pass through Envoy and the picker unchanged, in both directions, at once.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::chat_of;
use crate::support::gateway::{ONE, TWO};
use crate::support::scripted_response::{delta, event};
use crate::support::tools::{python, run, tool};
use crate::support::{Backend, Call, HttpRequest, Picker, ScriptedResponse, chat, forwarding};

/// The request in chunks of this size.
fn in_chunks(ask: &HttpRequest, size: usize) -> Vec<u8> {
    let mut sent = format!("POST {} HTTP/1.1\r\nhost: tidegate\r\nconnection: close\r\n", ask.path);
    for (name, value) in &ask.headers {
        sent += &format!("{name}: {value}\r\n");
    }
    let mut sent = (sent + "transfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in ask.body.chunks(size) {
        sent.extend(format!("{:x}\r\n", chunk.len()).bytes());
        sent.extend(chunk);
        sent.extend(b"\r\n");
    }
    sent.extend(b"0\r\n\r\n");
    sent
}

#[test]
fn x02_request_bodies_pass_byte_for_byte_however_they_are_cut() {
    let backend = Backend::quick();
    let picker = Picker::before(TWO, &backend);
    let cuts = [
        (1_024, 7),
        (61_999, 4_093),
        (62_000, 62_000),
        (62_001, 9_973),
        (220_000, 1_000_000),
        ((1 << 20) - 1, 16_411),
        ((1 << 20) + 1, 65_537),
        (5_000_011, 131_101),
        (20 << 20, 1_000_003),
    ];
    for (bytes, size) in cuts {
        let ask = chat_of(bytes);
        let answer = Call::open(picker.address(), &in_chunks(&ask, size)).finish();
        assert_eq!(answer.status, 200, "{bytes} in parts of {size}: {}", answer.text());
        let seen = backend.seen().pop().unwrap();
        assert!(seen.body == ask.body, "{bytes} in parts of {size} were changed");
    }
    picker.await_idle();
}

#[test]
fn x02_responses_pass_byte_for_byte_with_their_status_and_headers() {
    const STATUSES: &[u16] = &[200, 201, 400, 418, 422, 500];
    let backend = forwarding::backend_with_statuses(STATUSES);
    forwarding::check_statuses(&Picker::before(TWO, &backend), STATUSES);
}

#[test]
fn x02_responses_of_all_sizes_pass_byte_for_byte() {
    let sizes = [1_024, 62_001, 220_000, (1 << 20) + 1, 20 << 20];
    let backend = Backend::start(move |seen| {
        let body = String::from_utf8(chat_of(sizes[seen.number]).body).unwrap();
        ScriptedResponse::json(200, &body)
    });
    let picker = Picker::before(TWO, &backend);
    for size in sizes {
        let answer = picker.ask(&chat("m"));
        assert!(answer.body == chat_of(size).body, "{size} were changed");
    }
    picker.await_idle();
}

#[test]
fn x02_streams_pass_byte_for_byte_with_comments_and_done() {
    let (backend, bytes) = forwarding::backend_with_stream();
    forwarding::check_stream(&Picker::before(TWO, &backend), &bytes);
}

#[test]
fn x02_every_piece_of_a_stream_goes_on_at_once() {
    let backend = forwarding::backend_with_words();
    forwarding::check_words(&Picker::before(TWO, &backend), &backend);
}

#[test]
fn x02_a_slow_reader_slows_the_backend_and_not_the_pickers_memory() {
    let backend = forwarding::backend_without_end();
    forwarding::check_slow_reader(&Picker::before(TWO, &backend), &backend);
}

#[test]
fn x02_http_2_is_served_with_bodies_of_all_sizes() {
    let backend = Backend::start(|seen| match seen.json()["stream"] == true {
        true => ScriptedResponse::stream(&[&delta("the "), &delta("tide"), &event("[DONE]")]),
        false => ScriptedResponse::ok(),
    });
    let picker = Picker::before(TWO, &backend);
    let url = format!("{}/v1/chat/completions", picker.url());
    let file = picker.folder().join("body.json");
    let curl = |ask: &HttpRequest| {
        std::fs::write(&file, &ask.body).unwrap();
        let body = format!("@{}", file.display());
        let options = ["-sSi", "--http2-prior-knowledge", "--data-binary", &body, &url];
        run(tool("curl").args(options))
    };
    for bytes in [1_024, 62_001, 1 << 20, 20 << 20] {
        let ask = chat_of(bytes);
        let printed = curl(&ask);
        assert!(printed.starts_with("HTTP/2 200"), "{bytes}: {printed}");
        assert!(printed.contains("x-backend-used: one"), "{printed}");
        assert!(backend.seen().pop().unwrap().body == ask.body, "{bytes} were changed");
    }
    let printed = curl(&chat("m").streamed());
    assert!(printed.ends_with("data: [DONE]\n\n"), "{printed}");
    picker.await_idle();
}

#[test]
fn x02_many_streams_share_one_connection_of_http_2() {
    let backend = Backend::start(|_| {
        ScriptedResponse::stream(&[&delta("the "), &delta("tide"), &event("[DONE]")])
    });
    let picker = Picker::before(TWO, &backend);
    let body = picker.folder().join("body.json");
    std::fs::write(&body, chat("m").streamed().body).unwrap();
    let url = format!("{}/v1/chat/completions", picker.url());
    let load = ["-n", "60", "-c", "2", "-m", "10", "-d", body.to_str().unwrap(), &url];
    let printed = run(tool("h2load").args(load));
    assert!(printed.contains("60 succeeded, 0 failed"), "{printed}");
    assert!(printed.contains("60 2xx"), "{printed}");
    assert!(backend.most() <= 2, "they wait for their turn like others");
    picker.await_idle();
}

/// Model servers have pages that are not for clients, and the bootstraps do not lead there.
#[test]
fn x02_clients_reach_only_the_api() {
    let backend = Backend::quick();
    let picker = Picker::before(ONE, &backend);
    for path in ["/metrics", "/control", "/", "/v1"] {
        assert_eq!(picker.ask(&HttpRequest::get(path)).status, 404, "{path}");
    }
    assert_eq!(
        picker.ask(&HttpRequest::get("/v1/../metrics")).status,
        400,
        "that is the picker's word"
    );
    assert!(backend.seen().is_empty());
}

/// The backend gets it decoded, without the header that says how it came.
#[test]
fn x02_x01_a_compressed_body_reaches_the_backend_decoded() {
    let backend = Backend::quick();
    let picker = Picker::before(TWO, &backend);
    let plain = chat("m").with("text", "tide ".repeat(50_000));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&plain.body).unwrap();
    let body = encoder.finish().unwrap();
    let ask = HttpRequest { body, ..plain.clone() }.header("content-encoding", "gzip");
    assert_eq!(picker.ask(&ask).status, 200);
    let seen = backend.seen().pop().unwrap();
    assert!(seen.body == plain.body, "{} bytes of {}", seen.body.len(), plain.body.len());
    assert_eq!(seen.header("content-encoding"), None);
    picker.await_idle();
}

/// A body that is announced and then empty must be given back as well, or Envoy waits for its end.
#[test]
fn x02_a_body_that_turns_out_empty_ends_too() {
    let backend = Backend::quick();
    let limit = "[upstream]\nanswer_timeout = \"3s\"\n";
    let picker = Picker::before(&format!("{limit}{ONE}"), &backend);
    let head = "POST /v1/things HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let empty = Call::open(picker.address(), format!("{head}0\r\n\r\n").as_bytes());
    assert_eq!(empty.finish().status, 200);
    picker.await_idle();
}

#[test]
fn x02_requests_without_a_body_wait_too() {
    let backend = Backend::start(|_| ScriptedResponse::json(200, "{\"object\":\"thing\"}").held());
    let (picker, first) =
        Picker::occupied(ONE, &backend, &HttpRequest::get("/v1/things/7?a=b%20c"));
    let second = picker.enqueue(&HttpRequest::post("/v1/things", ""), 0);
    let third = picker.enqueue(&HttpRequest::get("/api/elsewhere"), 1);
    backend.open();
    for call in [first, second, third] {
        let answer = call.finish();
        assert_eq!((answer.status, answer.text().as_str()), (200, "{\"object\":\"thing\"}"));
        assert_eq!(answer.header("x-backend-used"), Some("one"));
    }
    let seen = backend.seen();
    let paths: Vec<_> = seen.iter().map(|seen| (&*seen.method, &*seen.path)).collect();
    let asked =
        [("GET", "/v1/things/7?a=b%20c"), ("POST", "/v1/things"), ("GET", "/api/elsewhere")];
    assert_eq!(paths, asked);
    picker.await_idle();
}

#[test]
fn x02_x03_headers_for_the_picker_do_not_reach_a_backend() {
    let backend = Backend::quick();
    let picker = Picker::before(TWO, &backend);
    let ask = chat("m").header("x-gateway-destination-endpoint", "127.0.0.1:1");
    let kept = [("x-request-id", "own-id-7"), ("x-session-id", "s")];
    let seen = forwarding::check_headers(&picker, &backend, ask, &[], &kept);
    // Envoy goes by this header. It has the picker's choice and never the value of a client.
    let endpoint = backend.address().to_string();
    assert_eq!(seen.header("x-gateway-destination-endpoint"), Some(endpoint.as_str()));
}

#[test]
fn x02_openais_own_client_is_served() {
    let backend = Backend::start(crate::gateway::clients::openai);
    let picker = Picker::before(TWO, &backend);
    let steps = run(python("openai_client.py").arg(picker.url()));
    let all = "models chat streaming tools embeddings responses completions errors";
    assert_eq!(steps.split_whitespace().collect::<Vec<_>>().join(" "), all);
    picker.await_idle();
}
