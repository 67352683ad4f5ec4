//! The fields of a JSON body that decisions need, read in one pass.
//!
//! All other values are skipped. Skipping them still checks that they are valid JSON and not nested
//! too deeply, so that a body that would harm the parser of a backend is refused here.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use flow::Band;
use serde::de::IgnoredAny;

use super::body_key::{self, BodyKey, KeyProblem, SeenKeys};
use super::body_prompts::BodyPrompts;
use super::json_scanner::{DEPTH_MAX, JsonScanner, JsonString, JsonValue, ScanError};
use super::prompt_size::{Place, PromptSize};
use super::prompt_text::PromptText;
use super::scalar::small;
use crate::band_alias;
use crate::reply::Fault;

/// The fields of a JSON body.
#[derive(Debug, Default)]
pub(super) struct BodyFields<'a> {
    model: ModelField<'a>,
    adapter: ModelField<'a>,
    /// Ollama's older field for the model.
    name: NameField<'a>,
    pub(super) stream: Option<bool>,
    /// Whether the response may be made in the background: servers take several values for true.
    pub(super) background: bool,
    /// The limit of output tokens. Where there are several, the largest: a server may ignore any
    /// of them.
    pub(super) output: Option<u64>,
    /// The number of choices that are generated.
    pub(super) choices: Option<u64>,
    pub(super) prompts: BodyPrompts,
    pub(super) prompt_text: PromptText,
    pub(super) session: SessionKeys,
    /// The band of OpenAI's `service_tier`.
    pub(super) tier: Option<Band>,
}

/// Hashes of the fields that may identify a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionKeys {
    pub(super) cache_key: Option<u64>,
    pub(super) session: Option<u64>,
    pub(super) user: Option<u64>,
}

/// The model name and its position in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelName<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) place: Range<usize>,
    pub(super) form: NameEncoding,
}

/// How the name is encoded at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameEncoding {
    Json,
    Plain,
}

/// The `model` field of a body, or another one that names a model. One that is null is none.
#[derive(Debug, Default)]
enum ModelField<'a> {
    #[default]
    None,
    Text(JsonString<'a>),
    NotText,
}

/// The `name` field of a body. Only descriptions of models need it, so a problem with it is told
/// there.
#[derive(Debug, Default)]
enum NameField<'a> {
    #[default]
    None,
    Text(JsonString<'a>),
    Unclear(KeyProblem),
}

/// The most bytes of a parser's message that are shown, because it may quote the body.
const COMPLAINT_MAX: usize = 200;

/// Parses a body.
pub(super) fn parse(body: &[u8]) -> Result<BodyFields<'_>, Fault> {
    let mut fields = BodyFields::default();
    fields.parse(body)?;
    Ok(fields)
}

/// Whether a server may read a body as a JSON object, in UTF-8, UTF-16 or UTF-32, behind a mark of
/// the encoding or white space.
pub(super) fn begins_object(body: &[u8]) -> bool {
    const PASSED_OVER: &[u8] = b" \t\r\n\0\xEF\xBB\xBF\xFE\xFF";
    body.iter().find(|byte| !PASSED_OVER.contains(byte)) == Some(&b'{')
}

/// The body with this model, whichever it named before.
pub(super) fn with_model(body: Bytes, name: &str) -> Result<Bytes, Fault> {
    match parse(&body)?.model()? {
        Some(named) if named.name == name => {}
        Some(named) => return named.replaced(&body, name).ok_or(Fault::Internal),
        None => return inserted(&body, name).ok_or(Fault::Internal),
    }
    Ok(body)
}

/// A body that names no model, with one as its first field.
fn inserted(body: &[u8], name: &str) -> Option<Bytes> {
    let start = body.iter().position(|&byte| byte == b'{')? + 1;
    let (before, after) = body.split_at_checked(start)?;
    let is_empty = after.trim_ascii_start().starts_with(b"}");
    let comma: &[u8] = if is_empty { b"" } else { b"," };
    let name = serde_json::to_string(name).ok()?;
    Some([before, b"\"model\":", name.as_bytes(), comma, after].concat().into())
}

