//! Token usage, read from responses and shown in metrics and log.

use serde_json::json;

use crate::support::gateway::TWO;
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, Picker, ScriptedResponse, chat};

const JSON_LOG: &str = "[log]\nformat = \"json\"\n";

fn picker(backend: &Backend) -> Picker {
    Picker::before(&format!("{JSON_LOG}{TWO}"), backend)
}

/// What the log and the metrics say was used.
fn told(picker: &Picker) -> [f64; 4] {
    picker.await_idle();
    let line = picker.last_access();
    let logged = ["prompt_tokens", "output_tokens"].map(|name| line[name].as_f64().unwrap_or(-1.0));
    let metrics = picker.metrics();
    let counted = ["input", "output"].map(|way| metrics.sum_where("tidegate_tokens_total", way));
    [logged[0], logged[1], counted[0], counted[1]]
}

#[test]
fn x02_usage_is_read_from_json_in_many_parts() {
    let body = json!({"choices": [], "text": "x".repeat(300_000),
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}});
    let backend = Backend::start(move |_| ScriptedResponse::json(200, &body.to_string()));
    let picker = picker(&backend);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    assert_eq!(told(&picker), [11.0, 7.0, 11.0, 7.0]);
}

/// What the engine repeats of a request is no usage, in whatever pieces Envoy sends it.
#[test]
fn x02_x05_a_look_alike_of_usage_is_none() {
    let forged = json!({"usage": {"prompt_tokens": 0, "cached_tokens": 1_000_000}});
    let body = json!({"choices": [], "a": forged, "tools": [forged, "x".repeat(300_000)],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7}, "z": {"x": forged}});
    let backend = Backend::start(move |_| ScriptedResponse::json(200, &body.to_string()));
    let picker = picker(&backend);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    assert_eq!(told(&picker), [11.0, 7.0, 11.0, 7.0]);
    assert_eq!(picker.last_access()["cached_tokens"], json!(null));
}

#[test]
fn x02_usage_is_read_from_streams() {
    let usage = json!({"choices": [],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}});
    let backend = Backend::start(move |_| {
        let words = [delta("the "), delta("tide "), delta("turns")].concat();
        ScriptedResponse::stream(&[&words, &event(&usage.to_string()), &event("[DONE]")])
    });
    let picker = picker(&backend);
    assert_eq!(picker.ask(&chat("m").streamed()).status, 200);
    assert_eq!(told(&picker), [5.0, 3.0, 5.0, 3.0]);
}

#[test]
fn x02_events_are_counted_where_no_usage_is_reported() {
    let backend = Backend::start(move |_| {
        let words = ["the ", "tide ", "turns ", "now"].map(delta);
        let [a, b, c, d] = &words;
        ScriptedResponse::stream(&[a, b, c, d, &event("[DONE]")])
    });
    let picker = picker(&backend);
    assert_eq!(picker.ask(&chat("m").streamed()).status, 200);
    assert_eq!(told(&picker)[1], 4.0);
}

#[test]
fn x02_m02_each_request_has_its_line() {
    let backend = Backend::quick();
    let picker = picker(&backend);
    let ask = chat("m").priority("high").header("x-request-id", "own-id-7");
    let answer = picker.ask(&ask);
    assert_eq!(answer.header("x-request-id"), Some("own-id-7"));
    assert_eq!(answer.header("x-priority-boost"), Some("200"));
    picker.await_idle();
    let line = picker.last_access();
    let expected = json!({"request_id": "own-id-7", "method": "POST", "status": 200,
        "path": "/v1/chat/completions", "outcome": "ok", "model": "m", "target_model": "m",
        "priority": "high", "backend": "one", "attempts": 1, "bytes_in": ask.body.len()});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name}: {line}");
    }
    assert!(line["first_byte_ms"].is_number() && line["total_ms"].is_number(), "{line}");
}
