//! The lines of a batch, as messages and as results.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::rows;
use super::ResultPlace;
use super::files::first;
use crate::message::StoredResult;

/// How many lines are being sent.
pub(super) fn claimed(step: &Transaction<'_>, id: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM messages WHERE route = ?1 AND route <> '' AND ended IS NULL \
               AND state = 'claimed'";
    step.prepare_cached(sql)?.query_row([id], |row| rows::count(row, 0))
}

/// Forgets the lines that are being sent.
pub(super) fn abandon(step: &Transaction<'_>, id: &str) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM messages WHERE route = ?1 AND route <> '' AND ended IS NULL \
               AND state = 'claimed'";
    Ok(step.prepare_cached(sql)?.execute([id])? as u64)
}

/// Where results are.
pub(super) fn places(
    step: &Transaction<'_>,
    id: &str,
    after: i64,
    most: usize,
) -> rusqlite::Result<Vec<ResultPlace>> {
    let sql = "SELECT number, id FROM results WHERE route = ?1 AND number > ?2 \
               ORDER BY number LIMIT ?3";
    let read = |row: &Row<'_>| {
        let id = row.get_ref(1)?.as_str()?;
        // A result that somebody else put there has no line, and is passed over.
        let line = id.rsplit('/').next().and_then(|line| line.parse().ok()).unwrap_or_default();
        Ok(ResultPlace { line, number: row.get(0)? })
    };
    step.prepare_cached(sql)?.query_map(params![id, after, most as i64], read)?.collect()
}

/// The results at these places.
pub(super) fn results(
    step: &Transaction<'_>,
    places: &[ResultPlace],
    bytes: usize,
) -> rusqlite::Result<Vec<(u64, StoredResult)>> {
    let sql = "SELECT id, status, error, text, body FROM results WHERE number = ?1";
    let mut sql = step.prepare_cached(sql)?;
    let mut found = Vec::new();
    let mut sum = 0;
    for place in places {
        if sum >= bytes {
            break;
        }
        let stored = sql.query_row([place.number], stored).optional()?;
        let Some(stored) = stored else { continue };
        sum += stored.body.len();
        found.push((place.line, stored));
    }
    Ok(found)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredResult> {
    let body = row.get::<_, Vec<u8>>(4)?.into();
    let (status, error, text) = (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(StoredResult { id: row.get(0)?, status, body, error, text })
}

/// Forgets messages and results of a batch that has ended; when none is left, that there was
/// anything to forget.
pub(super) fn clear(step: &Transaction<'_>, id: &str, most: usize) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM batches WHERE id = ?1 AND ended IS NOT NULL AND cleared = 0";
    let due: Option<i64> = step.prepare_cached(sql)?.query_row([id], first).optional()?;
    if due.is_none() {
        return Ok(true);
    }
    let most = most as i64;
    let sql = "DELETE FROM results WHERE number IN \
               (SELECT number FROM results WHERE route = ?1 LIMIT ?2)";
    let mut gone = step.prepare_cached(sql)?.execute(params![id, most])?;
    // Also those that have ended, which stay as receipts: the ids of all lines begin alike, and the
    // letter after the slash ends their range.
    let range = (format!("{id}/"), format!("{id}0"));
    let sql = "SELECT seq FROM messages WHERE id >= ?1 AND id < ?2 LIMIT ?3";
    let mut sql = step.prepare_cached(sql)?;
    let found = sql.query_map(params![range.0, range.1, most], first)?;
    for seq in found.collect::<Result<Vec<i64>, _>>()? {
        step.prepare_cached("DELETE FROM dead WHERE seq = ?1")?.execute([seq])?;
        gone += step.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([seq])?;
    }
    if gone > 0 {
        return Ok(false);
    }
    step.prepare_cached("DELETE FROM tallies WHERE route = ?1")?.execute([id])?;
    step.prepare_cached("UPDATE batches SET cleared = 1 WHERE id = ?1")?.execute([id])?;
    Ok(true)
}
