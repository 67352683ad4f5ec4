//! [`Store::reclaim`](crate::Store::reclaim): makes messages pending again whose lease has expired
//! or that are due.

use rusqlite::{Transaction, params};

use super::columns::{millis, optional_moment};
use crate::Reclaimed;
use crate::moment::Moment;

/// The maximum number of messages of each state per call, so that other operations do not wait long
/// for the writer.
const RECLAIM_MAX: usize = 1000;

/// Makes the due messages of one state pending.
pub(super) const DUE: &str = "UPDATE messages SET state = 'pending', \
     failures = failures + (?2 = 'claimed'), due = NULL, token = NULL \
     WHERE seq IN (SELECT seq FROM messages \
     WHERE queue = ?1 AND state = ?2 AND due <= ?3 ORDER BY due LIMIT ?4)";

/// When the next message of one state is due.
pub(super) const NEXT_DUE: &str =
    "SELECT min(due) FROM messages WHERE queue = ?1 AND state = ?2 AND due IS NOT NULL";

pub(super) fn reclaim(
    tx: &Transaction<'_>,
    queue: &str,
    now: Moment,
) -> rusqlite::Result<Reclaimed> {
    let reclaim_state = |state: &str| {
        let values = params![queue, state, millis(now), RECLAIM_MAX as i64];
        tx.prepare_cached(DUE)?.execute(values).map(|count| count as u64)
    };
    let (lost, due) = (reclaim_state("claimed")?, reclaim_state("retry")?);
    let mut sql = tx.prepare_cached(NEXT_DUE)?;
    let mut next = |state: &str| sql.query_row([queue, state], |row| optional_moment(row, 0));
    let next = [next("claimed")?, next("retry")?].into_iter().flatten().min();
    Ok(Reclaimed { lost, due, next })
}

/// Makes all claimed messages pending, when the file is opened: its last owner has ended. This
/// counts as a failure of each, because one of them may have crashed the process. A message that
/// always does so becomes a dead letter in the end.
pub(super) fn recover(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "UPDATE messages SET state = 'pending', failures = failures + 1, due = NULL, \
               token = NULL WHERE state = 'claimed' AND due IS NOT NULL";
    tx.execute(sql, []).map(|_| ())
}
