//! The tables, and the migration of older files.
//!
//! Rows of `messages` are small: bodies are in a table of their own, so that the search for the
//! next message never reads them. Triggers count `lanes`, so that the counts stay right when an
//! operator changes rows in a shell. A message that has ended stays as a receipt for a while: its
//! row without the request.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::ledger::tables::{ADDRESSES, HEADERS, OWNERS, TABLES};

/// The application id of the file: "Tide".
const APPLICATION: i32 = 0x5469_6465;

/// The SQL that each version added. The `user_version` of a file is the number of migrations that
/// ran on it.
const MIGRATIONS: &[&str] = &[QUEUE, TABLES, HEADERS, OWNERS, ADDRESSES];

const QUEUE: &str = "
CREATE TABLE messages (
    seq       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    digest    BLOB    NOT NULL,
    queue     TEXT    NOT NULL,
    tenant    TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    deadline  INTEGER NOT NULL,
    endpoint  TEXT    NOT NULL,
    model     TEXT    NOT NULL,
    metadata  TEXT    NOT NULL,
    headers   TEXT    NOT NULL,
    route     TEXT    NOT NULL,
    file      TEXT,
    offset    INTEGER,
    length    INTEGER NOT NULL,
    state     TEXT    NOT NULL
              CHECK (state IN ('pending', 'retry', 'claimed', 'dead', 'ended')),
    failures  INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    due       INTEGER,
    token     TEXT,
    ended     INTEGER
);
CREATE INDEX turns ON messages (queue, tenant, deadline, seq) WHERE state = 'pending';
CREATE INDEX wakes ON messages (queue, state, due) WHERE due IS NOT NULL;
CREATE INDEX routed ON messages (route) WHERE route <> '' AND ended IS NULL;
CREATE INDEX receipts ON messages (ended) WHERE ended IS NOT NULL;

CREATE TABLE bodies (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL);

CREATE TABLE dead (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    seq    INTEGER NOT NULL UNIQUE,
    queue  TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    why    TEXT    NOT NULL
);
CREATE INDEX graves ON dead (queue, number);

CREATE TABLE results (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    route  TEXT    NOT NULL,
    id     TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    status INTEGER,
    error  TEXT,
    text   TEXT,
    body   BLOB    NOT NULL
);
CREATE INDEX answers ON results (route, number);

CREATE TABLE tallies (
    route         TEXT    PRIMARY KEY,
    total         INTEGER NOT NULL,
    answered_well INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE lanes (
    queue   TEXT    NOT NULL,
    tenant  TEXT    NOT NULL,
    pending INTEGER NOT NULL,
    retry   INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    dead    INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant)
) WITHOUT ROWID;

CREATE TRIGGER came AFTER INSERT ON messages WHEN NEW.state <> 'ended' BEGIN
    INSERT INTO lanes VALUES (
        NEW.queue, NEW.tenant, NEW.state = 'pending', NEW.state = 'retry',
        NEW.state = 'claimed', NEW.state = 'dead'
    ) ON CONFLICT DO UPDATE SET
        pending = pending + excluded.pending, retry = retry + excluded.retry,
        claimed = claimed + excluded.claimed, dead = dead + excluded.dead;
END;
CREATE TRIGGER moved AFTER UPDATE OF state ON messages WHEN OLD.state <> NEW.state BEGIN
    UPDATE lanes SET
        pending = pending + (NEW.state = 'pending') - (OLD.state = 'pending'),
        retry = retry + (NEW.state = 'retry') - (OLD.state = 'retry'),
        claimed = claimed + (NEW.state = 'claimed') - (OLD.state = 'claimed'),
        dead = dead + (NEW.state = 'dead') - (OLD.state = 'dead')
    WHERE queue = NEW.queue AND tenant = NEW.tenant;
END;
CREATE TRIGGER finished AFTER UPDATE OF state ON messages WHEN NEW.state = 'ended' BEGIN
    DELETE FROM lanes WHERE queue = NEW.queue AND tenant = NEW.tenant
        AND pending = 0 AND retry = 0 AND claimed = 0 AND dead = 0;
END;
CREATE TRIGGER gone AFTER DELETE ON messages WHEN OLD.state <> 'ended' BEGIN
    UPDATE lanes SET
        pending = pending - (OLD.state = 'pending'), retry = retry - (OLD.state = 'retry'),
        claimed = claimed - (OLD.state = 'claimed'), dead = dead - (OLD.state = 'dead')
    WHERE queue = OLD.queue AND tenant = OLD.tenant;
    DELETE FROM lanes WHERE queue = OLD.queue AND tenant = OLD.tenant
        AND pending = 0 AND retry = 0 AND claimed = 0 AND dead = 0;
END;
";

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// The file is empty.
    Empty,
    /// A queue of a known version.
    Known,
    /// A queue of a version that this program does not know.
    Newer(usize),
    /// A database of another program.
    Foreign,
}

/// Determines the format of a file.
pub(super) fn format(connection: &Connection) -> rusqlite::Result<FileFormat> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    Ok(match version {
        0 if tables == 0 => FileFormat::Empty,
        _ if application != i64::from(APPLICATION) => FileFormat::Foreign,
        _ if version > MIGRATIONS.len() => FileFormat::Newer(version),
        _ => FileFormat::Known,
    })
}

/// The newest known version.
pub(super) fn newest() -> usize {
    MIGRATIONS.len()
}

/// Migrates a file to the newest version, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = Transaction::new(connection, TransactionBehavior::Immediate)?;
    let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or_default();
    for sql in MIGRATIONS.iter().skip(version) {
        tx.execute_batch(sql)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    tx.commit()
}
