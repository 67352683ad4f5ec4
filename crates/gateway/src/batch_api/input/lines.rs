//! Reads the lines of a file, with a limit on their length, and with their offsets.

use std::io::{self, BufRead};

use super::InputError;

/// The byte order mark that some editors write first.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines. Bytes beyond the limit are skipped.
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
    /// Its offset in the file.
    pub offset: u64,
    /// Its bytes without the line break, or the limit if the line is longer.
    bytes: Result<&'a [u8], usize>,
}

// === impl Lines ===

impl<R: BufRead> Lines<R> {
    /// Reads from the beginning of a file.
    pub fn new(from: R, limit: usize) -> Self {
        Self { from, limit, buffer: Vec::new(), number: 0, offset: 0 }
    }

    /// The next line; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a line borrows from its reader")]
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
        if begin == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes = &bytes[BYTE_ORDER_MARK.len()..];
            offset += BYTE_ORDER_MARK.len() as u64;
        }
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = if long { Err(self.limit) } else { Ok(bytes) };
        Ok(Some(Line { number: self.number, offset, bytes }))
    }

    /// Reads to the end of the line; returns whether it is longer than the limit.
    fn gather(&mut self) -> io::Result<bool> {
        let mut long = false;
        loop {
            let found = match self.from.fill_buf() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', found);
            let chunk = &found[..end.unwrap_or(found.len())];
            long |= self.buffer.len() + chunk.len() > self.limit;
            if !long {
                self.buffer.extend_from_slice(chunk);
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
    /// Whether the line is empty or white space.
    pub fn is_blank(&self) -> bool {
        self.bytes.is_ok_and(|bytes| bytes.trim_ascii().is_empty())
    }

    /// The text of the line.
    pub fn text(&self) -> Result<&'a str, InputError> {
        let bytes = self.bytes.map_err(|limit| {
            InputError::new("line_too_long", format!("it is longer than {limit} bytes"), None)
        })?;
        std::str::from_utf8(bytes).map_err(|error| {
            let text = format!("byte {} of it is not UTF-8", error.valid_up_to() + 1);
            InputError::new("invalid_json_line", text, None)
        })
    }
}
