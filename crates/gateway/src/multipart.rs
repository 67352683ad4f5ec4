//! A parser of `multipart/form-data` that works while the form arrives.
//!
//! The caller pushes bytes and takes events. The parser buffers at most the head of one part, or
//! the few bytes that may begin a boundary, so a file of any size passes through. It is written
//! here because the format needs one search; the crates for it bring a character converter and a
//! stream library.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memmem;

/// The longest head of a part.
const HEAD_MAX: usize = 8 << 10;
/// The most parts of a form.
const PARTS_MAX: usize = 128;
/// The longest boundary that RFC 2046 allows.
const BOUNDARY_MAX: usize = 70;
/// The character sets of text that is UTF-8 or ASCII.
const PLAIN_CHARSETS: [&str; 4] = ["utf-8", "utf8", "us-ascii", "iso-8859-1"];
/// The transfer encodings that change nothing.
const PLAIN_TRANSFER: [&str; 3] = ["7bit", "8bit", "binary"];
/// The most spaces between a boundary and the end of its line.
const PADDING_MAX: usize = 64;

/// The parser of one form.
#[derive(Debug)]
pub(crate) struct Multipart {
    boundary: memmem::Finder<'static>,
    buffer: BytesMut,
    position: Position,
    parts: usize,
    /// The bytes of the form so far.
    pushed: usize,
}

/// An event of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormEvent {
    /// The head of a part.
    Part(Part),
    /// Content of the part.
    Data(Bytes),
    /// The end of the part.
    End,
    /// The end of the form; bytes after it are ignored.
    Over,
}

/// The head of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) filename: Option<String>,
    /// Whether a server may have to decode its content.
    pub(crate) encoded: bool,
    /// Whether all parsers read its name alike.
    pub(crate) plain: bool,
}

/// Why a form cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedForm(pub(crate) &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Before the first boundary.
    Before,
    /// Right after a boundary.
    AfterBoundary,
    Head,
    Data,
    Over,
}

// === impl Multipart ===

impl Multipart {
    pub(crate) fn new(boundary: &str) -> Self {
        let boundary = [b"\r\n--", boundary.as_bytes()].concat();
        // The first boundary has no line break before it, so the buffer begins with one.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let boundary = memmem::Finder::new(&boundary).into_owned();
        Self { boundary, buffer, position: Position::Before, parts: 0, pushed: 0 }
    }

