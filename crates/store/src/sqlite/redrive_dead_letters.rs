//! [`Store::redrive_dead_letters`](crate::Store::redrive_dead_letters): makes dead letters pending
//! again.

use rusqlite::{Transaction, params};

use super::columns::{first, millis};
use super::list_dead_letters::{DeadRow, select};
use crate::message::{BATCH_ROUTE, ENDED_WITH_BATCH};
use crate::moment::Moment;
use crate::{Redriven, Selection};

pub(super) fn redrive_dead_letters(
    tx: &Transaction<'_>,
    queue: &str,
    selection: &Selection,
    now: Moment,
) -> rusqlite::Result<Redriven> {
    let mut redriven = Redriven::default();
    for dead in select(tx, queue, selection)? {
        if dead.route.starts_with(BATCH_ROUTE) {
            redriven.skip(&dead.id, ENDED_WITH_BATCH.into());
            continue;
        }
        redrive_one(tx, &dead, now)?;
        redriven.requeued += 1;
    }
    Ok(redriven)
}

/// Moves a message to the end of its lane.
fn redrive_one(tx: &Transaction<'_>, dead: &DeadRow, now: Moment) -> rusqlite::Result<()> {
    let deadline = now.after(dead.deadline.since(dead.created));
    let sql = "UPDATE messages SET seq = (SELECT max(seq) + 1 FROM messages), \
               state = 'pending', failures = 0, cancelled = 0, created = ?2, deadline = ?3 \
               WHERE seq = ?1 RETURNING seq";
    let values = params![dead.seq, millis(now), millis(deadline)];
    let seq: i64 = tx.prepare_cached(sql)?.query_row(values, first)?;
    let sql = "UPDATE bodies SET seq = ?2 WHERE seq = ?1";
    tx.prepare_cached(sql)?.execute([dead.seq, seq])?;
    tx.prepare_cached("DELETE FROM dead WHERE number = ?1")?.execute([dead.number])?;
    Ok(())
}
