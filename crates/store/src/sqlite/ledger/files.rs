//! Files: their rows.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::rows::{self, stamp};
use super::{Added, File, KEPT_MAX, ListQuery, Listed, Removed};
use crate::moment::Moment;

const COLUMNS: &str = "id, name, purpose, bytes, created, expires";

pub(super) fn add(step: &Transaction<'_>, file: &File) -> rusqlite::Result<Added> {
    let count: i64 = step.prepare_cached("SELECT count(*) FROM files")?.query_row([], first)?;
    if u64::try_from(count).unwrap_or_default() >= KEPT_MAX {
        return Ok(Added::TooMany);
    }
    insert(step, file)?;
    Ok(Added::Kept)
}

/// Keeps a row, however many there are.
pub(super) fn insert(step: &Transaction<'_>, file: &File) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO files ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    let bytes = i64::try_from(file.bytes).unwrap_or(i64::MAX);
    step.prepare_cached(&sql)?.execute(params![
        file.id,
        file.name,
        file.purpose,
        bytes,
        stamp(file.created),
        stamp(file.expires),
    ])?;
    Ok(())
}

pub(super) fn get(step: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<File>> {
    let sql = format!("SELECT {COLUMNS} FROM files WHERE id = ?1");
    step.prepare_cached(&sql)?.query_row([id], read).optional()
}

pub(super) fn list(
    step: &Transaction<'_>,
    page: &ListQuery,
) -> rusqlite::Result<Option<Listed<File>>> {
    let Some(after) = page.after_number(step, "files")? else { return Ok(None) };
    let (relation, order) = page.direction();
    let sql = format!(
        "SELECT {COLUMNS} FROM files WHERE number {relation} ?1 AND (?2 IS NULL OR purpose = ?2) \
         ORDER BY number {order} LIMIT ?3"
    );
    let values = params![after, page.purpose, page.limit()];
    let rows = step.prepare_cached(&sql)?.query_map(values, read)?.collect::<Result<_, _>>()?;
    Ok(Some(page.cut(rows)))
}

pub(super) fn all(step: &Transaction<'_>) -> rusqlite::Result<(Vec<String>, u64)> {
    let mut sql = step.prepare_cached("SELECT id, bytes FROM files")?;
    let mut sum = 0;
    let mut found = sql.query([])?;
    let mut ids = Vec::new();
    while let Some(row) = found.next()? {
        ids.push(row.get(0)?);
        sum += rows::count(row, 1)?;
    }
    Ok((ids, sum))
}

pub(super) fn remove(step: &Transaction<'_>, id: &str) -> rusqlite::Result<Removed> {
    let Some(file) = get(step, id)? else { return Ok(Removed::Unknown) };
    let sql = "SELECT id FROM batches WHERE input = ?1 AND ended IS NULL LIMIT 1";
    let user: Option<String> = step.prepare_cached(sql)?.query_row([id], first).optional()?;
    if let Some(batch) = user {
        return Ok(Removed::Used(batch));
    }
    step.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([id])?;
    Ok(Removed::Gone(file.bytes))
}

pub(super) fn old(
    step: &Transaction<'_>,
    now: Moment,
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT id FROM files WHERE expires <= ?1 AND NOT EXISTS (SELECT 1 FROM batches \
               WHERE input = files.id AND ended IS NULL) ORDER BY expires LIMIT ?2";
    step.prepare_cached(sql)?.query_map(params![stamp(now), most as i64], first)?.collect()
}

/// The first column.
pub(super) fn first<T: rusqlite::types::FromSql>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}

fn read(row: &Row<'_>) -> rusqlite::Result<File> {
    Ok(File {
        id: row.get(0)?,
        name: row.get(1)?,
        purpose: row.get(2)?,
        bytes: rows::count(row, 3)?,
        created: rows::moment(row, 4)?,
        expires: rows::moment(row, 5)?,
    })
}

// === impl ListQuery ===

impl ListQuery {
    /// The number of the row to begin after; nothing when that row is not known.
    pub(super) fn after_number(
        &self,
        step: &Transaction<'_>,
        table: &str,
    ) -> rusqlite::Result<Option<i64>> {
        let Some(after) = &self.after else {
            return Ok(Some(if self.oldest_first { 0 } else { i64::MAX }));
        };
        let sql = format!("SELECT number FROM {table} WHERE id = ?1");
        step.prepare_cached(&sql)?.query_row([after], first).optional()
    }

    /// How the next rows' numbers are to that one's, and in which order they come.
    pub(super) const fn direction(&self) -> (&'static str, &'static str) {
        if self.oldest_first { (">", "ASC") } else { ("<", "DESC") }
    }

    /// One more than wanted, to know whether there is more.
    pub(super) fn limit(&self) -> i64 {
        i64::try_from(self.most).unwrap_or(i64::MAX).saturating_add(1)
    }

    pub(super) fn cut<T>(&self, mut rows: Vec<T>) -> Listed<T> {
        let more = rows.len() > self.most;
        rows.truncate(self.most);
        Listed { rows, more }
    }
}
