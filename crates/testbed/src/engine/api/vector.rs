//! Embeddings: vectors that depend on the text alone, so that the same text gives the same one.

use serde_json::{Value, json};
use sim::random::Random;

use super::ApiResponse;
use crate::engine::control::digest;

/// The length of a vector unless the client says.
const LENGTH: usize = 16;

/// The longest vector that is made, whatever the client says.
const LENGTH_MAX: usize = 4096;

/// The most texts in one request.
const INPUTS_MAX: usize = 2048;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// OpenAI's answer.
pub(super) fn openai(answer: &ApiResponse) -> Value {
    let json = &answer.request.json;
    let as_text = json["encoding_format"] == "base64";
    let entries = vectors(json).into_iter().enumerate().map(|(index, vector)| {
        let vector = if as_text { base64(&vector).into() } else { json!(vector) };
        json!({"object": "embedding", "index": index, "embedding": vector})
    });
    let tokens = answer.request.prompt_tokens();
    json!({
        "object": "list",
        "data": entries.collect::<Vec<Value>>(),
        "model": answer.request.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
}

/// Ollama's answer.
pub(super) fn ollama(answer: &ApiResponse) -> Value {
    json!({
        "model": answer.request.model,
        "embeddings": vectors(&answer.request.json),
        "total_duration": answer.total.as_nanos() as u64,
        "load_duration": 0,
        "prompt_eval_count": answer.request.prompt_tokens(),
    })
}

fn vectors(json: &Value) -> Vec<Vec<f32>> {
    let length = json["dimensions"].as_u64().unwrap_or(LENGTH as u64);
    let length = (length as usize).clamp(1, LENGTH_MAX);
    let inputs = match &json["input"] {
        // A list of numbers is one text in tokens.
        Value::Array(items) if !items.iter().all(Value::is_number) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    inputs.iter().take(INPUTS_MAX).map(|input| vector(&input.to_string(), length)).collect()
}

fn vector(text: &str, length: usize) -> Vec<f32> {
    let mut random = Random::new(digest(text.as_bytes()));
    let drawn: Vec<f64> = (0..length).map(|_| random.unit() - 0.5).collect();
    let norm = drawn.iter().map(|value| value * value).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    drawn.iter().map(|value| (value / norm) as f32).collect()
}

fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize] as char;
            text.push(if at <= group.len() { letter } else { '=' });
        }
    }
    text
}
