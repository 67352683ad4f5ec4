//! What SQLite's errors mean to whoever asked.

use rusqlite::{Error, ErrorCode};

use crate::error::{StoreError, Trouble};

/// Why the engine did not do what it was asked. The file is not named here: whoever opens it names
/// it, and there is only one.
pub(super) fn from(error: Error) -> StoreError {
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::new(Trouble::Broken, format!("the queue's file: {error}"));
    };
    let (trouble, what) = match code {
        ErrorCode::DiskFull => {
            (Trouble::Full, "there is no room left to write to the queue's file; make some")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (Trouble::Away, "another program holds the queue's file; end its transaction")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (Trouble::Broken, "the queue's file may not be written; check its owner and its mode")
        }
        ErrorCode::NotADatabase => {
            (Trouble::Broken, "this is no SQLite file; move it away, or use another folder")
        }
        ErrorCode::DatabaseCorrupt => (
            Trouble::Broken,
            "the queue's file is damaged; stop, keep a copy, and try `.recover` of the sqlite3 \
             shell",
        ),
        _ => (Trouble::Broken, "the queue's file cannot be used"),
    };
    StoreError::new(trouble, format!("{what} ({error})"))
}

/// Whoever should have answered is gone.
pub(super) fn stopped() -> StoreError {
    StoreError::new(Trouble::Broken, "the queue has stopped; start again")
}
