//! What a JSON body asks for, read in one pass without building it.
//!
//! Only what decisions need is kept. The rest is walked over, which checks that it is JSON and that
//! it nests no deeper than 128: a body that would trouble the parsers behind ends here.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::weight::{Weigh, Weight};
use crate::reply::Fault;

/// What a JSON body says.
#[derive(Debug, Default)]
pub(super) struct Peek<'a> {
    /// The model's name as it stands there; how often there is one.
    model: Option<&'a RawValue>,
    models: u32,
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

/// The keys of a body that are looked at.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Model,
    Stream,
    #[serde(alias = "max_completion_tokens", alias = "max_output_tokens", alias = "n_predict")]
    MaxTokens,
    N,
    Options,
    #[serde(alias = "prompt", alias = "input", alias = "system", alias = "instructions")]
    #[serde(alias = "tools", alias = "functions", alias = "images", alias = "suffix")]
    #[serde(alias = "query", alias = "documents")]
    Messages,
    User,
    Session,
    #[serde(rename = "prompt_cache_key")]
    Cached,
    #[serde(other)]
    Other,
}

/// The keys of Ollama's `options` that are looked at.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum OptionKey {
    NumPredict,
    #[serde(other)]
    Other,
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

struct Object;
struct OptionsObject;
struct AnySmall;

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
    let mut parser = serde_json::Deserializer::from_str(text);
    let peek = parser.deserialize_map(Object).and_then(|peek| parser.end().map(|()| peek));
    let peek = peek.or_else(|error| {
        let mut complaint = error.to_string();
        complaint.truncate(complaint.floor_char_boundary(COMPLAINT_MAX));
        wrong(&format!("The body is not a JSON object that can be read: {complaint}."))
    })?;
    if peek.models > 1 {
        return Err(Fault::InvalidModel("The body names 'model' twice: name it once.".into()));
    }
    Ok(peek)
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
    /// The model that `body`, which this was read from, names.
    pub(super) fn model(&self, body: &[u8]) -> Result<Option<Named<'a>>, Fault> {
        let Some(raw) = self.model.map(RawValue::get) else { return Ok(None) };
        let start = (raw.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
        let name = match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            Some(_) => serde_json::from_str(raw).ok().map(Cow::Owned),
            None => None,
        };
        let Some(name) = name else {
            return Err(Fault::InvalidModel("'model' must be a string.".into()));
        };
        Ok(Some(Named { name, place: start..start + raw.len(), form: Form::Json }))
    }

    fn limit(&mut self, said: Small) {
        self.output = self.output.into_iter().chain(said.number()).min();
    }

    fn take<A: MapAccess<'a>>(&mut self, key: Key, body: &mut A) -> Result<(), A::Error> {
        match key {
            Key::Model => {
                self.model = Some(body.next_value()?);
                self.models += 1;
            }
            Key::Stream => self.stream = small(body)?.truth(),
            Key::MaxTokens => self.limit(small(body)?),
            Key::N => self.n = small(body)?.number(),
            Key::Options => {
                let limit = body.next_value_seed(OptionsObject)?;
                self.limit(limit);
            }
            Key::Messages => body.next_value_seed(Weigh(&mut self.weight))?,
            Key::User => self.session.user = small(body)?.text(),
            Key::Session => self.session.session = small(body)?.text(),
            Key::Cached => self.session.cache_key = small(body)?.text(),
            Key::Other => body.next_value_seed(Weigh(&mut Weight::default()))?,
        }
        Ok(())
    }
}

fn small<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Small, A::Error> {
    map.next_value_seed(AnySmall)
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

// === impl Object ===

impl<'de> Visitor<'de> for Object {
    type Value = Peek<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut body: A) -> Result<Peek<'de>, A::Error> {
        let mut peek = Peek::default();
        while let Some(key) = body.next_key()? {
            peek.take(key, &mut body)?;
        }
        Ok(peek)
    }
}

// === impl AnySmall ===

impl<'de> DeserializeSeed<'de> for AnySmall {
    type Value = Small;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Small, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnySmall {
    type Value = Small;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Small, E> {
        Ok(Small::Other)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Small, E> {
        Ok(Small::Truth(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Small, E> {
        Ok(Small::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Small, E> {
        // Negative: it stands for no limit where it stands for anything.
        Ok(Small::Other)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Small, E> {
        Ok(if number < 0.0 { Small::Other } else { Small::Number(number as u64) })
    }

    fn visit_str<E>(self, text: &str) -> Result<Small, E> {
        Ok(if text.is_empty() { Small::Other } else { Small::Text(hash(text)) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Small, A::Error> {
        Weigh(&mut Weight::default()).visit_seq(items).map(|()| Small::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Small, A::Error> {
        Weigh(&mut Weight::default()).visit_map(entries).map(|()| Small::Other)
    }
}

// === impl OptionsObject ===

impl<'de> DeserializeSeed<'de> for OptionsObject {
    type Value = Small;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Small, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OptionsObject {
    type Value = Small;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`options` as an object")
    }

    fn visit_unit<E>(self) -> Result<Small, E> {
        Ok(Small::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut options: A) -> Result<Small, A::Error> {
        let mut limit = Small::Other;
        while let Some(key) = options.next_key()? {
            match key {
                OptionKey::NumPredict => limit = small(&mut options)?,
                OptionKey::Other => options.next_value_seed(Weigh(&mut Weight::default()))?,
            }
        }
        Ok(limit)
    }
}
