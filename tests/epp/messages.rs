//! ext_proc streams with the picker, message by message, as Envoy holds them and as it might.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::chat_of;
use crate::support::envoy::FREE;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, ExtProcStream, Gateway, HttpRequest, chat};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// A picker that knows this backend, and a client of it.
fn talking(sections: &str, backends: &[&Backend]) -> (Gateway, ExtProcStream) {
    let names = ["one", "two", "three"];
    let backends: Vec<(&str, SocketAddr)> =
        names.into_iter().zip(backends.iter().map(|backend| backend.address())).collect();
    let picker = Gateway::picker(&config(sections, &backends), FREE);
    picker.await_ready(backends.len());
    let talk = ExtProcStream::with(picker.process.address());
    (picker, talk)
}

/// Metadata that allows these servers only.
fn subset(servers: &Value) -> Value {
    let hint = json!({ "x-gateway-destination-endpoint-subset": servers });
    json!({"metadata": {"envoy.lb.subset_hint": hint}})
}

#[test]
fn x02_a_request_is_answered_with_a_server_and_its_own_body() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    for size in [1_000_000, 7, 1] {
        let ask = chat("m");
        let stream = talk.request(&ask, size);
        let choice = talk.choice(stream);
        assert_eq!(choice.servers(), [backend.address().to_string()]);
        assert_eq!(choice.body, ask.body);
        assert_eq!(choice.head["clear_route_cache"], true);
        assert_eq!(talk.serve(stream, JSON, &[b"{}"]), b"{}");
        assert_eq!(talk.ended(stream), "OK");
    }
    picker.await_idle();
}

#[test]
fn x02_bodies_come_back_in_parts_that_every_proxy_takes() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    for (size, part) in [(61_999, 30_000), (62_000, 62_000), (62_001, 1 << 20), (3 << 20, 1 << 20)]
    {
        let ask = chat_of(size);
        let stream = talk.request(&ask, part);
        let choice = talk.choice(stream);
        assert!(choice.body == ask.body, "{size} in parts of {part} were changed");
        assert!(choice.parts.iter().all(|part| *part <= 62_000), "{:?}", choice.parts);
        talk.cancel(stream);
    }
    picker.await_idle();
}

#[test]
fn x02_the_end_may_come_with_the_last_part() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let (ask, stream) = (chat("m"), talk.stream());
    talk.head(stream, &ask, json!({}));
    talk.body(stream, &ask.body, true);
    assert_eq!(talk.choice(stream).body, ask.body);
    talk.answer_head(stream, 200, JSON, json!({}));
    talk.got(stream, "response_headers");
    talk.answer_body(stream, b"{}", true);
    assert_eq!(talk.got(stream, "response_body")["eos"], true);
    talk.end(stream);
    assert_eq!(talk.ended(stream), "OK");
    picker.await_idle();
}

#[test]
fn x02_trailers_end_a_request_and_an_answer() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let (ask, stream) = (chat("m"), talk.stream());
    talk.head(stream, &ask, json!({}));
    talk.body(stream, &ask.body, false);
    talk.trailers(stream);
    talk.got(stream, "request_headers");
    let body = talk.got(stream, "request_body");
    assert_eq!(
        (body["eos"].clone(), body["body"].as_str().unwrap().len()),
        (false.into(), ask.body.len())
    );
    talk.got(stream, "request_trailers");
    talk.answer_head(stream, 200, JSON, json!({}));
    talk.got(stream, "response_headers");
    talk.answer_body(stream, b"{}", false);
    assert_eq!(talk.got(stream, "response_body")["eos"], false);
    talk.answer_trailers(stream);
    talk.got(stream, "response_trailers");
    talk.end(stream);
    assert_eq!(talk.ended(stream), "OK");
    picker.await_idle();
}

#[test]
fn x02_a_second_end_changes_nothing() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let ask = chat("m");
    let stream = talk.request(&ask, 1_000);
    talk.body(stream, &[], true);
    assert_eq!(talk.choice(stream).body, ask.body);
    assert_eq!(talk.serve(stream, JSON, &[b"{}"]), b"{}");
    picker.await_idle();
    assert_eq!(picker.metrics().sum("tidegate_requests_total"), 1.0);
}

