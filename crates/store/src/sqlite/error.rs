//! What SQLite's errors mean to whoever asked.

use rusqlite::{Error, ErrorCode};

use crate::error::{ErrorKind, StoreError};

/// Why the engine did not do what it was asked. The file is not named here: whoever opens it names
/// it, and there is only one.
pub(super) fn from(error: Error) -> StoreError {
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::new(ErrorKind::Broken, format!("the queue's file: {error}"));
    };
    let (kind, what) = match code {
        ErrorCode::DiskFull => {
            (ErrorKind::Full, "there is no room left to write to the queue's file; make some")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (ErrorKind::Unavailable, "another program holds the queue's file; end its transaction")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (ErrorKind::Broken, "the queue's file may not be written; check its owner and its mode")
        }
        ErrorCode::NotADatabase => {
            (ErrorKind::Broken, "this is no SQLite file; move it away, or use another folder")
        }
        ErrorCode::DatabaseCorrupt => (
            ErrorKind::Broken,
            "the queue's file is damaged; stop, keep a copy, and try `.recover` of the sqlite3 \
             shell",
        ),
        _ => (ErrorKind::Broken, "the queue's file cannot be used"),
    };
    StoreError::new(kind, format!("{what} ({error})"))
}

/// Whoever should have answered is gone.
pub(super) fn stopped() -> StoreError {
    StoreError::new(ErrorKind::Broken, "the queue has stopped; start again")
}
