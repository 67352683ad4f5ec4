//! The rows of files.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::columns::{self, first, millis, signed};
use super::{Added, File, ListQuery, Listed, OWNER_PART, ROWS_MAX, Removed};
use crate::moment::Moment;

const COLUMNS: &str = "id, name, purpose, bytes, created, expires, owner";

pub(super) fn add(
    tx: &Transaction<'_>,
    file: &File,
    own_bytes_max: u64,
) -> rusqlite::Result<Added> {
    let count: i64 = tx.prepare_cached("SELECT count(*) FROM files")?.query_row([], first)?;
    if u64::try_from(count).unwrap_or_default() >= ROWS_MAX {
        return Ok(Added::TooMany);
    }
    let sql = "SELECT count(*), ifnull(sum(bytes), 0) FROM files WHERE owner = ?1 AND owner <> ''";
    let counts = |row: &Row<'_>| Ok((columns::count(row, 0)?, columns::count(row, 1)?));
    let (own, bytes) = tx.prepare_cached(sql)?.query_row([&file.owner], counts)?;
    let is_over = !file.owner.is_empty() && bytes.saturating_add(file.bytes) > own_bytes_max;
    if own >= ROWS_MAX / OWNER_PART || is_over {
        return Ok(Added::TooMany);
    }
    insert(tx, file)?;
    Ok(Added::Kept)
}

/// Inserts a row without checking the maximum number.
pub(super) fn insert(tx: &Transaction<'_>, file: &File) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO files ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    tx.prepare_cached(&sql)?.execute(params![
        file.id,
        file.name,
        file.purpose,
        signed(file.bytes),
        millis(file.created),
        millis(file.expires),
        file.owner,
    ])?;
    Ok(())
}

pub(super) fn get(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<File>> {
    let sql = format!("SELECT {COLUMNS} FROM files WHERE id = ?1");
    tx.prepare_cached(&sql)?.query_row([id], read).optional()
}

pub(super) fn list(
    tx: &Transaction<'_>,
    query: &ListQuery,
) -> rusqlite::Result<Option<Listed<File>>> {
    let Some(after) = query.after_number(tx, "files")? else { return Ok(None) };
    let (relation, order) = query.direction();
    let sql = format!(
        "SELECT {COLUMNS} FROM files WHERE number {relation} ?1 AND (?2 IS NULL OR purpose = ?2) \
         AND (?4 IS NULL OR owner = ?4) ORDER BY number {order} LIMIT ?3"
    );
    let values = params![after, query.purpose, query.rows_max(), query.owner];
    let rows = tx.prepare_cached(&sql)?.query_map(values, read)?.collect::<Result<_, _>>()?;
    Ok(Some(query.cut(rows)))
}

pub(super) fn all(tx: &Transaction<'_>) -> rusqlite::Result<(Vec<String>, u64)> {
    let mut sql = tx.prepare_cached("SELECT id, bytes FROM files")?;
    let mut sum = 0;
    let mut found = sql.query([])?;
    let mut ids = Vec::new();
    while let Some(row) = found.next()? {
        ids.push(row.get(0)?);
        sum += columns::count(row, 1)?;
    }
    Ok((ids, sum))
}

pub(super) fn remove(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<Removed> {
    let Some(file) = get(tx, id)? else { return Ok(Removed::Unknown) };
    let sql = "SELECT id FROM batches WHERE input = ?1 AND ended IS NULL LIMIT 1";
    let user: Option<String> = tx.prepare_cached(sql)?.query_row([id], first).optional()?;
    if let Some(batch) = user {
        return Ok(Removed::Used(batch));
    }
    tx.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([id])?;
    Ok(Removed::Gone(file.bytes))
}

pub(super) fn old(
    tx: &Transaction<'_>,
    now: Moment,
    limit: usize,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT id FROM files WHERE expires <= ?1 AND NOT EXISTS (SELECT 1 FROM batches \
               WHERE input = files.id AND ended IS NULL) ORDER BY expires LIMIT ?2";
    tx.prepare_cached(sql)?.query_map(params![millis(now), limit as i64], first)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<File> {
    Ok(File {
        id: row.get(0)?,
        name: row.get(1)?,
        purpose: row.get(2)?,
        bytes: columns::count(row, 3)?,
        created: columns::moment(row, 4)?,
        expires: columns::moment(row, 5)?,
        owner: row.get(6)?,
    })
}

// === impl ListQuery ===

impl ListQuery {
    /// The number of the row after which the page begins; `None` when that row is unknown.
    pub(super) fn after_number(
        &self,
        tx: &Transaction<'_>,
        table: &str,
    ) -> rusqlite::Result<Option<i64>> {
        let Some(after) = &self.after else {
            return Ok(Some(if self.oldest_first { 0 } else { i64::MAX }));
        };
        let sql = format!("SELECT number FROM {table} WHERE id = ?1");
        tx.prepare_cached(&sql)?.query_row([after], first).optional()
    }

    /// How the numbers of the page compare to that number, and their order.
    pub(super) const fn direction(&self) -> (&'static str, &'static str) {
        if self.oldest_first { (">", "ASC") } else { ("<", "DESC") }
    }

    /// One more row than the page has, to know whether more rows follow.
    pub(super) fn rows_max(&self) -> i64 {
        columns::limit(self.limit).saturating_add(1)
    }

    /// Removes the row that is one too many.
    pub(super) fn cut<T>(&self, mut rows: Vec<T>) -> Listed<T> {
        let more = rows.len() > self.limit;
        rows.truncate(self.limit);
        Listed { rows, more }
    }
}
