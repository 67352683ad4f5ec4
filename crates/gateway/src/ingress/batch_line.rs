//! A line of a batch: a request with its path and its body, read in one pass by the rules for
//! bodies. So no line has one meaning here and another one when its request is sent.

use std::borrow::Cow;
use std::ops::Range;

use super::body_key::{self, KeyProblem, LineKey, SeenKeys};
use super::json_body::{self, BodyFields};
use super::json_scanner::{JsonScanner, JsonValue, ScanError};
use super::prompt_size::{Place, PromptSize};
use crate::reply::Fault;

/// The fields of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchLine<'a> {
    pub(crate) custom_id: LineText<'a>,
    pub(crate) method: LineText<'a>,
    pub(crate) url: LineText<'a>,
    pub(crate) body: Option<LineBody<'a>>,
}

/// A field of text. One that is null is missing.
#[derive(Clone, Debug, Default)]
pub(crate) enum LineText<'a> {
    #[default]
    Missing,
    Text(Cow<'a, str>),
    Other,
}

/// The body of a line.
#[derive(Clone, Debug)]
pub(crate) struct LineBody<'a> {
    /// Where it stands in the line.
    pub(crate) place: Range<usize>,
    /// The model that it names, if that can be one.
    pub(crate) model: Result<Option<Cow<'a, str>>, Fault>,
    pub(crate) streams: bool,
}

/// Why a line, or the body in it, is no JSON object that all servers read alike.
#[derive(Clone, Debug)]
pub(crate) enum LineError {
    Line(String),
    Body(String),
}

// === impl BatchLine ===

impl<'a> BatchLine<'a> {
    /// Reads a line.
    pub(crate) fn read(text: &'a str) -> Result<Self, LineError> {
        let mut scanner = JsonScanner::new(text);
        let (mut line, mut in_body) = (Self::default(), false);
        match line.fill(text, &mut scanner, &mut in_body).and_then(|()| scanner.end()) {
            Ok(()) => Ok(line),
            Err(ScanError::Syntax) => {
                Err(LineError::Line(json_body::complaint(ScanError::Syntax, text)))
            }
            Err(error) if in_body => Err(LineError::Body(json_body::complaint(error, text))),
            Err(ScanError::Key(problem)) => Err(LineError::Line(of_key(problem))),
            Err(error) => Err(LineError::Line(json_body::complaint(error, text))),
        }
    }

    fn fill(
        &mut self,
        text: &'a str,
        scanner: &mut JsonScanner<'a>,
        in_body: &mut bool,
    ) -> Result<(), ScanError> {
        let JsonValue::Object(mut object) = scanner.value()? else {
            return Err(ScanError::NotAnObject);
        };
        let mut seen = SeenKeys::default();
        while let Some(key) = scanner.key(&mut object)? {
            let known = body_key::of_line(&key.read(), &mut seen).map_err(ScanError::Key)?;
            match known.map(|(key, _)| key) {
                Some(LineKey::CustomId) => self.custom_id = LineText::next(scanner)?,
                Some(LineKey::Method) => self.method = LineText::next(scanner)?,
                Some(LineKey::Url) => self.url = LineText::next(scanner)?,
                Some(LineKey::Body) => {
                    *in_body = true;
                    self.body = LineBody::next(text, scanner)?;
                    *in_body = false;
                }
                None => PromptSize::skip(scanner)?,
            }
        }
        Ok(())
    }
}

fn of_key(problem: KeyProblem) -> String {
    let key = problem.key();
    match problem {
        KeyProblem::Twice(_) => format!("it has '{key}' twice"),
        _ => format!("it has '{key}' in another spelling, which servers read differently"),
    }
}

// === impl LineText ===

impl<'a> LineText<'a> {
    fn next(scanner: &mut JsonScanner<'a>) -> Result<Self, ScanError> {
        Ok(match scanner.value()? {
            JsonValue::Null => Self::Missing,
            JsonValue::String(text) => Self::Text(text.read()),
            value => {
                PromptSize::default().add(Place::Text, value, scanner)?;
                Self::Other
            }
        })
    }
}

// === impl LineBody ===

impl<'a> LineBody<'a> {
    /// Reads the next value; `None` if it is null.
    fn next(text: &'a str, scanner: &mut JsonScanner<'a>) -> Result<Option<Self>, ScanError> {
        let rest = &text[scanner.position()..];
        let start = text.len() - rest.trim_ascii_start().len();
        if text[start..].starts_with("null") {
            scanner.value()?;
            return Ok(None);
        }
        let mut fields = BodyFields::default();
        fields.next(scanner)?;
        let named = fields.model().and_then(|named| named.map(super::checked).transpose());
        let model = named.map(|named| named.map(|named| named.name));
        let streams = fields.stream == Some(true);
        Ok(Some(Self { place: start..scanner.position(), model, streams }))
    }
}
