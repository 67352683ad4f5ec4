//! Proxies that do not say which parts they send, modes that the picker refuses, and model names
//! in responses.

use serde_json::{Value, json};

use crate::support::envoy::FREE;
use crate::support::gateway::{TWO, config};
use crate::support::scripted_response::{delta, event};
use crate::support::{
    Backend, ExtProcStream, Gateway, HttpRequest, Picker, Recipe, chat, eventually,
};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

fn talking(sections: &str, backend: &Backend) -> (Gateway, ExtProcStream) {
    let picker = Gateway::picker(&config(sections, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let talk = ExtProcStream::with(picker.process.address());
    (picker, talk)
}

/// The first message of a proxy that tells no modes.
fn silent() -> Value {
    json!({ "config": null })
}

/// As the hermetic tests of llm-d's picker send it: a head that is not the end, then the body.
#[test]
fn x02_without_announced_modes_the_body_is_read() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    for size in [1_000_000, 7] {
        let ask = chat("m");
        let stream = talk.request_with(&ask, size, silent());
        let choice = talk.choice(stream);
        assert_eq!(choice.servers(), [backend.address().to_string()]);
        assert_eq!(choice.body, ask.body);
        assert_eq!(talk.serve(stream, JSON, &[b"{}"]), b"{}");
        assert_eq!(talk.ended(stream), "OK");
    }
    let stream = talk.request_with(&HttpRequest::get("/v1/things"), 1, silent());
    let head = talk.got(stream, "request_headers");
    assert_eq!(head["set"]["x-gateway-destination-endpoint"], backend.address().to_string());
    talk.serve(stream, JSON, &[b"{}"]);
    picker.await_idle();
    let ok = picker.metrics().sum_where("tidegate_requests_total", "outcome=\"ok\"");
    assert_eq!(ok, 3.0);
}

/// A proxy that shows the head of the response and no more has seen its end elsewhere.
#[test]
fn x02_without_announced_modes_a_response_without_a_body_ends_with_its_stream() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    let stream = talk.request_with(&chat("m"), 1_000, silent());
    talk.choice(stream);
    talk.answer_head(stream, 200, JSON, json!({}));
    talk.got(stream, "response_headers");
    talk.end(stream);
    assert_eq!(talk.ended(stream), "OK");
    picker.await_idle();
    let ok = picker.metrics().sum_where("tidegate_requests_total", "outcome=\"ok\"");
    assert_eq!(ok, 1.0);
}

/// The outcomes in the access log, in the order of their ends.
fn outcomes(picker: &Gateway, count: usize) -> Vec<Value> {
    eventually("logged", || {
        let log = picker.process.access();
        let lines: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let lines = lines.map_err(|error| error.to_string())?;
        if lines.len() == count { Ok(lines) } else { Err(log) }
    })
}

/// A proxy that only asks for the choice ends its stream in order; its client is still there.
#[test]
fn x02_a_stream_that_ends_after_the_choice_is_no_client_that_left() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(&format!("[log]\nformat = \"json\"\n{TWO}"), &backend);
    for modes in [silent(), json!({})] {
        let stream = talk.request_with(&chat("m"), 1_000, modes);
        talk.choice(stream);
        talk.end(stream);
        assert_eq!(talk.ended(stream), "OK");
    }
    picker.await_idle();
    for line in outcomes(&picker, 2) {
        assert_eq!(
            (&line["outcome"], &line["backend"]),
            (&json!("response_unseen"), &json!("one"))
        );
        assert_eq!(line["status"], Value::Null, "it is unknown: {line}");
    }
    let count = |name: &str, labels: &str| picker.metrics().sum_where(name, labels);
    let labels = "outcome=\"response_unseen\",code=\"-\"";
    assert_eq!(count("tidegate_requests_total", labels), 2.0);
    assert_eq!(count("tidegate_requests_cancelled_total", ""), 0.0);
    let stream = talk.request_with(&chat("m"), 1_000, silent());
    talk.choice(stream);
    talk.cancel(stream);
    picker.await_idle();
    let last = outcomes(&picker, 3).remove(2);
    assert_eq!((&last["outcome"], &last["status"]), (&json!("client_closed"), &json!(499)));
}

#[test]
fn x02_body_modes_that_would_break_responses_are_refused() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    for mode in [1, 2, 3, 5] {
        for modes in [json!({ "config": mode }), json!({ "request_config": mode })] {
            let stream = talk.request_with(&chat("m"), 1_000, modes.clone());
            let ended = talk.heard(stream);
            assert_eq!(ended["ended"], "INVALID_ARGUMENT", "{modes}: {ended}");
            let why = ended["why"].as_str().unwrap();
            let side = if modes["config"].is_null() { "request" } else { "response" };
            assert!(why.contains(&format!("{side}_body_mode")), "{why}");
            assert!(why.contains("FULL_DUPLEX_STREAMED"), "{why}");
        }
    }
    picker.await_idle();
}

const ALIAS: &str = "[[models]]\nname = \"alias\"\ntargets = [{ model = \"m\" }]\n";

#[test]
fn x02_r10_responses_have_the_name_that_the_client_asked_for() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(&format!("{ALIAS}{TWO}"), &backend);
    let json = json!({"model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let streamed = [delta("the "), delta("tide"), event("[DONE]")].concat();
    for (kind, sent) in [(JSON, json.to_string()), (STREAM, streamed)] {
        for size in [1_000_000, 5] {
            let stream = talk.request(&chat("alias"), 1_000);
            talk.choice(stream);
            let parts: Vec<&[u8]> = sent.as_bytes().chunks(size).collect();
            let back = String::from_utf8(talk.serve(stream, kind, &parts)).unwrap();
            let named = sent.replace("\"model\":\"m\"", "\"model\":\"alias\"");
            assert_eq!(back, named, "{kind} in parts of {size}");
        }
    }
    picker.await_idle();
}

#[test]
fn x02_r10_envoy_passes_the_restored_name_in_its_new_length() {
    let backend = Backend::quick();
    let sections = format!("{ALIAS}{TWO}");
    let text = config(&sections, &[("one", backend.address())]);
    let picker = Picker::start(Recipe::original_dst(), &text);
    let answer = picker.ask(&chat("alias"));
    assert_eq!((answer.status, &answer.json()["model"]), (200, &json!("alias")));
    let direct = picker.ask(&chat("m"));
    assert_eq!((direct.status, &direct.json()["model"]), (200, &json!("m")));
    picker.await_idle();
}

/// Ollama's clients read another form of errors.
#[test]
fn x02_errors_on_ollamas_paths_have_its_form() {
    let backend = Backend::quick();
    let (picker, mut talk) = talking(TWO, &backend);
    let ask = HttpRequest::post("/api/chat", "{\"model\": \"nobody-has-it\"}");
    let stream = talk.request(&ask, 1_000);
    let (status, _, body) = talk.refusal(stream);
    assert_eq!((status, body["code"].as_str()), (404, Some("model_not_found")), "{body}");
    assert!(body["error"].as_str().unwrap().contains("nobody-has-it"), "{body}");
    picker.await_idle();
}
