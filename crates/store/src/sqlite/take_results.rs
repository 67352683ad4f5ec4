//! [`Store::take_results`](crate::Store::take_results): removes and returns results.

use rusqlite::{Row, Transaction, params};

use super::columns;
use crate::message::StoredResult;

/// The results of a route, oldest first.
pub(super) const RESULTS: &str = "SELECT number, id, status, error, text, body FROM results \
     WHERE route = ?1 ORDER BY number LIMIT ?2";

pub(super) fn take_results(
    tx: &Transaction<'_>,
    route: &str,
    limit: usize,
) -> rusqlite::Result<Vec<StoredResult>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, read_result(row, 1)?));
    let mut sql = tx.prepare_cached(RESULTS)?;
    let found = sql.query_map(params![route, columns::limit(limit)], read)?;
    let found: Vec<(i64, StoredResult)> = found.collect::<Result<_, _>>()?;
    let mut delete = tx.prepare_cached("DELETE FROM results WHERE number = ?1")?;
    let taken = found.into_iter().map(|(number, result)| {
        delete.execute([number])?;
        Ok(result)
    });
    taken.collect()
}

/// Reads a result from the columns id, status, error, text and body, which begin at `first`.
pub(super) fn read_result(row: &Row<'_>, first: usize) -> rusqlite::Result<StoredResult> {
    let (status, error, text) = (row.get(first + 1)?, row.get(first + 2)?, row.get(first + 3)?);
    let body = row.get::<_, Vec<u8>>(first + 4)?.into();
    Ok(StoredResult { id: row.get(first)?, status, body, error, text })
}