    /// Adds bytes of the form.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.pushed += bytes.len();
    }

    /// The place in the form behind the last event.
    pub(crate) fn offset(&self) -> usize {
        self.pushed.saturating_sub(self.buffer.len())
    }

    /// The parts so far.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// The bytes of a boundary, with the line break before it.
    pub(crate) fn boundary_length(&self) -> usize {
        self.boundary.needle().len()
    }

    /// The next event; `None` until more bytes arrive.
    pub(crate) fn next(&mut self) -> Result<Option<FormEvent>, MalformedForm> {
        loop {
            match self.position {
                Position::Head => return Ok(self.head()?.map(FormEvent::Part)),
                Position::Data => return Ok(self.data()),
                Position::Over => return Ok(Some(FormEvent::Over)),
                Position::Before | Position::AfterBoundary => {}
            }
            let advanced = match self.position {
                Position::AfterBoundary => self.leave_boundary()?,
                _ => self.skip_to_boundary(),
            };
            if !advanced {
                return Ok(None);
            }
        }
    }

    fn skip_to_boundary(&mut self) -> bool {
        match self.boundary.find(&self.buffer) {
            Some(at) => {
                self.pass_boundary(at);
                true
            }
            None => {
                let unsure = self.boundary.needle().len() - 1;
                self.buffer.advance(self.buffer.len().saturating_sub(unsure));
                false
            }
        }
    }

    fn pass_boundary(&mut self, at: usize) {
        self.buffer.advance(at + self.boundary.needle().len());
        self.position = Position::AfterBoundary;
    }

    /// Reads the rest of a boundary's line: another part begins, or the form ends. Returns `false`
    /// if more bytes are needed.
    fn leave_boundary(&mut self) -> Result<bool, MalformedForm> {
        if self.buffer.starts_with(b"--") {
            self.position = Position::Over;
            return Ok(true);
        }
        let padding = self.buffer.iter().take_while(|&&byte| matches!(byte, b' ' | b'\t')).count();
        let rest = &self.buffer[padding..];
        if rest.starts_with(b"\r\n") {
            // The line break stays in the buffer: a part with no headers has an empty line.
            self.buffer.advance(padding);
            self.position = Position::Head;
            self.parts += 1;
            return match self.parts {
                ..=PARTS_MAX => Ok(true),
                _ => Err(MalformedForm("it has too many parts")),
            };
        }
        let unsure = [&b""[..], b"-", b"\r"].contains(&rest) && padding <= PADDING_MAX;
        if unsure { Ok(false) } else { Err(MalformedForm("a boundary has no end of line")) }
    }

    fn head(&mut self) -> Result<Option<Part>, MalformedForm> {
        let searched = &self.buffer[..self.buffer.len().min(HEAD_MAX)];
        let Some(end) = memmem::find(searched, b"\r\n\r\n") else {
            let long = searched.len() == HEAD_MAX;
            return if long { Err(MalformedForm("a part's head is too long")) } else { Ok(None) };
        };
        let head = self.buffer.split_to(end + 4);
        self.position = Position::Data;
        part(&String::from_utf8_lossy(&head)).map(Some)
    }

    fn data(&mut self) -> Option<FormEvent> {
        match self.boundary.find(&self.buffer) {
            Some(0) => {
                self.pass_boundary(0);
                Some(FormEvent::End)
            }
            Some(at) => Some(FormEvent::Data(self.buffer.split_to(at).freeze())),
            None => {
                let unsure = self.boundary.needle().len() - 1;
                let sure = self.buffer.len().checked_sub(unsure).filter(|&sure| sure > 0)?;
                Some(FormEvent::Data(self.buffer.split_to(sure).freeze()))
            }
        }
    }
}

/// The boundary in a content type. A type that gives it in several ways has none.
pub(crate) fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1).map(str::trim_ascii);
    let mut given = parameters.filter(|parameter| {
        let start = parameter.get(.."boundary".len());
        start.is_some_and(|start| start.eq_ignore_ascii_case("boundary"))
    });
    let (Some(parameter), None) = (given.next(), given.next()) else { return None };
    let (name, value) = parameter.split_once('=')?;
    let value = value.trim_ascii();
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => value,
    };
    let is_one = name.trim_ascii_end().len() == "boundary".len();
    let is_letter =
        |letter: u8| letter.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&letter);
    let is_plain = value.bytes().all(is_letter);
    (is_one && is_plain && (1..=BOUNDARY_MAX).contains(&value.len())).then_some(value)
}

/// Whether a content type leaves text as it is: it names no character set, or one that has ASCII.
pub(crate) fn is_plain_charset(content_type: &str) -> bool {
    content_type.split(';').skip(1).all(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is = |known: &&str| value.trim_ascii().trim_matches('"').eq_ignore_ascii_case(known);
        let name = name.trim_ascii().to_ascii_lowercase();
        !name.starts_with("charset") || (name == "charset" && PLAIN_CHARSETS.iter().any(is))
    })
}

/// Whether a header of a part says that its content is encoded.
fn is_encoded(header: &str) -> bool {
    let Some((name, value)) = header.split_once(':') else { return false };
    let (name, value) = (name.trim_ascii(), value.trim_ascii());
    if name.eq_ignore_ascii_case("content-transfer-encoding") {
        return !PLAIN_TRANSFER.iter().any(|known| value.eq_ignore_ascii_case(known));
    }
    name.eq_ignore_ascii_case("content-type") && !is_plain_charset(value)
}

