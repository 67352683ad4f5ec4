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
const PARTS_MAX: usize = 32;
/// The most spaces between a boundary and the end of its line.
const PADDING_MAX: usize = 64;

/// The parser of one form.
#[derive(Debug)]
pub(super) struct Multipart {
    boundary: memmem::Finder<'static>,
    buffer: BytesMut,
    position: Position,
    parts: usize,
}

/// An event of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FormEvent {
    /// The head of a part.
    Part(Part),
    /// Content of the part.
    Data(Bytes),
    /// The end of the part.
    End,
    /// The end of the form; bytes after it are ignored.
    Over,
}

/// The name and the file name of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) filename: Option<String>,
}

/// Why a form cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedForm(pub(super) &'static str);

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
    pub(super) fn new(boundary: &str) -> Self {
        let boundary = [b"\r\n--", boundary.as_bytes()].concat();
        // The first boundary has no line break before it, so the buffer begins with one.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let boundary = memmem::Finder::new(&boundary).into_owned();
        Self { boundary, buffer, position: Position::Before, parts: 0 }
    }

    /// Adds bytes of the form.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event; `None` until more bytes arrive.
    pub(super) fn next(&mut self) -> Result<Option<FormEvent>, MalformedForm> {
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

/// Parses the head of a part.
fn part(head: &str) -> Result<Part, MalformedForm> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let disposition = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"));
    let Some((_, disposition)) = disposition else {
        return Err(MalformedForm("a part has no Content-Disposition"));
    };
    let mut part = Part::default();
    let mut rest = disposition;
    while let Some((_, after)) = rest.split_once(';') {
        let (name, value, after) = parameter(after);
        match name.to_ascii_lowercase().as_str() {
            "name" => part.name = value,
            "filename" => part.filename = Some(value),
            _ => {}
        }
        rest = after;
    }
    if part.name.is_empty() { Err(MalformedForm("a part has no name")) } else { Ok(part) }
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
    let mut value = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (name, value, &quoted[at + 1..]),
            // Other backslashes are literal: some clients send whole paths.
            '\\' => match letters.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, escaped)) => value.push(escaped),
                None => value.push(letter),
            },
            _ => value.push(letter),
        }
    }
    (name, value, "")
}

#[cfg(test)]
mod tests;
