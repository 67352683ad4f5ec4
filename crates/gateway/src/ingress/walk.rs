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
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// The next value; of an object or a list only its beginning.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Truth(bool),
    Number(&'a str),
    Text(Text<'a>),
    List(Inside),
    Object(Inside),
}

/// How far an object or a list has been walked.
#[derive(Debug)]
pub(super) struct Inside {
    begun: bool,
}

/// A string.
#[derive(Debug)]
pub(super) struct Text<'a> {
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
pub(super) enum Odd {
    /// It is not JSON.
    Syntax,
    TooDeep,
    /// It is JSON, but not what was asked for.
    NotAnObject,
}

type Walked<T> = Result<T, Odd>;

// === impl Walk ===

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Walked<Value<'a>> {
        match self.solid() {
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'{') => Ok(Value::Object(self.enter()?)),
            Some(b'[') => Ok(Value::List(self.enter()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b't') => self.word("true").map(|()| Value::Truth(true)),
            Some(b'f') => self.word("false").map(|()| Value::Truth(false)),
            Some(b'n') => self.word("null").map(|()| Value::Null),
            _ => Err(Odd::Syntax),
        }
    }

    /// The next key of an object, behind which its value stands; nothing at its end.
    pub(super) fn key(&mut self, inside: &mut Inside) -> Walked<Option<Text<'a>>> {
        if !self.goes_on(inside, b'}')? {
            return Ok(None);
        }
        if self.solid() != Some(b'"') {
            return Err(Odd::Syntax);
        }
        let key = self.string()?.sound()?;
        if self.solid() != Some(b':') {
            return Err(Odd::Syntax);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether a list has another item, which stands next.
    pub(super) fn item(&mut self, inside: &mut Inside) -> Walked<bool> {
        self.goes_on(inside, b']')
    }

    /// Nothing but blanks may follow.
    pub(super) fn end(mut self) -> Walked<()> {
        if self.solid().is_none() { Ok(()) } else { Err(Odd::Syntax) }
    }

    fn enter(&mut self) -> Walked<Inside> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Odd::TooDeep) } else { Ok(Inside { begun: false }) }
    }

    fn goes_on(&mut self, inside: &mut Inside, close: u8) -> Walked<bool> {
        let next = self.solid().ok_or(Odd::Syntax)?;
        if next == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if std::mem::replace(&mut inside.begun, true) {
            if next != b',' {
                return Err(Odd::Syntax);
            }
            self.at += 1;
        }
        Ok(true)
    }

    /// The next byte that is not blank.
    fn solid(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                byte => return byte.copied(),
            }
        }
    }

    fn word(&mut self, word: &str) -> Walked<()> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += word.len();
        if rest.starts_with(word.as_bytes()) { Ok(()) } else { Err(Odd::Syntax) }
    }

    fn string(&mut self) -> Walked<Text<'a>> {
        let start = self.at;
        let plain = plain_length(&self.text.as_bytes()[start + 1..])?;
        let mut text = Text { start, quoted: "", length: plain, plain, whole: true };
        self.at = start + 1 + plain;
        while self.text.as_bytes()[self.at] != b'"' {
            let rest = &self.text.as_bytes()[self.at..];
            let escape = text.unescape(rest)?;
            let plain = plain_length(rest.get(escape..).ok_or(Odd::Syntax)?)?;
            text.length += plain;
            self.at += escape + plain;
        }
        self.at += 1;
        text.quoted = self.text.get(start..self.at).ok_or(Odd::Syntax)?;
        Ok(text)
    }

    fn number(&mut self) -> Walked<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start + usize::from(bytes[start] == b'-');
        let digits = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let whole = digits(at);
        if whole == at || (whole > at + 1 && bytes[at] == b'0') {
            return Err(Odd::Syntax);
        }
        at = whole;
        if bytes.get(at) == Some(&b'.') {
            let end = digits(at + 1);
            if end == at + 1 {
                return Err(Odd::Syntax);
            }
            at = end;
        }
        let exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
        if exponent {
            let sign = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
            let first = at + 1 + usize::from(sign);
            at = digits(first);
            if at == first {
                return Err(Odd::Syntax);
            }
        }
        self.at = at;
        let number = &self.text[start..at];
        // Whatever is too large for a float is too large for the parsers behind.
        let plain = !exponent && number.len() < DIGITS_MAX;
        let fits = plain || number.parse().is_ok_and(f64::is_finite);
        if fits { Ok(number) } else { Err(Odd::Syntax) }
    }
}

// === impl Text ===

impl<'a> Text<'a> {
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
    pub(super) fn sound(self) -> Walked<Self> {
        if self.whole { Ok(self) } else { Err(Odd::Syntax) }
    }

    /// Takes note of the escape at the beginning of `rest`; says how long it is there.
    fn unescape(&mut self, rest: &[u8]) -> Walked<usize> {
        let unit = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.length += 1;
                return Ok(2);
            }
            Some(b'u') => unit(rest).ok_or(Odd::Syntax)?,
            _ => return Err(Odd::Syntax),
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
fn plain_length(rest: &[u8]) -> Walked<usize> {
    // Keys and words are too short to be worth a leap.
    for (at, &byte) in rest.iter().take(SHORT).enumerate() {
        match byte {
            b'"' | b'\\' => return Ok(at),
            0..b' ' => return Err(Odd::Syntax),
            _ => {}
        }
    }
    let length = memchr2(b'"', b'\\', rest).ok_or(Odd::Syntax)?;
    // A fold looks at many bytes at once, which a search does not.
    let least = rest[..length].iter().fold(u8::MAX, |least, &byte| least.min(byte));
    if least < b' ' { Err(Odd::Syntax) } else { Ok(length) }
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
