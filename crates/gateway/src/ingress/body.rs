//! What a JSON body asks for, read in one pass without building it.
//!
//! Only what decisions need is kept. The rest is walked over, which checks that it is JSON and that
//! it nests no deeper than others take it: a body that would trouble the parsers behind ends here.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::walk::{DEPTH_MAX, Odd, Text, Value, Walk};
use super::weight::Weight;
use crate::reply::Fault;

/// What a JSON body says.
#[derive(Debug, Default)]
pub(super) struct Peek<'a> {
    model: Model<'a>,
    pub(super) stream: Option<bool>,
    /// The most tokens that the answer may have.
    pub(super) output: Option<u64>,
    /// How many answers.
    pub(super) n: Option<u64>,
    pub(super) weight: Weight,
    pub(super) session: Sessions,
}

/// Hashes of what may name a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sessions {
    pub(super) cache_key: Option<u64>,
    pub(super) session: Option<u64>,
    pub(super) user: Option<u64>,
}

/// A model's name and where it stands in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) place: Range<usize>,
    pub(super) form: Form,
}

/// How a name is written where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Plain,
}

/// What a body names as its model.
#[derive(Debug, Default)]
enum Model<'a> {
    #[default]
    None,
    Text(Text<'a>),
    NotText,
    Twice,
}

/// A value from which one small thing is wanted; of any other type it is the backend's to refuse.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Small {
    Truth(bool),
    Number(u64),
    /// The hash of a string.
    Text(u64),
    Other,
}

/// The longest part of a parser's complaint that is shown: it may quote the body.
const COMPLAINT_MAX: usize = 200;

/// Reads a body.
pub(super) fn peek(body: &[u8]) -> Result<Peek<'_>, Fault> {
    if body.is_empty() {
        return wrong("The body is empty: send a JSON object.");
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return wrong("The body is not UTF-8: send JSON in UTF-8.");
    };
    let peek = read(text).or_else(|odd| wrong(&complaint(odd, text)))?;
    if matches!(peek.model, Model::Twice) {
        return Err(Fault::InvalidModel("The body names 'model' twice: name it once.".into()));
    }
    Ok(peek)
}

fn read(text: &str) -> Result<Peek<'_>, Odd> {
    let mut walk = Walk::new(text);
    let mut peek = Peek::default();
    let Value::Object(mut object) = walk.value()? else { return Err(Odd::NotAnObject) };
    while let Some(key) = walk.key(&mut object)? {
        peek.take(&key.read().unwrap_or_default(), &mut walk)?;
    }
    walk.end()?;
    Ok(peek)
}

/// What is wrong with a body, and where: for that a parser is asked that keeps account of lines.
fn complaint(odd: Odd, text: &str) -> String {
    let mut complaint = match (odd, serde_json::from_str::<IgnoredAny>(text)) {
        (_, Err(error)) => error.to_string(),
        (Odd::TooDeep, _) => format!("it nests deeper than {DEPTH_MAX}"),
        (Odd::NotAnObject, _) => "an object was expected".to_owned(),
        (Odd::Syntax, _) => "a text has half a letter, or a number is too large".to_owned(),
    };
    complaint.truncate(complaint.floor_char_boundary(COMPLAINT_MAX));
    format!("The body is not a JSON object that can be read: {complaint}.")
}

fn wrong<T>(text: &str) -> Result<T, Fault> {
    Err(Fault::InvalidRequest(text.into()))
}

/// FNV-1a: short, and the same on every machine, so that all gateways send a conversation to the
/// same place.
pub(super) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

// === impl Peek ===

