//! What clients have used: sums for each hour, in a SQLite file of their own.
//!
//! Amounts are added to the row of their hour, so that the file grows with the number of tenants,
//! keys and models, not with that of requests. One transaction adds everything at once. With WAL a
//! process that is killed loses nothing that was added.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::error::{ErrorKind, StoreError};

/// The application id of the file: "TidU".
const APPLICATION: i32 = 0x5469_6455;
const VERSION: i32 = 1;
/// How long to wait for another program that holds a write lock, such as a shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The most tokens of a row that count, so that no sum of rows overflows. A row of an older version
/// may have more, and more of its prompt cached than there was.
const ROW_MAX: i64 = 1 << 40;

const TABLE: &str = "
CREATE TABLE usage (
    hour       INTEGER NOT NULL,
    tenant     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    model      TEXT    NOT NULL,
    requests   INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    prompt     INTEGER NOT NULL,
    cached     INTEGER NOT NULL,
    completion INTEGER NOT NULL,
    engine_ms  INTEGER NOT NULL,
    wait_ms    INTEGER NOT NULL,
    PRIMARY KEY (hour, tenant, key, model)
) WITHOUT ROWID;
CREATE INDEX by_tenant ON usage (tenant, hour);
";

/// A file of sums.
#[derive(Debug)]
pub struct UsageStore {
    connection: Connection,
    path: PathBuf,
    /// The device and the number of the file.
    inode: Option<(u64, u64)>,
}

/// Whose amounts, and of which hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    /// Hours since 1970.
    pub hour: u64,
    /// The tenant.
    pub tenant: String,
    /// The name of the key.
    pub key: String,
    /// The model.
    pub model: String,
}

/// The tokens of a tenant in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedTokens {
    /// Those of prompts and responses.
    pub all: u64,
    /// Those of prompts that backends had in their caches.
    pub cached: u64,
}

/// Amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageAmounts {
    /// All requests that ended.
    pub requests: u64,
    /// Those of them that no backend served.
    pub refused: u64,
    /// Tokens of prompts.
    pub prompt: u64,
    /// Those of them that the backend had in its cache.
    pub cached: u64,
    /// Tokens of responses.
    pub completion: u64,
    /// The time at backends, in milliseconds.
    pub engine_ms: u64,
    /// The time in the queue, in milliseconds.
    pub wait_ms: u64,
}

/// Selects rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// The tenant; all tenants without it.
    pub tenant: Option<String>,
    /// The first hour.
    pub since: u64,
    /// The hour behind the last.
    pub until: u64,
    /// Only the rows behind this one, by hour, tenant, key and model.
    pub after: Option<(u64, String, String, String)>,
    /// The most rows.
    pub limit: usize,
}

// === impl UsageStore ===

