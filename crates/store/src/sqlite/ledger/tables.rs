//! The tables of the ledger.

/// The SQL of the fifth version of the file.
pub(in crate::sqlite) const ADDRESSES: &str = "
ALTER TABLE batches ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX open_batches ON batches (address) WHERE address <> '' AND cleared = 0;
";

/// The SQL of the fourth version of the file.
pub(in crate::sqlite) const OWNERS: &str = "
ALTER TABLE files ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE batches ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX owned_files ON files (owner) WHERE owner <> '';
CREATE INDEX owned_batches ON batches (owner) WHERE owner <> '';
";

/// The SQL of the third version of the file.
pub(in crate::sqlite) const HEADERS: &str =
    "ALTER TABLE batches ADD COLUMN headers TEXT NOT NULL DEFAULT '{}';";

/// The SQL of the second version of the file.
pub(in crate::sqlite) const TABLES: &str = "
CREATE TABLE files (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT    NOT NULL UNIQUE,
    name    TEXT    NOT NULL,
    purpose TEXT    NOT NULL,
    bytes   INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
CREATE INDEX ageing ON files (expires);

CREATE TABLE batches (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    endpoint      TEXT    NOT NULL,
    input         TEXT    NOT NULL,
    span          TEXT    NOT NULL,
    tenant        TEXT    NOT NULL,
    metadata      TEXT,
    keep          INTEGER NOT NULL,
    created       INTEGER NOT NULL,
    deadline      INTEGER NOT NULL,
    status        TEXT    NOT NULL,
    in_progress   INTEGER,
    finalizing    INTEGER,
    cancelling    INTEGER,
    ended         INTEGER,
    total         INTEGER NOT NULL DEFAULT 0,
    completed     INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    queued        INTEGER NOT NULL DEFAULT 0,
    model         TEXT,
    output        TEXT,
    failures      TEXT,
    flaws         TEXT,
    ending        TEXT,
    cleared       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX underway ON batches (number) WHERE cleared = 0;
CREATE INDEX inputs ON batches (input) WHERE ended IS NULL;
CREATE INDEX past ON batches (ended) WHERE ended IS NOT NULL;
";
