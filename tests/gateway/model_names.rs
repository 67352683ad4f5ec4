//! R10: a client that asks for a configured name reads that name in the response, too.

use serde_json::{Value, json};

use crate::support::gateway::TWO;
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

const ALIAS: &str = "[[models]]\nname = \"chat \\\"1\\\"\"\ntargets = [{ model = \"m\" }]\n";
const NAME: &str = "chat \"1\"";

fn gateway(backend: &Backend) -> Gateway {
    Gateway::before(&format!("{ALIAS}{TWO}"), backend)
}

#[test]
fn r10_a_response_has_the_name_that_the_client_asked_for() {
    let backend = Backend::quick();
    let gateway = gateway(&backend);
    let answer = gateway.ask(&chat(NAME));
    let mut body = answer.json();
    assert_eq!((answer.status, &body["model"]), (200, &json!(NAME)));
    assert_eq!(backend.seen()[0].json()["model"], "m");
    let plain = gateway.ask(&chat("m"));
    body["model"] = "m".into();
    assert_eq!(plain.json(), body, "nothing else differs");
    assert!(plain.header("content-length").is_some(), "what is not changed keeps its length");
    let renamed = chat("other").header("x-gateway-model-name-rewrite", "m");
    assert_eq!(gateway.ask(&renamed).json()["model"], "other");
    gateway.await_idle();
}

#[test]
fn r10_a_rewritten_model_that_no_backend_serves_is_named_with_the_requested_one() {
    let backend = Backend::quick();
    let gateway = gateway(&backend);
    let answer = gateway.ask(&chat("m").header("x-gateway-model-name-rewrite", "nope"));
    assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("'nope'") && message.contains("'m'"), "{message}");
    assert!(!message.contains("'m' is served by no backend"), "{message}");
    assert_eq!(answer.json()["error"]["param"], "model");
    let plain = gateway.ask(&chat("nope")).json()["error"]["message"].to_string();
    assert!(plain.contains("The model 'nope' is served by no backend"), "{plain}");
}

/// Only the response's own name is replaced, however it is spaced, and not the names inside.
#[test]
fn r10_only_the_models_own_field_is_replaced() {
    let body = "{ \"choices\":[{\"model\":\"m\",\"text\":\"\\\"model\\\":\\\"m\\\"\"}],\n \
        \"x\": {\"model\": \"m\"}, \"model\" : \"m\" , \"usage\":{\"model\":\"m\"}}";
    let backend = Backend::start(move |_| ScriptedResponse::json(200, body));
    let answer = gateway(&backend).ask(&chat(NAME));
    let quoted = json!(NAME).to_string();
    assert_eq!(answer.text(), body.replace("\"model\" : \"m\"", &format!("\"model\" : {quoted}")));
}

#[test]
fn r10_every_event_of_a_stream_has_the_name_that_the_client_asked_for() {
    let words = [delta("the "), delta("tide")].concat();
    let nested = event(&json!({"response": {"id": "r", "model": "m"}}).to_string());
    let whole = [words.as_str(), &nested, ": model {\n\n", &event("[DONE]")].concat();
    // A name may be cut anywhere.
    for size in [1, 7, 10_000] {
        let sent = whole.clone();
        let backend = Backend::start(move |_| {
            let pieces: Vec<String> = sent
                .as_bytes()
                .chunks(size)
                .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
                .collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            ScriptedResponse::stream(&pieces)
        });
        let gateway = gateway(&backend);
        let answer = gateway.ask(&chat(NAME).streamed());
        let quoted = json!(NAME).to_string();
        let expected = whole.replace("\"model\":\"m\"", &format!("\"model\":{quoted}"));
        assert_eq!(answer.text(), expected, "in pieces of {size}");
        gateway.await_idle();
    }
}

#[test]
fn r10_ollamas_lines_have_the_name_that_the_client_asked_for() {
    let line = |done: bool| json!({"model": "m", "message": {"content": "a"}, "done": done});
    let lines = format!("{}\n{}\n", line(false), line(true));
    let backend = Backend::start(move |_| {
        ScriptedResponse::with_headers(200, &["content-type: application/x-ndjson"], &lines)
    });
    let ask = HttpRequest::post("/api/chat", json!({"model": NAME, "messages": []}).to_string());
    let answer = gateway(&backend).ask(&ask);
    let names: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["model"].clone())
        .collect();
    assert_eq!(names, [json!(NAME), json!(NAME)]);
}

/// A body in an unknown form passes as it is.
#[test]
fn r10_bodies_that_are_not_json_keep_every_byte() {
    let body = "{\"model\":\"m\"}";
    let cases = [
        ["content-type: text/plain", "x-a: b"],
        ["content-type: application/json", "content-encoding: gzip"],
    ];
    for headers in cases {
        let backend = Backend::start(move |_| ScriptedResponse::with_headers(200, &headers, body));
        let answer = gateway(&backend).ask(&chat(NAME));
        assert_eq!((answer.text().as_str(), answer.header("content-length")), (body, Some("13")));
    }
}