impl UsageStore {
    /// Opens a file, or makes it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let created = File::options().create(true).append(true).mode(0o600).open(path);
        created.map_err(|error| StoreError::disk(path, error))?;
        let open = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            // A killed process loses nothing; only a loss of power can lose the last second.
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            Ok(connection)
        };
        let connection = open().map_err(|error| broken(path, error))?;
        let mut store = Self { connection, path: path.to_owned(), inode: inode(path) };
        store.prepare()?;
        Ok(store)
    }

    /// Opens the file anew if it was removed or replaced. Returns whether it was.
    pub fn reopen_if_replaced(&mut self) -> Result<bool, StoreError> {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            return Ok(false);
        }
        // The old file is closed first: both have the same names for their logs.
        self.inode = None;
        self.connection =
            Connection::open_in_memory().map_err(|error| broken(&self.path, error))?;
        *self = Self::open(&self.path)?;
        Ok(true)
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let named = |error| broken(&path, error);
        let pragma = |connection: &Connection, name| {
            connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
        };
        let kind = TransactionBehavior::Immediate;
        let tx = self.connection.transaction_with_behavior(kind).map_err(named)?;
        let application = pragma(&tx, "application_id").map_err(named)?;
        let tables: i64 = tx
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(named)?;
        match (application, tables) {
            (0, 0) => {
                tx.execute_batch(TABLE).map_err(named)?;
                tx.pragma_update(None, "application_id", APPLICATION).map_err(named)?;
                tx.pragma_update(None, "user_version", VERSION).map_err(named)?;
            }
            (APPLICATION, _) if pragma(&tx, "user_version").map_err(named)? == VERSION => {}
            _ => {
                let text = format!("{}: this is no file of usage of this version", path.display());
                return Err(StoreError::new(ErrorKind::Broken, text));
            }
        }
        tx.commit().map_err(named)
    }

    /// Adds amounts, all or none.
    pub fn add<'a>(
        &mut self,
        amounts: impl IntoIterator<Item = (&'a UsageKey, &'a UsageAmounts)>,
    ) -> Result<(), StoreError> {
        let path = self.path.clone();
        let add = || {
            let kind = TransactionBehavior::Immediate;
            let tx = self.connection.transaction_with_behavior(kind)?;
            let mut sql = tx.prepare_cached(
                "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
                 ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, \
                 refused = refused + excluded.refused, prompt = prompt + excluded.prompt, \
                 cached = cached + excluded.cached, \
                 completion = completion + excluded.completion, \
                 engine_ms = engine_ms + excluded.engine_ms, wait_ms = wait_ms + excluded.wait_ms",
            )?;
            for (key, sums) in amounts {
                let UsageKey { hour, tenant, key, model } = key;
                let counts = [
                    sums.requests,
                    sums.refused,
                    sums.prompt,
                    sums.cached,
                    sums.completion,
                    sums.engine_ms,
                    sums.wait_ms,
                ];
                let [requests, refused, prompt, cached, completion, engine, wait] =
                    counts.map(signed);
                sql.execute(params![
                    signed(*hour),
                    tenant,
                    key,
                    model,
                    requests,
                    refused,
                    prompt,
                    cached,
                    completion,
                    engine,
                    wait
                ])?;
            }
            drop(sql);
            tx.commit()
        };
        add().map_err(|error| broken(&path, error))
    }

    /// The rows of a query, in the order of hours.
    pub fn read(&self, query: &UsageQuery) -> Result<Vec<(UsageKey, UsageAmounts)>, StoreError> {
        let read = || {
            let mut sql = self.connection.prepare_cached(
                "SELECT * FROM usage WHERE hour >= ?1 AND hour < ?2 \
                 AND (?3 IS NULL OR tenant = ?3) \
                 AND (?5 IS NULL OR (hour, tenant, key, model) > (?5, ?6, ?7, ?8)) \
                 ORDER BY hour, tenant, key, model LIMIT ?4",
            )?;
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
            let after = query.after.as_ref();
            let values = params![
                signed(after.map_or(query.since, |after| after.0.max(query.since))),
                signed(query.until),
                query.tenant,
                limit,
                after.map(|after| signed(after.0)),
                after.map(|after| &after.1),
                after.map(|after| &after.2),
                after.map(|after| &after.3),
            ];
            sql.query_map(values, row)?.collect::<Result<_, _>>()
        };
        read().map_err(|error| broken(&self.path, error))
    }

    /// The tokens of each tenant since an hour.
    pub fn tokens_since(&self, hour: u64) -> Result<Vec<(String, UsedTokens)>, StoreError> {
        let read = || {
            let mut sql = self.connection.prepare_cached(
                "SELECT tenant, sum(min(prompt, ?2) + min(completion, ?2)), \
                 sum(min(cached, prompt, ?2)) FROM usage WHERE hour >= ?1 GROUP BY tenant",
            )?;
            let tokens = |row: &Row<'_>| {
                let (all, cached) = (unsigned(row, 1)?, unsigned(row, 2)?);
                Ok((row.get(0)?, UsedTokens { all, cached }))
            };
            sql.query_map([signed(hour), ROW_MAX], tokens)?.collect::<Result<_, _>>()
        };
        read().map_err(|error| broken(&self.path, error))
    }

    /// Removes the rows before an hour.
    pub fn forget(&mut self, before: u64) -> Result<(), StoreError> {
        let sql = "DELETE FROM usage WHERE hour < ?1";
        let removed = self.connection.execute(sql, [signed(before)]).optional();
        removed.map(|_| ()).map_err(|error| broken(&self.path, error))
    }
}

// === impl UsedTokens ===

impl UsedTokens {
    /// Those that count where cached tokens do or do not.
    pub fn charged(self, charge_cached: bool) -> u64 {
        self.all.saturating_sub(if charge_cached { 0 } else { self.cached })
    }
}

// === impl UsageAmounts ===

impl UsageAmounts {
    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.refused = self.refused.saturating_add(other.refused);
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.cached = self.cached.saturating_add(other.cached);
        self.completion = self.completion.saturating_add(other.completion);
        self.engine_ms = self.engine_ms.saturating_add(other.engine_ms);
        self.wait_ms = self.wait_ms.saturating_add(other.wait_ms);
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<(UsageKey, UsageAmounts)> {
    let key = UsageKey {
        hour: unsigned(row, 0)?,
        tenant: row.get(1)?,
        key: row.get(2)?,
        model: row.get(3)?,
    };
    let amounts = UsageAmounts {
        requests: unsigned(row, 4)?,
        refused: unsigned(row, 5)?,
        prompt: unsigned(row, 6)?,
        cached: unsigned(row, 7)?.min(unsigned(row, 6)?),
        completion: unsigned(row, 8)?,
        engine_ms: unsigned(row, 9)?,
        wait_ms: unsigned(row, 10)?,
    };
    Ok((key, amounts))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    // SQLite makes a sum that is too large a real number.
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => u64::try_from(number).unwrap_or(0),
        ValueRef::Real(_) => i64::MAX.unsigned_abs(),
        _ => 0,
    })
}

/// The device and the number of a file, if it is there.
fn inode(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn broken(path: &Path, error: rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => ErrorKind::Full,
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Broken,
    };
    StoreError::new(kind, format!("{}: {error}", path.display())).caused_by(error)
}

#[cfg(test)]
mod tests;
