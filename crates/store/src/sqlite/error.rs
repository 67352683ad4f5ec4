//! Errors of SQLite as errors of the store.

use rusqlite::{Error, ErrorCode};

use crate::error::{ErrorKind, StoreError};

impl From<Error> for StoreError {
    /// The text does not name the file: a process has one, and the function that opens it adds the
    /// name.
    fn from(error: Error) -> Self {
        let (kind, text) = match error.sqlite_error_code() {
            None => (ErrorKind::Broken, format!("the queue's file: {error}")),
            Some(code) => {
                let (kind, text) = explain(code);
                (kind, format!("{text} ({error})"))
            }
        };
        Self::new(kind, text).caused_by(error)
    }
}

fn explain(code: ErrorCode) -> (ErrorKind, &'static str) {
    match code {
        ErrorCode::DiskFull => {
            (ErrorKind::Full, "the disk of the queue's file is full; free some space")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (ErrorKind::Unavailable, "another program holds the queue's file; end its transaction")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (ErrorKind::Broken, "the queue's file may not be written; check its owner and its mode")
        }
        ErrorCode::NotADatabase => {
            (ErrorKind::Broken, "this is not a SQLite file; move it away, or use another folder")
        }
        ErrorCode::DatabaseCorrupt => (
            ErrorKind::Broken,
            "the queue's file is damaged; stop, keep a copy, and try `.recover` of the sqlite3 \
             shell",
        ),
        _ => (ErrorKind::Broken, "the queue's file cannot be used"),
    }
}

/// The error of an operation whose worker thread has ended.
pub(super) fn stopped() -> StoreError {
    StoreError::new(ErrorKind::Broken, "the queue's thread has ended; restart the process")
}
