//! The body of `POST /v1/batches`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::clock;
use crate::ingress::duration;
use crate::ingress::path::is_work;
use crate::reply::Fault;

const WINDOW_MIN: Duration = Duration::from_secs(1);
const WINDOW_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const PAIRS_MAX: usize = 16;
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 512;
/// The range of `expires_after.seconds`.
const LIFETIME: std::ops::RangeInclusive<u64> = 3600..=30 * 24 * 3600;

/// The parsed request for a new batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CreateBatch {
    pub(super) input: String,
    pub(super) endpoint: String,
    /// The completion window, as text and as a duration.
    pub(super) window: String,
    pub(super) within: Duration,
    /// A JSON object.
    pub(super) metadata: Option<String>,
    /// How long its output files are kept.
    pub(super) lifetime: Option<Duration>,
}

/// The fields of the body. Each is checked separately, so that an error names its field.
#[derive(Deserialize)]
struct RequestFields {
    input_file_id: Option<Value>,
    endpoint: Option<Value>,
    completion_window: Option<Value>,
    metadata: Option<Value>,
    output_expires_after: Option<Value>,
}

// === impl CreateBatch ===

impl CreateBatch {
    /// Parses a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Fault> {
        let parts = RequestFields::read(body)?;
        let endpoint = text(parts.endpoint, "endpoint", "/v1/chat/completions")?;
        let window = text(parts.completion_window, "completion_window", "24h")?;
        Ok(Self {
            input: text(parts.input_file_id, "input_file_id", "that of an uploaded file")?,
            within: within(&window)?,
            window,
            endpoint: forwarded(endpoint)?,
            metadata: parts.metadata.map(metadata).transpose()?,
            lifetime: parts
                .output_expires_after
                .map(|after| expires(&after))
                .transpose()?
                .flatten(),
        })
    }
}

// === impl RequestFields ===

impl RequestFields {
    fn read(body: &[u8]) -> Result<Self, Fault> {
        // serde would accept an array as the fields in their order.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Fault::InvalidRequest("The body must be a JSON object.".into()));
        }
        serde_json::from_slice(body).map_err(|error| {
            Fault::InvalidRequest(format!("The body is not a JSON object: {error}."))
        })
    }
}

/// How long a file is kept by its `expires_after`.
pub(super) fn lifetime(
    field: &'static str,
    anchor: Option<&str>,
    seconds: Option<u64>,
) -> Result<Option<Duration>, Fault> {
    match (anchor, seconds) {
        (None, None) => Ok(None),
        (Some("created_at"), Some(seconds)) if LIFETIME.contains(&seconds) => {
            Ok(Some(Duration::from_secs(seconds)))
        }
        _ => {
            let (least, most) = (LIFETIME.start(), LIFETIME.end());
            let text =
                format!("'{field}' needs anchor = created_at and seconds from {least} to {most}.");
            Err(invalid(field, text))
        }
    }
}

fn text(part: Option<Value>, field: &'static str, example: &str) -> Result<String, Fault> {
    match part {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(_) => Err(invalid(field, format!("'{field}' must be a string such as {example}."))),
        None => Err(invalid(field, format!("'{field}' is missing: give one such as {example}."))),
    }
}

/// Checks that the gateway forwards the path.
fn forwarded(endpoint: String) -> Result<String, Fault> {
    if is_work(&endpoint) {
        return Ok(endpoint);
    }
    let text = "'endpoint' must be a path of the API that takes work: /v1/chat/completions, \
                /v1/completions, /v1/embeddings, /v1/responses or another one that your model \
                servers have.";
    Err(invalid("endpoint", text.into()))
}

fn within(window: &str) -> Result<Duration, Fault> {
    let within = duration::parse(window).map(clock::duration);
    within.filter(|within| (WINDOW_MIN..=WINDOW_MAX).contains(within)).ok_or_else(|| {
        let text = "'completion_window' must be a duration from 1s to 365d, such as 24h or 90m.";
        invalid("completion_window", text.into())
    })
}

fn metadata(value: Value) -> Result<String, Fault> {
    let pair = |(key, value): (&String, &Value)| {
        let short = |text: &str| text.chars().count() <= VALUE_MAX;
        key.chars().count() <= KEY_MAX && value.as_str().is_some_and(short)
    };
    let fits = |pairs: &Map<String, Value>| pairs.len() <= PAIRS_MAX && pairs.iter().all(pair);
    if value.as_object().is_some_and(fits) {
        return Ok(value.to_string());
    }
    let text = format!(
        "'metadata' must be an object of at most {PAIRS_MAX} pairs: keys of {KEY_MAX} letters, \
         strings of {VALUE_MAX}."
    );
    Err(invalid("metadata", text))
}

fn expires(after: &Value) -> Result<Option<Duration>, Fault> {
    let seconds = after["seconds"].as_u64().unwrap_or_default();
    lifetime("output_expires_after", after["anchor"].as_str(), Some(seconds))
}

fn invalid(field: &'static str, text: String) -> Fault {
    Fault::InvalidField(field, text)
}
