//! A JSON scanner: one pass, no tree, every byte checked.
//!
//! Prompts are long. For most of a body the gateway only needs to know that it is valid JSON and
//! how much text it holds. The scanner searches strings with SIMD instructions, which a general
//! parser does not do: it takes less than one instruction per byte of a prompt instead of three. It
//! accepts exactly what serde_json accepts, which a test checks. In no place does it accept half of
//! a surrogate pair, which each server replaces by something else. Decision 0024 has the
//! alternatives.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use super::body_key::KeyProblem;
use crate::short_text;

/// The deepest nesting, including the outermost value.
pub(super) const DEPTH_MAX: u32 = 127;

/// A number with fewer digits always fits a float.
const DIGITS_MAX: usize = 300;

/// The scanner and its position.
#[derive(Debug)]
pub(super) struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// The next value. For an object or an array only its start has been read.
#[derive(Debug)]
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    String(JsonString<'a>),
    Array(Container),
    Object(Container),
}

/// Whether the first item of an object or array has been read.
#[derive(Debug)]
pub(super) struct Container {
    begun: bool,
}

/// A string.
#[derive(Debug)]
pub(super) struct JsonString<'a> {
    /// The position, and the text with its quotes.
    start: usize,
    quoted: &'a str,
    /// The number of bytes after unescaping.
    length: usize,
    /// The number of bytes before the first escape.
    plain: usize,
}

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanError {
    /// The text is not JSON.
    Syntax,
    TooDeep,
    /// The text is JSON of another type.
    NotAnObject,
    /// The text is JSON with a key that servers read differently.
    Key(KeyProblem),
}

type ScanResult<T> = Result<T, ScanError>;

// === impl JsonScanner ===

impl<'a> JsonScanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Reads the next value.
    pub(super) fn value(&mut self) -> ScanResult<JsonValue<'a>> {
        match self.peek_byte() {
            Some(b'"') => Ok(JsonValue::String(self.string()?)),
            Some(b'{') => Ok(JsonValue::Object(self.enter()?)),
            Some(b'[') => Ok(JsonValue::Array(self.enter()?)),
            Some(b'-' | b'0'..=b'9') => Ok(JsonValue::Number(self.number()?)),
            Some(b't') => self.literal("true").map(|()| JsonValue::Bool(true)),
            Some(b'f') => self.literal("false").map(|()| JsonValue::Bool(false)),
            Some(b'n') => self.literal("null").map(|()| JsonValue::Null),
            _ => Err(ScanError::Syntax),
        }
    }

    /// Reads the next key of an object; its value follows. `None` at the end of the object.
    pub(super) fn key(&mut self, container: &mut Container) -> ScanResult<Option<JsonString<'a>>> {
        if !self.goes_on(container, b'}')? {
            return Ok(None);
        }
        if self.peek_byte() != Some(b'"') {
            return Err(ScanError::Syntax);
        }
        let key = self.string()?;
        if self.peek_byte() != Some(b':') {
            return Err(ScanError::Syntax);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether an array has another item, which follows.
    pub(super) fn item(&mut self, container: &mut Container) -> ScanResult<bool> {
        self.goes_on(container, b']')
    }

    /// The position of what is read next.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Checks that only whitespace follows.
    pub(super) fn end(mut self) -> ScanResult<()> {
        if self.peek_byte().is_none() { Ok(()) } else { Err(ScanError::Syntax) }
    }

    fn enter(&mut self) -> ScanResult<Container> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            Err(ScanError::TooDeep)
        } else {
            Ok(Container { begun: false })
        }
    }

    fn goes_on(&mut self, container: &mut Container, close: u8) -> ScanResult<bool> {
        let next = self.peek_byte().ok_or(ScanError::Syntax)?;
        if next == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if std::mem::replace(&mut container.begun, true) {
            if next != b',' {
                return Err(ScanError::Syntax);
            }
            self.at += 1;
        }
        Ok(true)
    }

    /// The next byte that is not whitespace.
    fn peek_byte(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                byte => return byte.copied(),
            }
        }
    }

    fn literal(&mut self, word: &str) -> ScanResult<()> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += word.len();
        if rest.starts_with(word.as_bytes()) { Ok(()) } else { Err(ScanError::Syntax) }
    }

    fn string(&mut self) -> ScanResult<JsonString<'a>> {
        let start = self.at;
        let plain = plain_length(&self.text.as_bytes()[start + 1..])?;
        let mut text = JsonString { start, quoted: "", length: plain, plain };
        self.at = start + 1 + plain;
        while self.text.as_bytes()[self.at] != b'"' {
            let rest = &self.text.as_bytes()[self.at..];
            let escape = text.skip_escape(rest)?;
            let plain = plain_length(rest.get(escape..).ok_or(ScanError::Syntax)?)?;
            text.length += plain;
            self.at += escape + plain;
        }
        self.at += 1;
        text.quoted = self.text.get(start..self.at).ok_or(ScanError::Syntax)?;
        Ok(text)
    }

    fn number(&mut self) -> ScanResult<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start + usize::from(bytes[start] == b'-');
        let digits = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let whole = digits(at);
        if whole == at || (whole > at + 1 && bytes[at] == b'0') {
            return Err(ScanError::Syntax);
        }
        at = whole;
        if bytes.get(at) == Some(&b'.') {
            let end = digits(at + 1);
            if end == at + 1 {
                return Err(ScanError::Syntax);
            }
            at = end;
        }
        let exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
        if exponent {
            let sign = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
            let first = at + 1 + usize::from(sign);
            at = digits(first);
            if at == first {
                return Err(ScanError::Syntax);
            }
        }
        self.at = at;
        let number = &self.text[start..at];
        // The parser of a backend would refuse a number that does not fit a float.
        let plain = !exponent && number.len() < DIGITS_MAX;
        let fits = plain || number.parse().is_ok_and(f64::is_finite);
        if fits { Ok(number) } else { Err(ScanError::Syntax) }
    }
}