/// Why a text is refused. serde_json parses it again to find the position.
pub(super) fn complaint(error: ScanError, text: &str) -> String {
    let mut complaint = match (error, serde_json::from_str::<IgnoredAny>(text)) {
        (_, Err(error)) => error.to_string(),
        (ScanError::TooDeep, _) => format!("it nests deeper than {DEPTH_MAX}"),
        (ScanError::NotAnObject, _) => "an object was expected".to_owned(),
        (ScanError::Key(problem), _) => problem.to_string(),
        (ScanError::Syntax, _) => "a text has half a letter, or a number is too large".to_owned(),
    };
    complaint.truncate(complaint.floor_char_boundary(COMPLAINT_MAX));
    complaint
}

fn wrong<T>(text: &str) -> Result<T, Fault> {
    Err(Fault::InvalidRequest(text.into()))
}

/// FNV-1a. It is short, and gives the same hash on every machine, so that all gateways send a
/// session to the same backend.
pub(super) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

// === impl BodyFields ===

impl<'a> BodyFields<'a> {
    /// Reads a body.
    pub(super) fn parse(&mut self, body: &'a [u8]) -> Result<(), Fault> {
        if body.is_empty() {
            return wrong("The body is empty: send a JSON object.");
        }
        // Of a long prompt, the check that it is UTF-8 is a third of the work.
        let Ok(text) = simdutf8::basic::from_utf8(body) else {
            return wrong("The body is not UTF-8: send JSON in UTF-8.");
        };
        let mut scanner = JsonScanner::new(text);
        match self.next(&mut scanner).and_then(|()| scanner.end()) {
            Ok(()) => Ok(()),
            Err(ScanError::Key(problem)) => Err(problem.into()),
            Err(error) => {
                let why = complaint(error, text);
                wrong(&format!("The body is not a JSON object that can be read: {why}."))
            }
        }
    }

    /// Reads the next value of a scanner, which must be an object.
    pub(super) fn next(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), ScanError> {
        let JsonValue::Object(mut object) = scanner.value()? else {
            return Err(ScanError::NotAnObject);
        };
        let mut seen = SeenKeys::default();
        while let Some(key) = scanner.key(&mut object)? {
            self.take(&key.read(), &mut seen, scanner)?;
        }
        Ok(())
    }

    /// The model that the body names.
    pub(super) fn model(&self) -> Result<Option<ModelName<'a>>, Fault> {
        match &self.model {
            ModelField::None => Ok(None),
            ModelField::Text(text) => Ok(Some(ModelName::of(text))),
            ModelField::NotText => Err(Fault::InvalidModel("'model' must be a string.".into())),
        }
    }

    /// The adapter that the model is to have; empty if it may be any.
    pub(super) fn adapter(&self) -> Option<Cow<'a, str>> {
        match &self.adapter {
            ModelField::None => None,
            ModelField::Text(text) => Some(text.read()),
            ModelField::NotText => Some(Cow::Borrowed("")),
        }
    }

    /// The model that Ollama should describe. Older clients give it as `name`, and leave `model`
    /// out or empty.
    pub(super) fn described_model(&self) -> Result<Option<ModelName<'a>>, Fault> {
        let model = self.model()?;
        let older = match &self.name {
            NameField::None => None,
            NameField::Text(text) => Some(ModelName::of(text)),
            NameField::Unclear(problem) => return Err(Fault::InvalidModel(problem.to_string())),
        };
        let is_named = |name: &str| !name.is_empty();
        match (model, older) {
            (Some(model), Some(older))
                if is_named(&model.name) && is_named(&older.name) && model.name != older.name =>
            {
                let text =
                    "The body names one model as 'model' and another one as 'name': name one.";
                Err(Fault::InvalidModel(text.into()))
            }
            (Some(model), _) if is_named(&model.name) => Ok(Some(model)),
            (model, older) => Ok(older.or(model)),
        }
    }

    /// Reads a key and its value.
    fn take(
        &mut self,
        key: &str,
        seen: &mut SeenKeys,
        scanner: &mut JsonScanner<'a>,
    ) -> Result<(), ScanError> {
        let (key, name) = match body_key::of_body(key, seen) {
            Ok(Some(known)) => known,
            Ok(None) => return self.prompts.add_unknown(key, scanner),
            Err(problem) if problem.key() == "name" => {
                self.name = NameField::Unclear(problem);
                return PromptSize::skip(scanner);
            }
            Err(problem) => return Err(ScanError::Key(problem)),
        };
        match key {
            BodyKey::Model => self.model = ModelField::next(scanner)?,
            BodyKey::Adapter => self.adapter = ModelField::next(scanner)?,
            BodyKey::Name => self.take_name(scanner)?,
            BodyKey::Stream => self.stream = small(scanner)?.bool_value(name)?,
            BodyKey::Background => self.background |= !is_off(scanner)?,
            BodyKey::OutputLimit => self.output = self.output.max(small(scanner)?.number(name)?),
            BodyKey::Choices => self.choices = self.choices.max(small(scanner)?.number(name)?),
            BodyKey::Options => self.take_options(scanner)?,
            BodyKey::Prompt => {
                let start = scanner.position();
                self.prompts.add(name, scanner)?;
                self.prompt_text.note(name, start..scanner.position());
            }
            BodyKey::CacheSalt => self.prompt_text.salt = small(scanner)?.text(),
            BodyKey::User => self.session.user = small(scanner)?.text(),
            BodyKey::Session => self.session.session = small(scanner)?.text(),
            BodyKey::ServiceTier => self.tier = tier(scanner)?,
            BodyKey::PromptCacheKey => self.session.cache_key = small(scanner)?.text(),
        }
        Ok(())
    }

    fn take_name(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), ScanError> {
        match scanner.value()? {
            JsonValue::String(text) => {
                if !matches!(self.name, NameField::Unclear(_)) {
                    self.name = NameField::Text(text);
                }
            }
            value => PromptSize::default().add(Place::Text, value, scanner)?,
        }
        Ok(())
    }

    /// Reads Ollama's `options`.
    fn take_options(&mut self, scanner: &mut JsonScanner<'a>) -> Result<(), ScanError> {
        let mut options = match scanner.value()? {
            JsonValue::Object(options) => options,
            JsonValue::Null => return Ok(()),
            _ => return Err(ScanError::NotAnObject),
        };
        let mut seen = SeenKeys::default();
        while let Some(key) = scanner.key(&mut options)? {
            match body_key::of_options(&key.read(), &mut seen).map_err(ScanError::Key)? {
                Some((_, name)) => {
                    self.output = self.output.max(small(scanner)?.number(name)?);
                }
                None => PromptSize::skip(scanner)?,
            }
        }
        Ok(())
    }
}

