//! What can be seen without changing it, and the results, which are taken away.

use rusqlite::{Row, Transaction, params};

use super::rows;
use crate::message::StoredResult;
use crate::{Depth, Lane};

/// Tenants, how many messages each has waiting, and the first deadline among them.
pub(super) const LANES: &str = "SELECT tenant, pending, \
     (SELECT deadline FROM messages m WHERE m.queue = l.queue AND m.tenant = l.tenant \
      AND m.state = 'pending' ORDER BY deadline, seq LIMIT 1) \
     FROM lanes l WHERE queue = ?1 AND pending > 0";

/// Results that went one way.
pub(super) const RESULTS: &str = "SELECT number, id, status, error, text, body FROM results \
     WHERE route = ?1 ORDER BY number LIMIT ?2";

/// Who has something to claim.
pub(super) fn lanes(step: &Transaction<'_>, queue: &str) -> rusqlite::Result<Vec<Lane>> {
    let read = |row: &Row<'_>| {
        let (waiting, deadline) = (rows::count(row, 1)?, rows::moment(row, 2)?);
        Ok(Lane { tenant: row.get(0)?, waiting, deadline })
    };
    step.prepare_cached(LANES)?.query_map([queue], read)?.collect()
}

/// How much of what a queue has.
pub(super) fn depth(step: &Transaction<'_>, queue: &str) -> rusqlite::Result<Depth> {
    let sql = "SELECT ifnull(sum(pending), 0), ifnull(sum(retry), 0), ifnull(sum(claimed), 0), \
               ifnull(sum(dead), 0) FROM lanes WHERE queue = ?1";
    step.prepare_cached(sql)?.query_row([queue], |row| {
        let count = |column| rows::count(row, column);
        Ok(Depth { pending: count(0)?, retry: count(1)?, claimed: count(2)?, dead: count(3)? })
    })
}

/// Takes results away, oldest first.
pub(super) fn take_results(
    step: &Transaction<'_>,
    route: &str,
    most: usize,
) -> rusqlite::Result<Vec<StoredResult>> {
    let read = |row: &Row<'_>| {
        let body = row.get::<_, Vec<u8>>(5)?.into();
        let (status, error, text) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok((row.get(0)?, StoredResult { id: row.get(1)?, status, body, error, text }))
    };
    let mut sql = step.prepare_cached(RESULTS)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let found = sql.query_map(params![route, most], read)?;
    let found: Vec<(i64, StoredResult)> = found.collect::<Result<_, _>>()?;
    let mut forget = step.prepare_cached("DELETE FROM results WHERE number = ?1")?;
    let taken = found.into_iter().map(|(number, stored)| {
        forget.execute([number])?;
        Ok(stored)
    });
    taken.collect()
}
