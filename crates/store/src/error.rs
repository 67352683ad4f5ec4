//! Why a store did not do what it was asked.

use std::io;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// Of which kind it is, which says what can be done.
    pub kind: ErrorKind,
    /// What happened, in words.
    pub text: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The server cannot be reached or is changing: trying again later helps.
    Unavailable,
    /// There is no room left to write.
    Full,
    /// What is stored is not what was expected, or the server does not do what is needed.
    Broken,
    /// What was asked for makes no sense.
    Invalid,
}

// === impl StoreError ===

impl StoreError {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// A failure of the disk. One that is full has room again some time; the rest is for whoever
    /// named the place.
    pub fn disk(place: &std::path::Path, error: &io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let full = matches!(error.kind(), StorageFull | QuotaExceeded);
        let kind = if full { ErrorKind::Full } else { ErrorKind::Invalid };
        Self::new(kind, format!("{}: {error}", place.display()))
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreError {}
