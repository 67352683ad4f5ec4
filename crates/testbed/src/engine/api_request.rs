//! What a request asks: the few fields of its JSON that an answer depends on.
//!
//! A stand-in reads generously: what it does not know it passes over, since real engines differ in
//! what they refuse and a gateway must not depend on any of it.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::api::Api;
use super::control::digest;
use super::machine::Work;

/// What a request asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiRequest {
    pub(super) api: Api,
    pub(super) model: String,
    /// All the text of the prompt.
    pub(super) prompt: String,
    /// The most tokens to answer with, if the client says.
    pub(super) max_tokens: Option<u32>,
    pub(super) stream: bool,
    /// Whether a stream ends with a chunk of usage.
    pub(super) include_usage: bool,
    /// The tool to call instead of answering with text.
    pub(super) tool: Option<Tool>,
    /// All of it, for what only one language asks.
    pub(super) json: Value,
}

/// A tool that the client offers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// Arguments that its parameters take, as JSON.
    pub(super) arguments: String,
}

/// Why a body is not a request.
#[derive(Debug)]
pub(super) enum ApiRequestError {
    Json(serde_json::Error),
    NoModel,
    /// The key of the prompt.
    NoPrompt(&'static str),
}

/// Tokens to answer with when the client does not say.
const OUTPUT: u32 = 16;

/// Bytes of text in a token, roughly.
const TOKEN_BYTES: usize = 4;

/// Bytes in a segment of 512 tokens.
const SEGMENT_BYTES: usize = 512 * TOKEN_BYTES;

// === impl ApiRequest ===

impl ApiRequest {
    /// Reads a request's body.
    pub(super) fn read(api: Api, body: &[u8]) -> Result<Self, ApiRequestError> {
        let json: Value = serde_json::from_slice(body).map_err(ApiRequestError::Json)?;
        let model = json["model"].as_str().ok_or(ApiRequestError::NoModel)?.to_owned();
        let prompt = text(&json[api.prompt_key()])
            .ok_or_else(|| ApiRequestError::NoPrompt(api.prompt_key()))?;
        let stream = json["stream"].as_bool().unwrap_or(api.is_ollama());
        Ok(Self {
            api,
            model,
            prompt,
            max_tokens: max_tokens(&json),
            stream: stream && !api.is_vector(),
            include_usage: json["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            tool: tool(&json),
            json,
        })
    }

    /// Tokens to answer with; a vector is one.
    pub(super) fn output(&self) -> u32 {
        if self.api.is_vector() { 1 } else { self.max_tokens.unwrap_or(OUTPUT).max(1) }
    }

    pub(super) fn prompt_tokens(&self) -> u32 {
        u32::try_from(self.prompt.len().div_ceil(TOKEN_BYTES).max(1)).unwrap_or(u32::MAX)
    }

    /// The work of answering with so many tokens.
    pub(super) fn work(&self, output: u32) -> Work {
        let segments = self.prompt.as_bytes().chunks_exact(SEGMENT_BYTES).map(digest);
        let prefix: Arc<[u64]> = segments.collect();
        Work { prompt: self.prompt_tokens(), output, prefix }
    }
}

fn max_tokens(json: &Value) -> Option<u32> {
    let keys = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    let given = keys.iter().find_map(|key| json[key].as_u64());
    let given = given.or_else(|| json["options"]["num_predict"].as_u64())?;
    u32::try_from(given).ok()
}

/// All text in a prompt, whichever of the many shapes it has; nothing where there is no prompt.
fn text(value: &Value) -> Option<String> {
    let mut found = String::new();
    gather(value, &mut found);
    (!value.is_null()).then_some(found)
}

fn gather(value: &Value, found: &mut String) {
    match value {
        Value::String(text) => {
            if !found.is_empty() {
                found.push(' ');
            }
            found.push_str(text);
        }
        // A prompt may come as tokens: four bytes each make their count come out right.
        Value::Number(_) => found.push_str("tok "),
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Object(fields) => {
            let keys = ["content", "text", "input_text", "output"];
            keys.iter().filter_map(|key| fields.get(*key)).for_each(|part| gather(part, found));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The tool to call: the one that is asked for by name, or the first; none if there are none, they
/// are switched off, or the client has just told what a tool gave.
fn tool(json: &Value) -> Option<Tool> {
    let choice = &json["tool_choice"];
    let turns = json["messages"].as_array().or_else(|| json["input"].as_array());
    let last = turns.and_then(|turns| turns.last()).unwrap_or(&Value::Null);
    if choice == "none" || last["role"] == "tool" || last["type"] == "function_call_output" {
        return None;
    }
    let tools = json["tools"].as_array()?;
    let name = |tool: &Value| function(tool)["name"].as_str().map(str::to_owned);
    let wanted = name(choice);
    let is_wanted = |tool: &&Value| wanted.is_none() || name(tool) == wanted;
    let tool = tools.iter().filter(|tool| name(tool).is_some()).find(is_wanted)?;
    Some(Tool { name: name(tool)?, arguments: arguments(&function(tool)["parameters"]) })
}

/// Where a tool describes its function: inside `function`, or, in the Responses API, beside it.
fn function(tool: &Value) -> &Value {
    match &tool["function"] {
        Value::Null => tool,
        inside => inside,
    }
}

/// A value for each parameter that must be given.
fn arguments(parameters: &Value) -> String {
    let required = parameters["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pair = |name: &Value| {
        let name = name.as_str()?;
        Some((name.to_owned(), sample(&parameters["properties"][name])))
    };
    Value::Object(required.iter().filter_map(pair).collect()).to_string()
}

fn sample(parameter: &Value) -> Value {
    if let Some(first) = parameter["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match parameter["type"].as_str() {
        Some("integer" | "number") => 1.into(),
        Some("boolean") => true.into(),
        Some("array") => Value::Array(Vec::new()),
        Some("object") => Value::Object(serde_json::Map::new()),
        _ => "tide".into(),
    }
}

// === impl ApiRequestError ===

impl fmt::Display for ApiRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::NoModel => f.write_str("model must be a string"),
            Self::NoPrompt(key) => write!(f, "{key} must be text, or a list of it"),
        }
    }
}
