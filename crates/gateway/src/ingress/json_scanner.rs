//! A walk over JSON text: one pass, nothing built, every byte checked.
//!
//! Prompts are long, and all that is wanted of most of a body is that it is JSON and how much text
//! it holds. A string is leapt over with the processor's wide instructions, which a general parser
//! does not do: three instructions for each byte of a prompt become less than one. What is
//! accepted is exactly what serde_json accepts; a test holds it to that.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

/// How deep values may nest, the outermost included.
pub(super) const DEPTH_MAX: u32 = 127;

/// A number of fewer digits is never too large for a float.
const DIGITS_MAX: usize = 300;

/// Strings up to this length are walked byte by byte.
const SHORT: usize = 16;

/// Where the walk has come to.
#[derive(Debug)]
pub(super) struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// The next value; of an object or a list only its beginning.
#[derive(Debug)]
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    String(JsonString<'a>),
    Array(Container),
    Object(Container),
}

/// How far an object or a list has been walked.
#[derive(Debug)]
pub(super) struct Container {
    begun: bool,
}

/// A string.
#[derive(Debug)]
pub(super) struct JsonString<'a> {
    /// Where it stands, and how, with its quotes.
    start: usize,
    quoted: &'a str,
    /// How many bytes it has when it is read.
    length: usize,
    /// How many bytes stand before its first escape.
    plain: usize,
    /// Whether every half of a pair has its other half.
    whole: bool,
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanError {
    /// It is not JSON.
    Syntax,
    TooDeep,
    /// It is JSON, but not what was asked for.
    NotAnObject,
}

type ScanResult<T> = Result<T, ScanError>;

// === impl JsonScanner ===

impl<'a> JsonScanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The next value.
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

    /// The next key of an object, behind which its value stands; nothing at its end.
    pub(super) fn key(&mut self, container: &mut Container) -> ScanResult<Option<JsonString<'a>>> {
        if !self.goes_on(container, b'}')? {
            return Ok(None);
        }
        if self.peek_byte() != Some(b'"') {
            return Err(ScanError::Syntax);
        }
        let key = self.string()?.checked()?;
        if self.peek_byte() != Some(b':') {
            return Err(ScanError::Syntax);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether a list has another item, which stands next.
    pub(super) fn item(&mut self, container: &mut Container) -> ScanResult<bool> {
        self.goes_on(container, b']')
    }

    /// Nothing but blanks may follow.
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

    /// The next byte that is not blank.
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
        let mut text = JsonString { start, quoted: "", length: plain, plain, whole: true };
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
        // Whatever is too large for a float is too large for the parsers behind.
        let plain = !exponent && number.len() < DIGITS_MAX;
        let fits = plain || number.parse().is_ok_and(f64::is_finite);
        if fits { Ok(number) } else { Err(ScanError::Syntax) }
    }
}

// === impl JsonString ===

impl<'a> JsonString<'a> {
    /// Where it stands in the text, with its quotes.
    pub(super) fn place(&self) -> Range<usize> {
        self.start..self.start + self.quoted.len()
    }

    /// How many bytes it has when it is read.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// What stands before its first escape, and the letter of that.
    pub(super) fn start(&self) -> (&'a str, Option<u8>) {
        let inner = &self.quoted[1..self.quoted.len() - 1];
        (&inner[..self.plain], inner.as_bytes().get(self.plain + 1).copied())
    }

    /// What it says; nothing if that is no text.
    pub(super) fn read(&self) -> Option<Cow<'a, str>> {
        match self.start() {
            (plain, None) => Some(Cow::Borrowed(plain)),
            _ => serde_json::from_str(self.quoted).ok().map(Cow::Owned),
        }
    }

    /// Only what is text.
    pub(super) fn checked(self) -> ScanResult<Self> {
        if self.whole { Ok(self) } else { Err(ScanError::Syntax) }
    }

    /// Takes note of the escape at the beginning of `rest`; says how long it is there.
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
            // The two halves of a letter.
            self.length += 4;
            return Ok(12);
        }
        self.whole = false;
        Ok(6)
    }
}

/// How many bytes of a string stand before its end or its next escape, whichever comes first.
fn plain_length(rest: &[u8]) -> ScanResult<usize> {
    // Keys and words are too short to be worth a leap.
    for (at, &byte) in rest.iter().take(SHORT).enumerate() {
        match byte {
            b'"' | b'\\' => return Ok(at),
            0..b' ' => return Err(ScanError::Syntax),
            _ => {}
        }
    }
    let length = memchr2(b'"', b'\\', rest).ok_or(ScanError::Syntax)?;
    // A fold looks at many bytes at once, which a search does not.
    let least = rest[..length].iter().fold(u8::MAX, |least, &byte| least.min(byte));
    if least < b' ' { Err(ScanError::Syntax) } else { Ok(length) }
}

/// The number of `\u0041` at the beginning of `rest`.
fn unit(rest: &[u8]) -> Option<u32> {
    let digits = rest.get(2..6)?.iter().map(|&digit| char::from(digit).to_digit(16));
    digits.reduce(|sum, digit| Some(sum? * 16 + digit?))?
}

/// The same, where `\u` may be missing.
fn unit_of_pair(rest: &[u8]) -> Option<u32> {
    rest.starts_with(b"\\u").then(|| unit(rest))?
}
