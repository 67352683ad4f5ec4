//! Opens files that the configuration names.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens a file for reading. Anything but a file is an error: to open a named pipe would wait for a
/// writer, perhaps for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}
