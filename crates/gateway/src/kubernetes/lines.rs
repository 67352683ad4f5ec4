//! Splits the bytes of a watch into lines, of which each is bounded.

/// The longest line. An object of the API server has at most 1.5 MiB, and JSON may escape.
pub(super) const LINE_MAX: usize = 8 << 20;

/// The begin of a line that has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

/// A line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

// === impl Lines ===

impl Lines {
    /// Calls `take` with each line that ends in these bytes, until it returns false.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, TooLong> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.extend(line)?;
            let line = std::mem::take(&mut self.rest);
            if !line.trim_ascii().is_empty() && !take(&line) {
                return Ok(false);
            }
        }
        self.extend(bytes)?;
        Ok(true)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.rest.len() + bytes.len() > LINE_MAX {
            return Err(TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}