impl<'a> Peek<'a> {
    /// The model that is named.
    pub(super) fn model(&self) -> Result<Option<Named<'a>>, Fault> {
        let text = match &self.model {
            Model::None => return Ok(None),
            Model::Text(text) => text.read().map(|name| (name, text.place())),
            Model::NotText | Model::Twice => None,
        };
        let Some((name, place)) = text else {
            return Err(Fault::InvalidModel("'model' must be a string.".into()));
        };
        Ok(Some(Named { name, place, form: Form::Json }))
    }

    fn limit(&mut self, said: Small) {
        self.output = self.output.into_iter().chain(said.number()).min();
    }

    /// Takes the value of a key.
    fn take(&mut self, key: &str, walk: &mut Walk<'a>) -> Result<(), Odd> {
        match key {
            "model" => self.name(walk)?,
            "stream" => self.stream = small(walk)?.truth(),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" | "n_predict" => {
                self.limit(small(walk)?);
            }
            "n" => self.n = small(walk)?.number(),
            "options" => self.take_options(walk)?,
            "messages" | "prompt" | "input" | "system" | "instructions" | "tools" | "functions"
            | "images" | "suffix" | "query" | "documents" => self.weight.add(walk)?,
            "user" => self.session.user = small(walk)?.text(),
            "session" => self.session.session = small(walk)?.text(),
            "prompt_cache_key" => self.session.cache_key = small(walk)?.text(),
            _ => Weight::default().add(walk)?,
        }
        Ok(())
    }

    fn name(&mut self, walk: &mut Walk<'a>) -> Result<(), Odd> {
        let model = match walk.value()? {
            Value::Text(text) => Model::Text(text),
            value => {
                Weight::default().add_value(value, walk)?;
                Model::NotText
            }
        };
        self.model = if matches!(self.model, Model::None) { model } else { Model::Twice };
        Ok(())
    }

    /// Ollama's `options`.
    fn take_options(&mut self, walk: &mut Walk<'a>) -> Result<(), Odd> {
        let mut options = match walk.value()? {
            Value::Object(options) => options,
            Value::Null => return Ok(()),
            _ => return Err(Odd::NotAnObject),
        };
        let mut limit = Small::Other;
        while let Some(key) = walk.key(&mut options)? {
            match key.read().as_deref() {
                Some("num_predict") => limit = small(walk)?,
                _ => Weight::default().add(walk)?,
            }
        }
        self.limit(limit);
        Ok(())
    }
}

/// The next value, if it is a small one.
fn small(walk: &mut Walk<'_>) -> Result<Small, Odd> {
    Ok(match walk.value()? {
        Value::Truth(truth) => Small::Truth(truth),
        Value::Number(number) => Small::of(number),
        Value::Text(text) => match text.sound()?.read() {
            Some(text) if !text.is_empty() => Small::Text(hash(&text)),
            _ => Small::Other,
        },
        value => {
            Weight::default().add_value(value, walk)?;
            Small::Other
        }
    })
}

// === impl Named ===

impl Named<'_> {
    /// The body with another name in this one's place and every other byte as it was.
    pub(super) fn replaced(&self, body: &[u8], name: &str) -> Option<Bytes> {
        let name = match self.form {
            Form::Json => Cow::Owned(serde_json::to_string(name).ok()?),
            Form::Plain => Cow::Borrowed(name),
        };
        let (before, after) = (body.get(..self.place.start)?, body.get(self.place.end..)?);
        Some([before, name.as_bytes(), after].concat().into())
    }
}

// === impl Sessions ===

impl Sessions {
    /// The hash of what names the conversation best; a header stands before the user.
    pub(super) fn best(self, header: Option<&str>) -> Option<u64> {
        let header = header.filter(|text| !text.is_empty()).map(hash);
        self.cache_key.or(self.session).or(header).or(self.user)
    }
}

// === impl Small ===

impl Small {
    fn of(number: &str) -> Self {
        let whole = number.parse().ok();
        // A negative number stands for no limit where it stands for anything.
        let float = || number.parse().ok().filter(|&number: &f64| number >= 0.0);
        let number = whole.or_else(|| float().map(|number| number as u64));
        number.map_or(Self::Other, Self::Number)
    }

    fn truth(self) -> Option<bool> {
        if let Self::Truth(truth) = self { Some(truth) } else { None }
    }

    fn number(self) -> Option<u64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    fn text(self) -> Option<u64> {
        if let Self::Text(hash) = self { Some(hash) } else { None }
    }
}
