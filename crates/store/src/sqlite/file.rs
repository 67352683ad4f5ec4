//! The file: whose it is, and how it is opened.
//!
//! One process owns a file, by a lock on a second one beside it. SQLite's own exclusive mode would
//! do the same, but would keep out whoever wants to look with the ordinary shell.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error;
use super::schema::{self, Kind};
use crate::error::{ErrorKind, StoreError};

/// How long to wait for a person with a shell who is writing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Statements that are kept prepared.
const STATEMENTS: usize = 128;

/// Pages of the log after which they go to their places: 16 MiB.
const LOG_PAGES: u32 = 4000;

/// What may stay of the log's file once it is empty.
const LOG_BYTES: u32 = 64 << 20;

/// Owns the file for as long as it lives.
pub(super) fn lock(path: &Path) -> Result<File, StoreError> {
    let beside = lock_path(path);
    let name = beside.display();
    let options = File::options().create(true).truncate(false).write(true).open(&beside);
    let file = options.map_err(|error| {
        let StoreError { kind, text } = StoreError::disk(&beside, &error);
        StoreError::new(kind, format!("{text}; the folder must exist and be writable"))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::new(
            ErrorKind::Unavailable,
            format!(
                "{} is in use by another process, which has locked {name}; stop it, or use \
                 another folder",
                path.display()
            ),
        )),
        Err(TryLockError::Error(error)) => {
            Err(StoreError::new(ErrorKind::Broken, format!("{name} cannot be locked: {error}")))
        }
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}

/// The connection that writes. The file is checked, and brought to the newest version.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let named = |error| named(path, error);
    create(path)?;
    let mut connection = Connection::open_with_flags(path, flags()).map_err(named)?;
    connection.busy_timeout(PATIENCE).map_err(named)?;
    let refuse = |text: String| {
        let text = format!("{}: {text}; move it away, or use another folder", path.display());
        Err(StoreError::new(ErrorKind::Broken, text))
    };
    match schema::kind(&connection).map_err(named)? {
        Kind::Empty | Kind::Ours => {}
        Kind::Foreign => return refuse("this is a database of another program".into()),
        Kind::Newer(version) => {
            let known = schema::newest();
            return refuse(format!(
                "this is a queue of version {version}, and versions up to {known} are known here"
            ));
        }
    }
    match settle(&connection).map_err(named)?.as_str() {
        "wal" => schema::migrate(&mut connection).map_err(named).map(|()| connection),
        kind => refuse(format!("its file system has no log but one of kind {kind}")),
    }
}

/// Makes the file if there is none. People's requests are in it: it is nobody else's to read, and
/// SQLite gives its log the same mode.
fn create(path: &Path) -> Result<(), StoreError> {
    let made = File::options().create(true).append(true).mode(0o600).open(path);
    made.map(|_| ()).map_err(|error| {
        let StoreError { kind, text } = StoreError::disk(path, &error);
        StoreError::new(kind, format!("{text}; it must be a file that can be written"))
    })
}

/// A connection that only looks.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open_with_flags(path, flags())?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map_err(|error| named(path, error))
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Every commit is on the disk before it is told. Gives the kind of log that there is: a file
/// system that cannot share memory has another.
fn settle(connection: &Connection) -> rusqlite::Result<String> {
    let set = |name, value: u32| connection.pragma_update_and_check(None, name, value, |_| Ok(()));
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "synchronous", "FULL")?;
    set("journal_size_limit", LOG_BYTES)?;
    set("wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
}

fn named(path: &Path, error: rusqlite::Error) -> StoreError {
    let error = error::from(error);
    StoreError::new(error.kind, format!("{}: {}", path.display(), error.text))
}