// === impl JsonString ===

impl<'a> JsonString<'a> {
    /// The position of the string, with its quotes.
    pub(super) fn place(&self) -> Range<usize> {
        self.start..self.start + self.quoted.len()
    }

    /// The number of bytes after unescaping.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The part before the first escape, and the letter of that escape.
    pub(super) fn start(&self) -> (&'a str, Option<u8>) {
        let inner = &self.quoted[1..self.quoted.len() - 1];
        (&inner[..self.plain], inner.as_bytes().get(self.plain + 1).copied())
    }

    /// The unescaped string.
    pub(super) fn read(&self) -> Cow<'a, str> {
        match self.start() {
            (plain, None) => Cow::Borrowed(plain),
            // The scanner has checked it.
            _ => Cow::Owned(serde_json::from_str(self.quoted).unwrap_or_default()),
        }
    }

    /// Reads the escape at the start of `rest` and returns its length.
    fn skip_escape(&mut self, rest: &[u8]) -> ScanResult<usize> {
        let unit = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.length += 1;
                return Ok(2);
            }
            Some(b'u') => unit(rest).ok_or(ScanError::Syntax)?,
            _ => return Err(ScanError::Syntax),
        };
        if let Some(letter) = char::from_u32(unit) {
            self.length += letter.len_utf8();
            return Ok(6);
        }
        let second = rest.get(6..).and_then(unit_of_pair);
        if unit < 0xDC00 && second.is_some_and(|second| (0xDC00..0xE000).contains(&second)) {
            // A surrogate pair.
            self.length += 4;
            return Ok(12);
        }
        Err(ScanError::Syntax)
    }
}

/// The number of bytes before the end of the string or the next escape.
fn plain_length(rest: &[u8]) -> ScanResult<usize> {
    let marks = |word| short_text::ends(word) | short_text::controls(word);
    if let Some(at) = short_text::find(rest, marks) {
        return if rest[at] < b' ' { Err(ScanError::Syntax) } else { Ok(at) };
    }
    let length = memchr2(b'"', b'\\', rest).ok_or(ScanError::Syntax)?;
    // The compiler vectorises a fold, but not a search.
    let least = rest[..length].iter().fold(u8::MAX, |least, &byte| least.min(byte));
    if least < b' ' { Err(ScanError::Syntax) } else { Ok(length) }
}

/// The code unit of an escape such as `\u0041` at the start of `rest`.
fn unit(rest: &[u8]) -> Option<u32> {
    let digits = rest.get(2..6)?.iter().map(|&digit| char::from(digit).to_digit(16));
    digits.reduce(|sum, digit| Some(sum? * 16 + digit?))?
}

/// The same if `rest` starts with `\u`, else `None`.
fn unit_of_pair(rest: &[u8]) -> Option<u32> {
    rest.starts_with(b"\\u").then(|| unit(rest))?
}
