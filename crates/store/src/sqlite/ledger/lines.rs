//! The lines of a batch, as messages and as results.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::columns::{count, first};
use super::super::take_results::read_result;
use super::ResultPlace;
use crate::message::StoredResult;

/// Counts the claimed lines.
pub(super) fn claimed(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM messages WHERE route = ?1 AND route <> '' AND ended IS NULL \
               AND state = 'claimed'";
    tx.prepare_cached(sql)?.query_row([id], |row| count(row, 0))
}

/// Deletes the claimed lines.
pub(super) fn abandon(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM messages WHERE route = ?1 AND route <> '' AND ended IS NULL \
               AND state = 'claimed'";
    Ok(tx.prepare_cached(sql)?.execute([id])? as u64)
}

/// Lists the positions of results.
pub(super) fn places(
    tx: &Transaction<'_>,
    id: &str,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<ResultPlace>> {
    let sql = "SELECT number, id FROM results WHERE route = ?1 AND number > ?2 \
               ORDER BY number LIMIT ?3";
    let read = |row: &Row<'_>| {
        let id = row.get_ref(1)?.as_str()?;
        // The route may hold a foreign result, which belongs to no line and is skipped.
        let line = id.rsplit('/').next().and_then(|line| line.parse().ok()).unwrap_or_default();
        Ok(ResultPlace { line, number: row.get(0)? })
    };
    tx.prepare_cached(sql)?.query_map(params![id, after, limit as i64], read)?.collect()
}

/// Reads the results at these positions.
pub(super) fn results(
    tx: &Transaction<'_>,
    places: &[ResultPlace],
    bytes: usize,
) -> rusqlite::Result<Vec<(u64, StoredResult)>> {
    let sql = "SELECT id, status, error, text, body FROM results WHERE number = ?1";
    let mut sql = tx.prepare_cached(sql)?;
    let mut found = Vec::new();
    let mut sum = 0;
    for place in places {
        if sum >= bytes {
            break;
        }
        let stored = sql.query_row([place.number], |row| read_result(row, 0)).optional()?;
        let Some(stored) = stored else { continue };
        sum += stored.body.len();
        found.push((place.line, stored));
    }
    Ok(found)
}

/// Deletes messages and results of a batch that has ended. When none is left, it marks the batch as
/// cleared.
pub(super) fn clear(tx: &Transaction<'_>, id: &str, limit: usize) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM batches WHERE id = ?1 AND ended IS NOT NULL AND cleared = 0";
    let due: Option<i64> = tx.prepare_cached(sql)?.query_row([id], first).optional()?;
    if due.is_none() {
        return Ok(true);
    }
    let limit = limit as i64;
    let sql = "DELETE FROM results WHERE number IN \
               (SELECT number FROM results WHERE route = ?1 LIMIT ?2)";
    let mut gone = tx.prepare_cached(sql)?.execute(params![id, limit])?;
    // This includes receipts of lines that have ended. The ids of all lines share a prefix, and the
    // character after the slash ends their range.
    let range = (format!("{id}/"), format!("{id}0"));
    let sql = "SELECT seq FROM messages WHERE id >= ?1 AND id < ?2 LIMIT ?3";
    let mut sql = tx.prepare_cached(sql)?;
    let found = sql.query_map(params![range.0, range.1, limit], first)?;
    for seq in found.collect::<Result<Vec<i64>, _>>()? {
        tx.prepare_cached("DELETE FROM dead WHERE seq = ?1")?.execute([seq])?;
        gone += tx.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([seq])?;
    }
    if gone > 0 {
        return Ok(false);
    }
    tx.prepare_cached("DELETE FROM tallies WHERE route = ?1")?.execute([id])?;
    tx.prepare_cached("UPDATE batches SET cleared = 1 WHERE id = ?1")?.execute([id])?;
    Ok(true)
}
