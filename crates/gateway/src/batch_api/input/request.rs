//! One line of an input file as a request, with an error that names the field.

use std::borrow::Cow;

use super::InputError;
use crate::ingress::{BatchLine, LineBody, LineError, LineText};

/// The longest `custom_id`, in characters.
const CUSTOM_ID_MAX: usize = 512;

/// The request of a line.
#[derive(Clone, Debug)]
pub struct RequestLine<'a> {
    /// The client's name of the request.
    pub custom_id: Cow<'a, str>,
    /// The path of the request.
    pub url: Cow<'a, str>,
    /// The body, and where it stands in the line.
    pub(super) body: LineBody<'a>,
}

// === impl RequestLine ===

impl<'a> RequestLine<'a> {
    /// Parses a line.
    pub fn read(line: &'a str) -> Result<Self, InputError> {
        let line = BatchLine::read(line).map_err(|error| match error {
            LineError::Line(why) => {
                malformed(format!("the line is not a JSON object: {why}"), None)
            }
            LineError::Body(why) => {
                malformed(format!("'body' cannot be read: {why}"), Some("body"))
            }
        })?;
        let custom_id = text(line.custom_id, "custom_id")?;
        let letters = custom_id.chars().count();
        if !(1..=CUSTOM_ID_MAX).contains(&letters) {
            let text = format!("'custom_id' has {letters} letters: 1 to {CUSTOM_ID_MAX} are good");
            return Err(invalid("custom_id", text));
        }
        let method = text(line.method, "method")?;
        if method != "POST" {
            return Err(invalid("method", format!("'method' is {method:?}: it must be \"POST\"")));
        }
        let url = text(line.url, "url")?;
        let body = line.body.ok_or_else(|| missing("body"))?;
        Ok(Self { custom_id, url, body })
    }

    /// The model of the request. The body must name a model and must not ask for a stream.
    pub fn model(&self) -> Result<Cow<'a, str>, InputError> {
        if self.body.streams {
            let text = "'stream' is true: a batch has no one to stream to, leave it out";
            return Err(invalid("body.stream", text));
        }
        match &self.body.model {
            Ok(Some(model)) => Ok(model.clone()),
            Ok(None) => Err(missing("body.model")),
            Err(fault) => Err(invalid("body.model", fault.message())),
        }
    }
}

fn text<'a>(field: LineText<'a>, name: &'static str) -> Result<Cow<'a, str>, InputError> {
    match field {
        LineText::Text(text) => Ok(text),
        LineText::Missing => Err(missing(name)),
        LineText::Other => Err(invalid(name, format!("'{name}' is not a string"))),
    }
}

fn malformed(why: String, param: Option<&'static str>) -> InputError {
    InputError::new("invalid_json_line", why, param)
}

fn missing(name: &'static str) -> InputError {
    InputError::new("missing_required_parameter", format!("'{name}' is missing"), Some(name))
}

fn invalid(name: &'static str, message: impl Into<String>) -> InputError {
    InputError::new("invalid_value", message, Some(name))
}
