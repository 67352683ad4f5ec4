//! Ollama's chat and generate: lines of JSON.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Api, ApiResponse, CREATED_TEXT};

pub(super) fn piece(answer: &ApiResponse, at: usize) -> Bytes {
    let last = at + 1 == answer.pieces.len();
    let said = match answer.tool_name() {
        // A call comes in one piece, once it is complete.
        Some(_) if last => said(answer, ""),
        Some(_) => return Bytes::new(),
        None => said(answer, &answer.pieces[at]),
    };
    line(&envelope(answer, said, false))
}

pub(super) fn closing(answer: &ApiResponse) -> Vec<Bytes> {
    let said = match answer.request.api {
        Api::OllamaChat => ("message", json!({"role": "assistant", "content": ""})),
        _ => ("response", "".into()),
    };
    vec![line(&finished(answer, said))]
}

pub(super) fn whole(answer: &ApiResponse) -> Value {
    finished(answer, said(answer, &answer.text()))
}

fn said(answer: &ApiResponse, text: &str) -> (&'static str, Value) {
    match (answer.request.api, &answer.request.tool) {
        (Api::OllamaChat, Some(tool)) => {
            let arguments: Value = serde_json::from_str(&tool.arguments).unwrap_or(json!({}));
            let call = json!({"function": {"name": tool.name, "arguments": arguments}});
            ("message", json!({"role": "assistant", "content": "", "tool_calls": [call]}))
        }
        (Api::OllamaChat, None) => ("message", json!({"role": "assistant", "content": text})),
        _ => ("response", text.into()),
    }
}

fn finished(answer: &ApiResponse, said: (&'static str, Value)) -> Value {
    let mut whole = envelope(answer, said, true);
    let reason = if answer.request.tool.is_none() && answer.is_cut() { "length" } else { "stop" };
    whole["done_reason"] = reason.into();
    whole["total_duration"] = (answer.total.as_nanos() as u64).into();
    whole["load_duration"] = 0.into();
    whole["prompt_eval_count"] = answer.request.prompt_tokens().into();
    whole["prompt_eval_duration"] = (answer.first.as_nanos() as u64).into();
    whole["eval_count"] = answer.pieces.len().into();
    let eval = answer.total.saturating_sub(answer.first);
    whole["eval_duration"] = (eval.as_nanos() as u64).into();
    whole
}

fn envelope(answer: &ApiResponse, (key, said): (&'static str, Value), done: bool) -> Value {
    json!({
        "model": answer.request.model,
        "created_at": CREATED_TEXT,
        key: said,
        "done": done,
    })
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}
