//! A file's lines, each no longer than a limit, and where they stand.

use std::io::{self, BufRead};

use super::Flaw;

/// What editors of another system put before everything.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines. What is longer than the limit is passed over, not kept.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    limit: usize,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes without the end of the line, or the limit if they are more than that.
    bytes: Result<&'a [u8], usize>,
}

// === impl Lines ===

impl<R: BufRead> Lines<R> {
    /// Reads from the beginning of a file.
    pub fn new(from: R, limit: usize) -> Self {
        Self { from, limit, buffer: Vec::new(), number: 0, offset: 0 }
    }

    /// The next line; nothing at the end.
    #[expect(clippy::should_implement_trait, reason = "a line borrows from the one who reads it")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let begin = self.offset;
        let long = self.gather()?;
        if self.offset == begin {
            return Ok(None);
        }
        self.number += 1;
        let mut bytes = self.buffer.as_slice();
        let mut offset = begin;
        if begin == 0 && bytes.starts_with(MARK) {
            bytes = &bytes[MARK.len()..];
            offset += MARK.len() as u64;
        }
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = if long { Err(self.limit) } else { Ok(bytes) };
        Ok(Some(Line { number: self.number, offset, bytes }))
    }

    /// Reads to the end of the line; says whether it is longer than the limit.
    fn gather(&mut self) -> io::Result<bool> {
        let mut long = false;
        loop {
            let found = match self.from.fill_buf() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', found);
            let piece = &found[..end.unwrap_or(found.len())];
            long |= self.buffer.len() + piece.len() > self.limit;
            if !long {
                self.buffer.extend_from_slice(piece);
            }
            let taken = end.map_or(found.len(), |end| end + 1);
            self.from.consume(taken);
            self.offset += taken as u64;
            if end.is_some() || taken == 0 {
                return Ok(long);
            }
        }
    }
}

#[cfg(test)]
impl<R> Lines<R> {
    pub(super) fn kept(&self) -> usize {
        self.buffer.capacity()
    }
}

// === impl Line ===

impl<'a> Line<'a> {
    /// Whether there is nothing on it.
    pub fn is_blank(&self) -> bool {
        self.bytes.is_ok_and(|bytes| bytes.trim_ascii().is_empty())
    }

    /// What is on it.
    pub fn text(&self) -> Result<&'a str, Flaw> {
        let bytes = self.bytes.map_err(|limit| {
            Flaw::new("line_too_long", format!("it is longer than {limit} bytes"), None)
        })?;
        std::str::from_utf8(bytes).map_err(|error| {
            let text = format!("byte {} of it is not UTF-8", error.valid_up_to() + 1);
            Flaw::new("invalid_json_line", text, None)
        })
    }
}
