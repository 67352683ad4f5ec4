//! One line as a request.

use std::borrow::Cow;

use flow::identity::NAME_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Flaw;

/// The longest name that a request may be given, in letters.
const CUSTOM_ID_MAX: usize = 512;

/// What a line asks for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What its sender knows it by.
    pub custom_id: Cow<'a, str>,
    /// The path it goes to.
    pub url: Cow<'a, str>,
    /// The body as it stands there.
    pub body: &'a str,
    /// Where in the line the body begins.
    pub at: usize,
}

/// A line's own parts, each as it is written: what is wrong with one is said of that one.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    custom_id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    url: Option<&'a RawValue>,
    body: Option<&'a RawValue>,
}

/// Those parts of a body that matter here.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl Request ===

impl<'a> Request<'a> {
    /// Reads a line.
    pub fn read(line: &'a str) -> Result<Self, Flaw> {
        let parts: Parts<'a> = object(line, "the line", None)?;
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
        // Both are parts of the same line, so the difference is the place in it.
        let at = (body.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        Ok(Self { custom_id, url, body, at })
    }

    /// The model it asks for. It must ask for one, and not for a stream.
    pub fn model(&self) -> Result<Cow<'a, str>, Flaw> {
        let asked: Asked<'a> = object(self.body, "'body'", Some("body"))?;
        if asked.stream.is_some_and(|stream| stream.get() == "true") {
            let text = "'stream' is true: a batch has no one to stream to, leave it out";
            return Err(invalid("body.stream", text));
        }
        let model = text(needed(asked.model, "body.model")?, "body.model")?;
        let fits = (1..=NAME_MAX).contains(&model.len()) && !model.contains(char::is_control);
        if fits { Ok(model) } else { Err(invalid("body.model", "'model' is no model's name")) }
    }
}

/// An object's parts.
fn object<'a, T: Deserialize<'a>>(
    text: &'a str,
    what: &str,
    param: Option<&'static str>,
) -> Result<T, Flaw> {
    let wrong = |why: String| Flaw::new("invalid_json_line", why, param);
    if !text.trim_ascii_start().starts_with('{') {
        return Err(wrong(format!("{what} is not a JSON object")));
    }
    serde_json::from_str(text).map_err(|error| {
        let (said, column) = (error.to_string(), error.column());
        // It counts lines too, from the beginning of this one.
        let why = said.split(" at line ").next().unwrap_or_default();
        wrong(format!("{what} is not a JSON object: {why} at column {column}"))
    })
}

fn needed<'a>(part: Option<&'a RawValue>, name: &'static str) -> Result<&'a RawValue, Flaw> {
    part.ok_or_else(|| {
        Flaw::new("missing_required_parameter", format!("'{name}' is missing"), Some(name))
    })
}

fn text<'a>(part: &'a RawValue, name: &'static str) -> Result<Cow<'a, str>, Flaw> {
    let text: Result<Text<'a>, _> = serde_json::from_str(part.get());
    text.map(|text| text.0).map_err(|_| invalid(name, format!("'{name}' is not a string")))
}

fn invalid(name: &'static str, message: impl Into<String>) -> Flaw {
    Flaw::new("invalid_value", message, Some(name))
}