#[test]
fn x02_a_request_without_a_body_is_chosen_for_at_once() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let stream = talk.request(&HttpRequest::get("/v1/things"), 1);
    let head = talk.got(stream, "request_headers");
    let server = head["set"]["x-gateway-destination-endpoint"].as_str().unwrap();
    assert_eq!(server, backend.address().to_string());
    assert_eq!(talk.serve(stream, JSON, &[b"{}"]), b"{}");
    picker.await_idle();
}

#[test]
fn x02_headers_for_the_picker_are_taken_out() {
    let backend = Backend::quick();
    let (_picker, mut talk) = talking(TWO, &[&backend]);
    // The tokens of a compressed response could not be read.
    let names = [
        "x-priority",
        "x-llm-d-inference-ttl",
        "x-gateway-inference-fairness-id",
        "accept-encoding",
    ];
    let ask = names.iter().fold(chat("m"), |ask, name| ask.header(name, "7"));
    let stream = talk.request(&ask, 1_000);
    let removed = talk.choice(stream).head["remove"].clone();
    let removed: Vec<&str> =
        removed.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.iter().all(|name| removed.contains(name)), "{removed:?}");
    assert!(!removed.contains(&"content-type") && !removed.iter().any(|n| n.starts_with(':')));
}

#[test]
fn x02_a_subset_is_obeyed_in_part_and_in_whole() {
    let backends = [Backend::quick(), Backend::quick(), Backend::quick()];
    let (picker, mut talk) = talking(TWO, &backends.each_ref());
    let [one, two, three] = backends.each_ref().map(|backend| backend.address().to_string());
    let cases = [
        (json!([two]), vec![&two]),
        (json!([two, "127.0.0.1:1", three]), vec![&two, &three]),
        (json!([one, two, three]), vec![&one, &two, &three]),
        // Others write a text of commas where the protocol wants a list.
        (json!(format!("{three},127.0.0.1:1")), vec![&three]),
    ];
    for (servers, allowed) in cases {
        for _ in 0..4 {
            let stream = talk.request_with(&chat("m"), 1_000, subset(&servers));
            let chosen = talk.choice(stream).servers().remove(0);
            assert!(allowed.contains(&&chosen), "{chosen} is not in {servers}");
            talk.serve(stream, JSON, &[b"{}"]);
        }
    }
    for none in [json!(["127.0.0.1:1"]), json!([])] {
        let stream = talk.request_with(&chat("m"), 1_000, subset(&none));
        let (status, headers, body) = talk.refusal(stream);
        let told = (status, body["error"]["code"].as_str());
        assert_eq!(told, (503, Some("no_backend_in_subset")), "{none}: {body}");
        assert_eq!(headers["x-llm-d-request-dropped-reason"], "rejected-no-endpoints");
    }
    picker.await_idle();
}

#[test]
fn x02_further_servers_are_listed_behind_the_first() {
    let backends = [Backend::quick(), Backend::quick(), Backend::quick()];
    let (picker, mut talk) = talking(&format!("[epp]\nfallbacks = 1\n{TWO}"), &backends.each_ref());
    let addresses = backends.each_ref().map(|backend| backend.address().to_string());
    for _ in 0..6 {
        let stream = talk.request(&chat("m"), 1_000);
        let servers = talk.choice(stream).servers();
        assert_eq!(servers.len(), 2, "{servers:?}");
        assert_ne!(servers[0], servers[1]);
        assert!(servers.iter().all(|server| addresses.contains(server)), "{servers:?}");
        talk.serve(stream, JSON, &[b"{}"]);
    }
    let only = subset(&json!([addresses[0]]));
    let stream = talk.request_with(&chat("m"), 1_000, only);
    assert_eq!(talk.choice(stream).servers(), [addresses[0].clone()]);
    talk.serve(stream, JSON, &[b"{}"]);
    picker.await_idle();
}

#[test]
fn x02_the_picker_responds_itself_to_refused_requests() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let path = "/v1/chat/completions";
    let cases = [
        (HttpRequest::post(path, "no JSON"), 400, "invalid_request"),
        (HttpRequest::post(path, "{\"messages\": []}"), 400, "invalid_request"),
        (chat("nobody-has-it"), 404, "model_not_found"),
    ];
    for (ask, expected, code) in cases {
        let stream = talk.request(&ask, 5);
        let (status, headers, body) = talk.refusal(stream);
        assert_eq!((status, body["error"]["code"].as_str()), (expected, Some(code)), "{body}");
        assert_eq!(headers["content-type"], "application/json");
        talk.end(stream);
        assert_eq!(talk.ended(stream), "OK");
    }
    picker.await_idle();
}

