//! Lines of JSON: an object a line, with the time in milliseconds and the ids of the prompt's
//! segments.

use std::sync::Arc;

use flow::Time;
use serde::Deserialize;
use serde_json::Value;

use super::number::NumberError;
use super::{Entry, Fault, Field, NOBODY, SEGMENT_TOKENS, number};

const PROMPT: Field = Field::Key("input_length");
const OUTPUT: Field = Field::Key("output_length");
const PREFIX: Field = Field::Key("hash_ids");
const MILLIS_PER_SEC: f64 = 1000.0;

/// The object of one line. Its values are read loosely, so that an error can name the key.
#[derive(Deserialize)]
pub(super) struct Jsonl {
    timestamp: Option<Value>,
    input_length: Option<Value>,
    output_length: Option<Value>,
    hash_ids: Option<Value>,
}

// === impl Jsonl ===

impl Jsonl {
    /// The key that lines are sorted by.
    pub(super) const TIME: Field = Field::Key("timestamp");

    /// Reads one line.
    pub(super) fn entry(line: &str) -> Result<Entry<'static>, Fault> {
        // A struct is also read from an array, which would hide that the keys are missing.
        if !line.trim_start().starts_with('{') {
            return Err(Fault::line(format!("{} is not an object", number::quote(line))));
        }
        let object: Self = serde_json::from_str(line).map_err(|error| broken(&error))?;
        let prompt = tokens(PROMPT, object.input_length)?;
        Ok(Entry {
            at: moment(object.timestamp)?,
            client: NOBODY,
            prompt,
            output: tokens(OUTPUT, object.output_length)?,
            prefix: object.hash_ids.map_or(Ok(Arc::default()), |ids| prefix(&ids, prompt))?,
        })
    }
}

fn broken(error: &serde_json::Error) -> Fault {
    let told = error.to_string();
    // Every line is a text of its own to the reader of JSON, so that its line number is always 1.
    let reason = told.rsplit_once(" at line ").map_or(told.as_str(), |(reason, _)| reason);
    Fault::line(format!("broken JSON at byte {}: {reason}", error.column()))
}

fn present(key: Field, value: Option<Value>) -> Result<Value, Fault> {
    value.ok_or_else(|| key.fault("missing"))
}

fn moment(value: Option<Value>) -> Result<Time, Fault> {
    let value = present(Jsonl::TIME, value)?;
    let fault = |error: NumberError| Jsonl::TIME.fault(error.about(&value.to_string()));
    let millis = value.as_f64().ok_or_else(|| fault(NumberError::NotANumber))?;
    let rounded = number::moment(millis / MILLIS_PER_SEC).map_err(fault)?;
    Ok(value.as_u64().map_or(rounded, Time::from_millis))
}

fn tokens(key: Field, value: Option<Value>) -> Result<u32, Fault> {
    let value = present(key, value)?;
    match value.as_u64() {
        Some(count) => {
            number::tokens_within(count).map_err(|error| key.fault(format!("{value} {error}")))
        }
        None => {
            let text = value.to_string();
            Err(key.fault(NumberError::of_count(&text).about(&text)))
        }
    }
}

fn prefix(ids: &Value, prompt: u32) -> Result<Arc<[u64]>, Fault> {
    let ids = ids.as_array().ok_or_else(|| PREFIX.fault("not a list of numbers"))?;
    let (found, most) = (ids.len(), prompt.div_ceil(SEGMENT_TOKENS) as usize);
    if found > most {
        let message = format!(
            "{found} ids, but a prompt of {prompt} tokens has {most} segments of {SEGMENT_TOKENS}"
        );
        return Err(PREFIX.fault(message));
    }
    let id = |value: &Value| {
        let fault = || PREFIX.fault(NumberError::NotWhole.about(&value.to_string()));
        value.as_u64().ok_or_else(fault)
    };
    ids.iter().map(id).collect()
}
