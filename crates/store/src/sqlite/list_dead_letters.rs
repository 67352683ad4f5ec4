//! [`Store::list_dead_letters`](crate::Store::list_dead_letters): lists dead letters; and how
//! [`redrive_dead_letters`](super::redrive_dead_letters) and
//! [`purge_dead_letters`](super::purge_dead_letters) find theirs.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::columns::{self, signed};
use crate::moment::Moment;
use crate::{DeadLetter, Selection};

/// The dead letters of a queue after a number.
pub(super) const DEAD_LETTERS: &str = "SELECT d.number, m.id, d.at, d.why, m.failures \
     FROM dead d JOIN messages m USING (seq) \
     WHERE d.queue = ?1 AND d.number > ?2 ORDER BY d.number LIMIT ?3";

/// The columns of a dead letter that redriving or purging it needs.
pub(super) struct DeadRow {
    pub(super) number: i64,
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) route: String,
    pub(super) created: Moment,
    pub(super) deadline: Moment,
}

pub(super) fn list_dead_letters(
    tx: &Transaction<'_>,
    queue: &str,
    after: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<DeadLetter>> {
    let after = after.map_or(0, signed);
    let read = |row: &Row<'_>| {
        let (number, at) = (columns::count(row, 0)?, columns::moment(row, 2)?);
        Ok(DeadLetter { number, id: row.get(1)?, at, why: row.get(3)?, failures: row.get(4)? })
    };
    let values = params![queue, after, columns::limit(limit)];
    tx.prepare_cached(DEAD_LETTERS)?.query_map(values, read)?.collect()
}

/// Finds the selected dead letters of a queue.
pub(super) fn select(
    tx: &Transaction<'_>,
    queue: &str,
    selection: &Selection,
) -> rusqlite::Result<Vec<DeadRow>> {
    let columns = "SELECT d.number, m.seq, m.id, m.route, m.created, m.deadline FROM";
    match selection {
        Selection::All => {
            let from = "dead d JOIN messages m USING (seq) WHERE d.queue = ?1 ORDER BY d.number";
            let mut sql = tx.prepare_cached(&format!("{columns} {from}"))?;
            sql.query_map([queue], DeadRow::read)?.collect()
        }
        Selection::Ids(ids) => {
            let from = "messages m JOIN dead d USING (seq) WHERE d.queue = ?1 AND m.id = ?2";
            let mut sql = tx.prepare_cached(&format!("{columns} {from}"))?;
            let find =
                |id: &String| sql.query_row([queue, id], DeadRow::read).optional().transpose();
            let distinct: BTreeSet<&String> = ids.iter().collect();
            distinct.into_iter().filter_map(find).collect()
        }
    }
}

// === impl DeadRow ===

impl DeadRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (created, deadline) = (columns::moment(row, 4)?, columns::moment(row, 5)?);
        let (number, seq, id, route) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Self { number, seq, id, route, created, deadline })
    }
}
