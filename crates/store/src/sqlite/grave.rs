//! The dead: messages that failed too often. They have had their result, and wait for a person.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::rows::{self, stamp};
use crate::message::{BATCH_ROUTE, ENDED_WITH_BATCH};
use crate::moment::Moment;
use crate::{DeadLetter, Redriven, Selection};

/// The dead of a queue from a number on.
pub(super) const DEAD: &str = "SELECT d.number, m.id, d.at, d.why, m.failures \
     FROM dead d JOIN messages m USING (seq) \
     WHERE d.queue = ?1 AND d.number > ?2 ORDER BY d.number LIMIT ?3";

/// One of the dead.
struct Grave {
    number: i64,
    seq: i64,
    id: String,
    route: String,
    created: Moment,
    deadline: Moment,
}

/// The dead, oldest first.
pub(super) fn list(
    step: &Transaction<'_>,
    queue: &str,
    after: Option<u64>,
    most: usize,
) -> rusqlite::Result<Vec<DeadLetter>> {
    let after = after.map_or(0, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let read = |row: &Row<'_>| {
        let (number, at) = (rows::count(row, 0)?, rows::moment(row, 2)?);
        Ok(DeadLetter { number, id: row.get(1)?, at, why: row.get(3)?, failures: row.get(4)? })
    };
    step.prepare_cached(DEAD)?.query_map(params![queue, after, most], read)?.collect()
}

/// Lets the dead wait again, at the end of the line and with as much time as they had at first.
/// Lines of a batch stay: the batch has had their final answer.
pub(super) fn redrive(
    step: &Transaction<'_>,
    queue: &str,
    which: &Selection,
    now: Moment,
) -> rusqlite::Result<Redriven> {
    let mut redriven = Redriven::default();
    for grave in graves(step, queue, which)? {
        if grave.route.starts_with(BATCH_ROUTE) {
            redriven.stays(&grave.id, ENDED_WITH_BATCH.into());
            continue;
        }
        let deadline = now.after(grave.deadline.since(grave.created));
        let sql = "UPDATE messages SET seq = (SELECT max(seq) + 1 FROM messages), \
                   state = 'pending', failures = 0, cancelled = 0, created = ?2, deadline = ?3 \
                   WHERE seq = ?1 RETURNING seq";
        let values = params![grave.seq, stamp(now), stamp(deadline)];
        let seq: i64 = step.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        let sql = "UPDATE bodies SET seq = ?2 WHERE seq = ?1";
        step.prepare_cached(sql)?.execute([grave.seq, seq])?;
        step.prepare_cached("DELETE FROM dead WHERE number = ?1")?.execute([grave.number])?;
        redriven.requeued += 1;
    }
    Ok(redriven)
}

/// Forgets the dead.
pub(super) fn purge(
    step: &Transaction<'_>,
    queue: &str,
    which: &Selection,
) -> rusqlite::Result<u64> {
    let graves = graves(step, queue, which)?;
    for grave in &graves {
        step.prepare_cached("DELETE FROM dead WHERE number = ?1")?.execute([grave.number])?;
        step.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([grave.seq])?;
        step.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([grave.seq])?;
    }
    Ok(graves.len() as u64)
}

fn graves(step: &Transaction<'_>, queue: &str, which: &Selection) -> rusqlite::Result<Vec<Grave>> {
    let read = |row: &Row<'_>| {
        let (created, deadline) = (rows::moment(row, 4)?, rows::moment(row, 5)?);
        let (number, seq, id, route) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Grave { number, seq, id, route, created, deadline })
    };
    let columns = "SELECT d.number, m.seq, m.id, m.route, m.created, m.deadline FROM";
    match which {
        Selection::All => {
            let from = "dead d JOIN messages m USING (seq) WHERE d.queue = ?1 ORDER BY d.number";
            let mut sql = step.prepare_cached(&format!("{columns} {from}"))?;
            sql.query_map([queue], read)?.collect()
        }
        Selection::Ids(ids) => {
            let from = "messages m JOIN dead d USING (seq) WHERE d.queue = ?1 AND m.id = ?2";
            let mut sql = step.prepare_cached(&format!("{columns} {from}"))?;
            let find = |id: &String| sql.query_row([queue, id], read).optional().transpose();
            let once: BTreeSet<&String> = ids.iter().collect();
            once.into_iter().filter_map(find).collect()
        }
    }
}
