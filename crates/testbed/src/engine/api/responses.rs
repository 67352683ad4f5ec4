//! OpenAI's Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{ApiResponse, CREATED, event};

pub(super) fn opening(answer: &ApiResponse) -> Vec<Bytes> {
    let mut events = vec![
        ("response.created", json!({"response": response(answer, false)})),
        ("response.in_progress", json!({"response": response(answer, false)})),
        ("response.output_item.added", json!({"output_index": 0, "item": item(answer, false)})),
    ];
    if answer.tool_name().is_none() {
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        events.push(("response.content_part.added", within(answer, json!({"part": part}))));
    }
    number(events, 0)
}

pub(super) fn piece(answer: &ApiResponse, at: usize) -> Bytes {
    let name = match answer.tool_name() {
        Some(_) => "response.function_call_arguments.delta",
        None => "response.output_text.delta",
    };
    let delta = within(answer, json!({"delta": answer.pieces[at], "logprobs": []}));
    number(vec![(name, delta)], openings(answer) + at).remove(0)
}

pub(super) fn closing(answer: &ApiResponse) -> Vec<Bytes> {
    let text = answer.text();
    let mut events = match answer.tool_name() {
        Some(name) => {
            let arguments = within(answer, json!({"name": name, "arguments": text}));
            vec![("response.function_call_arguments.done", arguments)]
        }
        None => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            let said = within(answer, json!({"text": text, "logprobs": []}));
            vec![
                ("response.output_text.done", said),
                ("response.content_part.done", within(answer, json!({"part": part}))),
            ]
        }
    };
    let item = json!({"output_index": 0, "item": item(answer, true)});
    events.push(("response.output_item.done", item));
    events.push(("response.completed", json!({"response": whole(answer)})));
    number(events, openings(answer) + answer.pieces.len())
}

pub(super) fn whole(answer: &ApiResponse) -> Value {
    response(answer, true)
}

/// Events before the first piece.
fn openings(answer: &ApiResponse) -> usize {
    if answer.tool_name().is_some() { 3 } else { 4 }
}

fn number(events: Vec<(&'static str, Value)>, first: usize) -> Vec<Bytes> {
    let numbered = events.into_iter().zip(first..).map(|((name, mut value), number)| {
        value["type"] = name.into();
        value["sequence_number"] = number.into();
        event(name, &value)
    });
    numbered.collect()
}

/// Says which part of the response an event is about.
fn within(answer: &ApiResponse, mut value: Value) -> Value {
    value["item_id"] = item_id(answer).into();
    value["output_index"] = 0.into();
    if answer.tool_name().is_none() {
        value["content_index"] = 0.into();
    }
    value
}

fn item_id(answer: &ApiResponse) -> String {
    let kind = if answer.tool_name().is_some() { "fc" } else { "msg" };
    format!("{kind}_{:08x}", answer.serial)
}

fn item(answer: &ApiResponse, done: bool) -> Value {
    let status = if done { "completed" } else { "in_progress" };
    if let Some(name) = answer.tool_name() {
        return json!({
            "type": "function_call",
            "id": item_id(answer),
            "call_id": format!("call_{:08x}", answer.serial),
            "name": name,
            "arguments": if done { answer.text() } else { String::new() },
            "status": status,
        });
    }
    let part = json!({"type": "output_text", "text": answer.text(), "annotations": []});
    json!({
        "type": "message",
        "id": item_id(answer),
        "role": "assistant",
        "status": status,
        "content": if done { vec![part] } else { Vec::new() },
    })
}

fn response(answer: &ApiResponse, done: bool) -> Value {
    let (prompt, output) = (answer.request.prompt_tokens(), answer.pieces.len());
    let usage = json!({
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt as usize + output,
    });
    json!({
        "id": format!("resp_{:08x}", answer.serial),
        "object": "response",
        "created_at": CREATED,
        "status": if done { "completed" } else { "in_progress" },
        "model": answer.request.model,
        "output": if done { vec![item(answer, true)] } else { Vec::new() },
        "usage": if done { usage } else { Value::Null },
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": [],
    })
}
