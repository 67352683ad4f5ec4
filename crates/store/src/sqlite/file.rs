//! The file: how it is locked, created and opened.
//!
//! One process owns a file, by a lock on a second file beside it. SQLite's own exclusive mode would
//! do the same, but it would also keep the `sqlite3` shell out.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::schema::{self, FileFormat};
use crate::error::{ErrorKind, StoreError};

/// How long to wait for another program that holds a write lock, such as a shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of statements that stay prepared.
const STATEMENTS_MAX: usize = 128;

/// The length of the log in pages that triggers a checkpoint: 16 MiB.
const CHECKPOINT_PAGES: u64 = 4000;

/// The bytes of a page, unless a file was made with others.
const PAGE_BYTES: u64 = 4096;

/// The log takes at most this part of the free disk before a checkpoint. A checkpoint itself needs
/// room: a log that has filled the disk can never be checkpointed.
const FREE_PART: u64 = 16;

/// A smaller log would be checkpointed for nearly every commit.
const CHECKPOINT_PAGES_MIN: u64 = 16;

/// The maximum size of the log file after a checkpoint.
const LOG_BYTES_MAX: u32 = 64 << 20;

/// Locks the file for the life of the returned handle.
pub(super) fn lock(path: &Path) -> Result<File, StoreError> {
    let beside = lock_path(path);
    let name = beside.display();
    let file = open_lock(&beside)?;
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
            Err(StoreError::new(ErrorKind::Broken, format!("{name} cannot be locked: {error}"))
                .caused_by(error))
        }
    }
}

fn open_lock(path: &Path) -> Result<File, StoreError> {
    let opened = File::options().create(true).truncate(false).write(true).open(path);
    opened.map_err(|error| {
        StoreError::disk(path, error)
            .describe(|text| format!("{text}; the folder must exist and be writable"))
    })
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}

/// Opens the connection that writes. It checks the file and migrates it to the newest version.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let named = |error| named(path, error);
    create(path)?;
    let mut connection = Connection::open_with_flags(path, flags()).map_err(named)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(named)?;
    check_format(path, schema::format(&connection).map_err(named)?)?;
    match configure(&connection, checkpoint_pages(path)).map_err(named)?.as_str() {
        "wal" => schema::migrate(&mut connection).map_err(named).map(|()| connection),
        mode => Err(unusable(path, &format!("its file system does not support WAL, only {mode}"))),
    }
}

fn check_format(path: &Path, format: FileFormat) -> Result<(), StoreError> {
    let problem = match format {
        FileFormat::Empty | FileFormat::Known => return Ok(()),
        FileFormat::Foreign => "this is a database of another program".to_owned(),
        FileFormat::Newer(version) => {
            let known = schema::newest();
            format!(
                "this is a queue of version {version}, and versions up to {known} are known here"
            )
        }
    };
    Err(unusable(path, &problem))
}

fn unusable(path: &Path, problem: &str) -> StoreError {
    let text = format!("{}: {problem}; move it away, or use another folder", path.display());
    StoreError::new(ErrorKind::Broken, text)
}

/// Creates the file if it does not exist. It holds the requests of users, so only its owner may
/// read it; SQLite creates its log with the same mode.
fn create(path: &Path) -> Result<(), StoreError> {
    let created = File::options().create(true).append(true).mode(0o600).open(path);
    created.map(|_| ()).map_err(|error| {
        StoreError::disk(path, error)
            .describe(|text| format!("{text}; it must be a file that can be written"))
    })
}

/// Opens the connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open_with_flags(path, flags())?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
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

/// The length of the log that triggers a checkpoint on the disk of this file.
fn checkpoint_pages(path: &Path) -> u32 {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(disk) = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) else {
        return CHECKPOINT_PAGES as u32;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    (free / FREE_PART / PAGE_BYTES).clamp(CHECKPOINT_PAGES_MIN, CHECKPOINT_PAGES) as u32
}

/// Makes each commit durable before it returns. Returns the journal mode in effect: a file system
/// without shared memory does not support WAL.
fn configure(connection: &Connection, checkpoint_pages: u32) -> rusqlite::Result<String> {
    let set = |name, value: u32| connection.pragma_update_and_check(None, name, value, |_| Ok(()));
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "synchronous", "FULL")?;
    set("journal_size_limit", LOG_BYTES_MAX)?;
    set("wal_autocheckpoint", checkpoint_pages)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
}

fn named(path: &Path, error: rusqlite::Error) -> StoreError {
    StoreError::from(error).describe(|text| format!("{}: {text}", path.display()))
}
