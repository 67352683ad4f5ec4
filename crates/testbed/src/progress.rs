//! Where a long command reports its progress.

use std::io::Write;

/// The destination of progress messages.
pub struct Progress<'a> {
    /// Usually standard error.
    pub out: &'a mut (dyn Write + Send),
    /// Whether it is a terminal, whose last line can be written over.
    pub live: bool,
}
