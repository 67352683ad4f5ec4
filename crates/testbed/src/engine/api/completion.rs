//! OpenAI's plain completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{ApiResponse, CREATED, DONE, data};

pub(super) fn piece(answer: &ApiResponse, at: usize) -> Bytes {
    data(&envelope(answer, &[choice(&answer.pieces[at], Value::Null)]))
}

pub(super) fn closing(answer: &ApiResponse) -> Vec<Bytes> {
    let mut chunks = vec![data(&envelope(answer, &[choice("", answer.finish_reason().into())]))];
    if answer.request.include_usage {
        let mut last = envelope(answer, &[]);
        last["usage"] = answer.usage();
        chunks.push(data(&last));
    }
    chunks.push(DONE);
    chunks
}

pub(super) fn whole(answer: &ApiResponse) -> Value {
    let mut whole = envelope(answer, &[choice(&answer.text(), answer.finish_reason().into())]);
    whole["usage"] = answer.usage();
    whole
}

fn envelope(answer: &ApiResponse, choices: &[Value]) -> Value {
    json!({
        "id": format!("cmpl-{:08x}", answer.serial),
        "object": "text_completion",
        "created": CREATED,
        "model": answer.request.model,
        "choices": choices,
    })
}

fn choice(text: &str, finish_reason: Value) -> Value {
    json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish_reason})
}
