//! A form on its way: `multipart/form-data`, taken apart while it comes.
//!
//! Bytes are pushed as they arrive, and pieces come out as soon as they are sure. What is kept is
//! never more than one head of a part, or the few bytes that could begin a boundary; so a file of
//! any size passes through. It is ours because the whole format is one search: the crates for it
//! bring a character converter and a stream library along.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memmem;

/// The longest head of a part.
const HEAD_MAX: usize = 8 << 10;
/// The most parts of a form.
const PARTS_MAX: usize = 32;
/// What may stand between a boundary and the end of its line.
const PADDING_MAX: usize = 64;

/// A form that is coming.
#[derive(Debug)]
pub(super) struct Form {
    mark: memmem::Finder<'static>,
    buffer: BytesMut,
    place: Place,
    parts: usize,
}

/// What came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A part begins.
    Part(Part),
    /// Bytes of it.
    Data(Bytes),
    /// It has ended.
    End,
    /// The form has ended; whatever still comes means nothing.
    Over,
}

/// What a part says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) filename: Option<String>,
}

/// Why a form cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first boundary.
    Before,
    /// Right behind a boundary.
    Behind,
    Head,
    Data,
    Over,
}

// === impl Form ===

impl Form {
    pub(super) fn new(boundary: &str) -> Self {
        let mark = [b"\r\n--", boundary.as_bytes()].concat();
        // The first boundary has no line before it: this is one.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let mark = memmem::Finder::new(&mark).into_owned();
        Self { mark, buffer, place: Place::Before, parts: 0 }
    }

    /// Takes what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next piece; nothing until more has come.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, Malformed> {
        loop {
            match self.place {
                Place::Head => return Ok(self.head()?.map(Piece::Part)),
                Place::Data => return Ok(self.data()),
                Place::Over => return Ok(Some(Piece::Over)),
                Place::Before | Place::Behind => {}
            }
            let goes_on = match self.place {
                Place::Behind => self.leave_mark()?,
                _ => self.skip_to_mark(),
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }

    fn skip_to_mark(&mut self) -> bool {
        match self.mark.find(&self.buffer) {
            Some(at) => {
                self.pass_mark(at);
                true
            }
            None => {
                let unsure = self.mark.needle().len() - 1;
                self.buffer.advance(self.buffer.len().saturating_sub(unsure));
                false
            }
        }
    }

    fn pass_mark(&mut self, at: usize) {
        self.buffer.advance(at + self.mark.needle().len());
        self.place = Place::Behind;
    }

    /// Whether the line of the boundary has come whole: another part begins, or all is over.
    fn leave_mark(&mut self) -> Result<bool, Malformed> {
        if self.buffer.starts_with(b"--") {
            self.place = Place::Over;
            return Ok(true);
        }
        let padding = self.buffer.iter().take_while(|&&byte| matches!(byte, b' ' | b'\t')).count();
        let rest = &self.buffer[padding..];
        if rest.starts_with(b"\r\n") {
            // Left there: an empty head is an empty line.
            self.buffer.advance(padding);
            self.place = Place::Head;
            self.parts += 1;
            return match self.parts {
                ..=PARTS_MAX => Ok(true),
                _ => Err(Malformed("it has too many parts")),
            };
        }
        let unsure = [&b""[..], b"-", b"\r"].contains(&rest) && padding <= PADDING_MAX;
        if unsure { Ok(false) } else { Err(Malformed("a boundary has no end of line")) }
    }

    fn head(&mut self) -> Result<Option<Part>, Malformed> {
        let searched = &self.buffer[..self.buffer.len().min(HEAD_MAX)];
        let Some(end) = memmem::find(searched, b"\r\n\r\n") else {
            let long = searched.len() == HEAD_MAX;
            return if long { Err(Malformed("a part's head is too long")) } else { Ok(None) };
        };
        let head = self.buffer.split_to(end + 4);
        self.place = Place::Data;
        part(&String::from_utf8_lossy(&head)).map(Some)
    }

    fn data(&mut self) -> Option<Piece> {
        match self.mark.find(&self.buffer) {
            Some(0) => {
                self.pass_mark(0);
                Some(Piece::End)
            }
            Some(at) => Some(Piece::Data(self.buffer.split_to(at).freeze())),
            None => {
                let unsure = self.mark.needle().len() - 1;
                let sure = self.buffer.len().checked_sub(unsure).filter(|&sure| sure > 0)?;
                Some(Piece::Data(self.buffer.split_to(sure).freeze()))
            }
        }
    }
}

/// What the head of a part says.
fn part(head: &str) -> Result<Part, Malformed> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let disposition = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"));
    let Some((_, disposition)) = disposition else {
        return Err(Malformed("a part has no Content-Disposition"));
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
    if part.name.is_empty() { Err(Malformed("a part has no name")) } else { Ok(part) }
}

/// The next parameter's name and value, and what comes after it.
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
            // Other backslashes are letters: some clients send whole paths.
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
