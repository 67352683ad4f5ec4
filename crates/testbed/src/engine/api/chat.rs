//! OpenAI's chat completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{ApiResponse, CREATED, DONE, data};

pub(super) fn opening(answer: &ApiResponse) -> Vec<Bytes> {
    let role = json!({"role": "assistant", "content": ""});
    let call = answer.tool_name().map(|name| {
        json!({"tool_calls": [{
            "index": 0,
            "id": call_id(answer),
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }]})
    });
    let deltas = std::iter::once(role).chain(call);
    deltas.map(|delta| data(&chunk(answer, &delta, Value::Null))).collect()
}

pub(super) fn piece(answer: &ApiResponse, at: usize) -> Bytes {
    let piece = &answer.pieces[at];
    let delta = match answer.tool_name() {
        Some(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
        None => json!({"content": piece}),
    };
    data(&chunk(answer, &delta, Value::Null))
}

pub(super) fn closing(answer: &ApiResponse) -> Vec<Bytes> {
    let mut chunks = vec![data(&chunk(answer, &json!({}), answer.finish_reason().into()))];
    if answer.request.include_usage {
        let mut last = envelope(answer, "chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = answer.usage();
        chunks.push(data(&last));
    }
    chunks.push(DONE);
    chunks
}

pub(super) fn whole(answer: &ApiResponse) -> Value {
    let message = match answer.tool_name() {
        Some(name) => json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": call_id(answer),
            "type": "function",
            "function": {"name": name, "arguments": answer.text()},
        }]}),
        None => json!({"role": "assistant", "content": answer.text()}),
    };
    let mut whole = envelope(answer, "chat.completion");
    whole["choices"] = json!([{
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": answer.finish_reason(),
    }]);
    whole["usage"] = answer.usage();
    whole
}

fn chunk(answer: &ApiResponse, delta: &Value, finish_reason: Value) -> Value {
    let mut chunk = envelope(answer, "chat.completion.chunk");
    let choice =
        json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
    chunk["choices"] = json!([choice]);
    chunk
}

fn envelope(answer: &ApiResponse, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{:08x}", answer.serial),
        "object": object,
        "created": CREATED,
        "model": answer.request.model,
    })
}

fn call_id(answer: &ApiResponse) -> String {
    format!("call_{:08x}", answer.serial)
}
