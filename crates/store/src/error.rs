//! The error of a store.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

/// The error of a store.
///
/// The text is complete: it includes the text of the cause and, where there is one, the remedy. The
/// cause is also the [`source`](Error::source), for callers that examine its type.
#[derive(Clone, Debug)]
pub struct StoreError {
    /// The kind, which determines what the caller can do.
    pub kind: ErrorKind,
    /// The description.
    pub text: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kinds of errors of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The server cannot be reached or is failing over. A later retry helps.
    Unavailable,
    /// The disk or the memory of the server is full.
    Full,
    /// The stored data is not as expected, or the server lacks a needed feature.
    Broken,
    /// The request or the configuration is invalid.
    Invalid,
    /// The engine cannot do this. The text says what can.
    Unsupported,
}

// === impl StoreError ===

impl StoreError {
    /// Creates an error without a cause.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    /// Creates an error of the file system. A full disk may have room again later; every other
    /// error needs another path or other permissions.
    pub fn disk(path: &Path, error: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let full = matches!(error.kind(), StorageFull | QuotaExceeded);
        let kind = if full { ErrorKind::Full } else { ErrorKind::Invalid };
        Self::new(kind, format!("{}: {error}", path.display())).caused_by(error)
    }

    /// Keeps the cause of this error.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Replaces the text, and keeps the kind and the cause.
    pub(crate) fn describe(self, text: impl FnOnce(&str) -> String) -> Self {
        Self { text: text(&self.text), ..self }
    }
}

/// Errors are equal when callers see the same: the kind and the text.
impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.text) == (other.kind, &other.text)
    }
}

impl Eq for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