/// Reads the next value. Whether no server takes it for true.
fn is_off(scanner: &mut JsonScanner<'_>) -> Result<bool, ScanError> {
    let value = scanner.value()?;
    let is_off = matches!(value, JsonValue::Null | JsonValue::Bool(false));
    PromptSize::default().add(Place::Text, value, scanner)?;
    Ok(is_off)
}

/// Reads the next value as a service tier.
fn tier(scanner: &mut JsonScanner<'_>) -> Result<Option<Band>, ScanError> {
    Ok(match scanner.value()? {
        JsonValue::String(text) => band_alias::service_tier(&text.read()),
        value => {
            PromptSize::default().add(Place::Text, value, scanner)?;
            None
        }
    })
}

// === impl ModelField ===

impl<'a> ModelField<'a> {
    fn next(scanner: &mut JsonScanner<'a>) -> Result<Self, ScanError> {
        Ok(match scanner.value()? {
            JsonValue::String(text) => Self::Text(text),
            JsonValue::Null => Self::None,
            value => {
                PromptSize::default().add(Place::Text, value, scanner)?;
                Self::NotText
            }
        })
    }
}

// === impl ModelName ===

impl<'a> ModelName<'a> {
    fn of(text: &JsonString<'a>) -> Self {
        Self { name: text.read(), place: text.place(), form: NameEncoding::Json }
    }

    /// The body with another model name. All other bytes stay the same.
    pub(super) fn replaced(&self, body: &[u8], name: &str) -> Option<Bytes> {
        let name = match self.form {
            NameEncoding::Json => Cow::Owned(serde_json::to_string(name).ok()?),
            NameEncoding::Plain => Cow::Borrowed(name),
        };
        let (before, after) = (body.get(..self.place.start)?, body.get(self.place.end..)?);
        Some([before, name.as_bytes(), after].concat().into())
    }
}

// === impl SessionKeys ===

impl SessionKeys {
    /// The hash of the best session key. The session header precedes `user`.
    pub(super) fn best(self, header: Option<&str>) -> Option<u64> {
        let header = header.filter(|text| !text.is_empty()).map(hash);
        self.cache_key.or(self.session).or(header).or(self.user)
    }
}

impl From<KeyProblem> for Fault {
    fn from(problem: KeyProblem) -> Self {
        let text = problem.to_string();
        match problem.key() {
            "model" => Self::InvalidModel(text),
            _ => Self::InvalidRequest(text),
        }
    }
}