#[test]
fn x02_a_name_that_stands_for_another_model_is_replaced() {
    let backend = Backend::quick();
    let models = "[[models]]\nname = \"alias\"\ntargets = [{ model = \"m\" }]\n";
    let (picker, mut talk) = talking(&format!("{models}{TWO}"), &[&backend]);
    let ask = chat("alias").with("text", "x".repeat(200_000));
    let stream = talk.request(&ask, 50_000);
    let choice = talk.choice(stream);
    let body: Value = serde_json::from_slice(&choice.body).unwrap();
    assert_eq!((&body["model"], body["text"].as_str().unwrap().len()), (&"m".into(), 200_000));
    let length = choice.head["set"]["content-length"].as_str();
    assert!(length.is_none_or(|length| length == choice.body.len().to_string()));
    talk.serve(stream, JSON, &[b"{}"]);
    // A router before us may name the model that is to answer.
    for header in ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"] {
        let stream = talk.request(&chat("base").header(header, "m"), 50_000);
        let choice = talk.choice(stream);
        let body: Value = serde_json::from_slice(&choice.body).unwrap();
        assert_eq!(body["model"], "m", "{header}");
        assert_eq!(choice.head["remove"], json!([header]));
        talk.serve(stream, JSON, &[b"{}"]);
    }
    picker.await_idle();
}

#[test]
fn x02_other_bodies_pass_as_they_are() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let form = b"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n\
        --b\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n\xff\0\r\n--b--\r\n";
    let mut ask = HttpRequest::post("/v1/audio/transcriptions", form.as_slice());
    ask.headers = vec![("content-type".into(), "multipart/form-data; boundary=b".into())];
    let stream = talk.request(&ask, 9);
    let choice = talk.choice(stream);
    assert_eq!((choice.body.as_slice(), choice.servers().len()), (form.as_slice(), 1));
    talk.serve(stream, JSON, &[b"{}"]);
    picker.await_idle();
}

#[test]
fn x02_tokens_are_counted_in_pieces_of_any_size() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &[&backend]);
    let usage = "\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7,\"total_tokens\":18}";
    let json = format!("{{\"choices\":[],{usage}}}");
    let streamed = [delta("the "), delta("tide"), event(&json), event("[DONE]")].concat();
    for (kind, answer) in [(JSON, &json), (STREAM, &streamed)] {
        for size in [1_000_000, 13, 1] {
            let before = picker.metrics().sum_where("tidegate_tokens_total", "output");
            let stream = talk.request(&chat("m"), 1_000);
            talk.choice(stream);
            let parts: Vec<&[u8]> = answer.as_bytes().chunks(size).collect();
            assert_eq!(talk.serve(stream, kind, &parts), answer.as_bytes());
            picker.await_idle();
            let after = picker.metrics().sum_where("tidegate_tokens_total", "output");
            assert_eq!(after - before, 7.0, "{kind} in parts of {size}");
        }
    }
}

#[test]
fn x02_q09_a_stream_that_is_cut_is_missed_wherever_it_was() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(ONE, &[&backend]);
    let running = talk.request(&chat("m"), 1_000);
    talk.choice(running);
    let waiting = [0, 1].map(|_| talk.request(&chat("m"), 1_000));
    picker.await_depth(2);
    talk.cancel(waiting[0]);
    picker.await_depth(1);
    talk.end(waiting[1]);
    picker.await_depth(0);
    let sending = talk.stream();
    talk.head(sending, &chat("m"), json!({}));
    talk.body(sending, b"{\"model\":", false);
    talk.cancel(sending);
    talk.answer_head(running, 200, STREAM, json!({}));
    talk.got(running, "response_headers");
    talk.answer_body(running, delta("the").as_bytes(), false);
    talk.got(running, "response_body");
    talk.cancel(running);
    picker.await_idle();
}

#[test]
fn x02_c01_a_stream_that_ends_after_its_request_settles_it() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(ONE, &[&backend]);
    for _ in 0..3 {
        let stream = talk.request(&chat("m"), 1_000);
        talk.choice(stream);
        talk.answer_head(stream, 200, JSON, json!({"config": 0}));
        talk.got(stream, "response_headers");
        talk.end(stream);
        assert_eq!(talk.ended(stream), "OK");
        picker.await_idle();
    }
}