/// Parses the head of a part. Where parsers differ in what they read, it is malformed.
fn part(head: &str) -> Result<Part, MalformedForm> {
    let lines = || head.split("\r\n").filter(|line| !line.is_empty());
    if lines().any(|line| line.starts_with([' ', '\t']) || line.contains(['\n', '\r'])) {
        return Err(MalformedForm("a header of a part goes over several lines"));
    }
    let mut dispositions = lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim_ascii().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let (Some(disposition), None) = (dispositions.next(), dispositions.next()) else {
        return Err(MalformedForm("a part has not exactly one Content-Disposition"));
    };
    let (mut named, mut filename) = (None, None);
    let mut rest = disposition;
    while let Some((_, after)) = rest.split_once(';') {
        let (name, value, after) = parameter(after);
        let twice = match name.to_ascii_lowercase().as_str() {
            "name" => named.replace(value).is_some(),
            "filename" => filename.replace(value).is_some(),
            other => other.starts_with("name*"),
        };
        if twice {
            return Err(MalformedForm("a part has two names"));
        }
        rest = after;
    }
    let name = named.filter(|name| !name.is_empty());
    let (encoded, plain) = (lines().any(is_encoded), is_plain(disposition));
    Ok(Part { name: name.ok_or(MalformedForm("a part has no name"))?, filename, encoded, plain })
}

/// Whether all parsers find the same parameters: each is a word, `=`, and another word or a text in
/// quotes. Of an escape in a text, and of quotes around a part of a value, parsers make different
/// ends of the text; letters that are no ASCII are spaces to some.
fn is_plain(disposition: &str) -> bool {
    let is_word = |word: &str| {
        let is_letter =
            |letter: u8| letter.is_ascii_graphic() && !b"\"()<>@,;:\\/[]?=".contains(&letter);
        !word.is_empty() && word.bytes().all(is_letter)
    };
    let is_text = |text: &str| {
        let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        inside.is_some_and(|inside| {
            !inside.contains(|letter: char| letter == '"' || letter.is_control())
        })
    };
    let mut is_quoted = false;
    let mut parameters = disposition.split(|letter| {
        is_quoted ^= letter == '"';
        letter == ';' && !is_quoted
    });
    let spaces = [' ', '\t'];
    let is_kind = parameters.next().is_some_and(|kind| is_word(kind.trim_matches(spaces)));
    let is_parameter = |parameter: &str| {
        let (name, value) = parameter.trim_matches(spaces).split_once('=').unwrap_or_default();
        is_word(name) && (is_word(value) || is_text(value))
    };
    is_kind && !disposition.contains('\\') && parameters.all(is_parameter)
}

/// Parses the next parameter; returns its name, its value and the rest.
fn parameter(text: &str) -> (&str, String, &str) {
    let end = text.find(['=', ';']).unwrap_or(text.len());
    let (name, rest) = (text[..end].trim_ascii(), &text[end..]);
    let Some(rest) = rest.strip_prefix('=') else { return (name, String::new(), rest) };
    let Some(quoted) = rest.trim_ascii_start().strip_prefix('"') else {
        let end = rest.find(';').unwrap_or(rest.len());
        return (name, rest[..end].trim_ascii().to_owned(), &rest[end..]);
    };
    let (value, rest) = quoted_value(quoted);
    (name, value, rest)
}

/// Parses a value behind its opening quote; returns it and the rest.
fn quoted_value(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[at + 1..]),
            // Other backslashes are literal: some clients send whole paths.
            '\\' => match letters.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, escaped)) => value.push(escaped),
                None => value.push(letter),
            },
            _ => value.push(letter),
        }
    }
    (value, "")
}

// === impl MalformedForm ===

impl std::fmt::Display for MalformedForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "The form cannot be read: {}.", self.0)
    }
}

#[cfg(test)]
mod tests;
