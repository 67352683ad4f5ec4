//! One line of an input file, parsed as a request.

use std::borrow::Cow;

use flow::identity::NAME_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::InputError;
use crate::ingress;

/// The longest `custom_id`, in characters.
const CUSTOM_ID_MAX: usize = 512;

/// The request of a line.
#[derive(Clone, Debug)]
pub struct RequestLine<'a> {
    /// The client's name of the request.
    pub custom_id: Cow<'a, str>,
    /// The path of the request.
    pub url: Cow<'a, str>,
    /// The body, as it is in the line.
    pub body: &'a str,
    /// The offset of the body in the line.
    pub at: usize,
}

/// The fields of a line, unparsed. Each is checked separately, so that an error names its field.
#[derive(Deserialize)]
struct LineFields<'a> {
    #[serde(borrow)]
    custom_id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    url: Option<&'a RawValue>,
    body: Option<&'a RawValue>,
}

/// The fields of a body that are checked.
#[derive(Deserialize)]
struct BodyFields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct JsonString<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl RequestLine ===

impl<'a> RequestLine<'a> {
    /// Parses a line.
    pub fn read(line: &'a str) -> Result<Self, InputError> {
        let parts: LineFields<'a> = object(line, "the line", None)?;
        let custom_id = text(needed(parts.custom_id, "custom_id")?, "custom_id")?;
        let letters = custom_id.chars().count();
        if !(1..=CUSTOM_ID_MAX).contains(&letters) {
            let text = format!("'custom_id' has {letters} letters: 1 to {CUSTOM_ID_MAX} are good");
            return Err(invalid("custom_id", text));
        }
        let method = text(needed(parts.method, "method")?, "method")?;
        if method != "POST" {
            return Err(invalid("method", format!("'method' is {method:?}: it must be \"POST\"")));
        }
        let url = text(needed(parts.url, "url")?, "url")?;
        let body = needed(parts.body, "body")?.get();
        // The body is a slice of the line, so the difference of the addresses is its offset.
        let at = (body.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        Ok(Self { custom_id, url, body, at })
    }

    /// The model of the request. The body must name a model and must not ask for a stream.
    pub fn model(&self) -> Result<Cow<'a, str>, InputError> {
        let asked: BodyFields<'a> = object(self.body, "'body'", Some("body"))?;
        // The gateway would refuse the request, when the batch has begun.
        ingress::check(self.body.as_bytes()).map_err(|fault| invalid("body", fault.message()))?;
        if asked.stream.is_some_and(|stream| stream.get() == "true") {
            let text = "'stream' is true: a batch has no one to stream to, leave it out";
            return Err(invalid("body.stream", text));
        }
        let model = text(needed(asked.model, "body.model")?, "body.model")?;
        let fits = (1..=NAME_MAX).contains(&model.len()) && !model.contains(char::is_control);
        if fits { Ok(model) } else { Err(invalid("body.model", "'model' is no model's name")) }
    }
}

/// Parses the fields of an object.
fn object<'a, T: Deserialize<'a>>(
    text: &'a str,
    what: &str,
    param: Option<&'static str>,
) -> Result<T, InputError> {
    let wrong = |why: String| InputError::new("invalid_json_line", why, param);
    if !text.trim_ascii_start().starts_with('{') {
        return Err(wrong(format!("{what} is not a JSON object")));
    }
    serde_json::from_str(text).map_err(|error| {
        let (said, column) = (error.to_string(), error.column());
        // serde counts lines too, but this is a single line.
        let why = said.split(" at line ").next().unwrap_or_default();
        wrong(format!("{what} is not a JSON object: {why} at column {column}"))
    })
}

fn needed<'a>(part: Option<&'a RawValue>, name: &'static str) -> Result<&'a RawValue, InputError> {
    part.ok_or_else(|| {
        InputError::new("missing_required_parameter", format!("'{name}' is missing"), Some(name))
    })
}

fn text<'a>(part: &'a RawValue, name: &'static str) -> Result<Cow<'a, str>, InputError> {
    let text: Result<JsonString<'a>, _> = serde_json::from_str(part.get());
    text.map(|text| text.0).map_err(|_| invalid(name, format!("'{name}' is not a string")))
}

fn invalid(name: &'static str, message: impl Into<String>) -> InputError {
    InputError::new("invalid_value", message, Some(name))
}
