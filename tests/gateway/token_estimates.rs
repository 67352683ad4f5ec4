//! M01: what the log says of tokens when the backend reports no usage.

use serde_json::{Value, json};

use crate::support::gateway::TWO;
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

fn gateway(backend: &Backend) -> Gateway {
    Gateway::before(&format!("[log]\nformat = \"json\"\n{TWO}"), backend)
}

/// The line of the only request.
fn line(gateway: &Gateway) -> Value {
    gateway.await_idle();
    eventually("logged", || {
        let log = gateway.process.access();
        let line = log.lines().next().ok_or("no line")?;
        serde_json::from_str(line).map_err(|error| error.to_string())
    })
}

#[test]
fn m01_a_stream_without_usage_has_estimated_prompt_tokens_in_the_log() {
    let backend = Backend::start(|_| {
        ScriptedResponse::stream(&[&delta("the "), &delta("tide"), &event("[DONE]")])
    });
    let gateway = gateway(&backend);
    let words = "word ".repeat(1000);
    let ask = chat("m").with("messages", json!([{"role": "user", "content": words}])).streamed();
    assert_eq!(gateway.ask(&ask).status, 200);
    let line = line(&gateway);
    let prompt = line["prompt_tokens"].as_u64().unwrap_or_else(|| panic!("{line}"));
    assert!((700..=2000).contains(&prompt), "{line}");
    assert_eq!((&line["output_tokens"], &line["usage"]), (&json!(2), &json!("estimated")));
    let counted = gateway.metrics().sum_where("tidegate_tokens_total", "input");
    assert_eq!(counted, prompt as f64, "the metrics agree with the log");
}

#[test]
fn m01_reported_usage_is_not_called_an_estimate() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    let backend = Backend::start(move |_| {
        ScriptedResponse::stream(&[&delta("the "), &event(&usage.to_string()), &event("[DONE]")])
    });
    let gateway = gateway(&backend);
    assert_eq!(gateway.ask(&chat("m").streamed()).status, 200);
    let line = line(&gateway);
    assert_eq!((&line["prompt_tokens"], &line["output_tokens"]), (&json!(5), &json!(3)));
    assert_eq!(line["usage"], Value::Null, "{line}");
}

/// A response that is no work for a model has no tokens at all.
#[test]
fn m01_other_responses_have_no_estimate() {
    let backend = Backend::start(|_| ScriptedResponse::json(200, "{}"));
    let gateway = gateway(&backend);
    assert_eq!(gateway.ask(&HttpRequest::get("/v1/things")).status, 200);
    let line = line(&gateway);
    assert_eq!((&line["prompt_tokens"], &line["usage"]), (&Value::Null, &Value::Null));
}
