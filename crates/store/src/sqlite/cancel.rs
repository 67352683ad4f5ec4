//! [`Store::cancel`](crate::Store::cancel): ends a pending message as cancelled, and marks a
//! claimed one.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::active::ActiveMessage;
use crate::message::Outcome;
use crate::moment::Moment;

/// The messages of a route that are pending or due later.
pub(super) const ROUTE_WAITING: &str = "SELECT seq, id, queue, route, 0 FROM messages \
     WHERE route = ?1 AND route <> '' AND ended IS NULL AND state IN ('pending', 'retry') LIMIT ?2";

/// Marks the claimed messages of a route.
pub(super) const ROUTE_CLAIMED: &str = "UPDATE messages SET cancelled = 1 \
     WHERE route = ?1 AND route <> '' AND ended IS NULL AND state = 'claimed'";

pub(super) fn cancel(tx: &Transaction<'_>, id: &str, now: Moment) -> rusqlite::Result<bool> {
    let sql = "SELECT seq, id, queue, route, state = 'claimed' FROM messages \
               WHERE id = ?1 AND state IN ('pending', 'retry', 'claimed')";
    let found = tx.prepare_cached(sql)?.query_row([id], read).optional()?;
    let Some((message, claimed)) = found else { return Ok(false) };
    cancel_one(tx, &message, claimed, now)?;
    Ok(true)
}

/// Cancels messages of a route, and returns how many were pending. The caller repeats this until it
/// returns 0; each call marks the messages that are claimed by then.
pub(super) fn cancel_route(
    tx: &Transaction<'_>,
    route: &str,
    limit: usize,
    now: Moment,
) -> rusqlite::Result<u64> {
    tx.prepare_cached(ROUTE_CLAIMED)?.execute([route])?;
    let mut sql = tx.prepare_cached(ROUTE_WAITING)?;
    let found = sql.query_map(params![route, limit as i64], read)?;
    let found: Vec<(ActiveMessage, bool)> = found.collect::<Result<_, _>>()?;
    for (message, claimed) in &found {
        cancel_one(tx, message, *claimed, now)?;
    }
    Ok(found.len() as u64)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(ActiveMessage, bool)> {
    Ok((ActiveMessage::read(row)?, row.get(4)?))
}

fn cancel_one(
    tx: &Transaction<'_>,
    message: &ActiveMessage,
    claimed: bool,
    now: Moment,
) -> rusqlite::Result<()> {
    if claimed {
        let sql = "UPDATE messages SET cancelled = 1 WHERE seq = ?1";
        tx.prepare_cached(sql)?.execute([message.seq])?;
        return Ok(());
    }
    message.end(tx, Outcome::cancelled(), now)
}
