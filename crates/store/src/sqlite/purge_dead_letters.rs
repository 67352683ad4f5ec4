//! [`Store::purge_dead_letters`](crate::Store::purge_dead_letters): deletes dead letters.

use rusqlite::Transaction;

use super::list_dead_letters::select;
use crate::Selection;

pub(super) fn purge_dead_letters(
    tx: &Transaction<'_>,
    queue: &str,
    selection: &Selection,
) -> rusqlite::Result<u64> {
    let selected = select(tx, queue, selection)?;
    for dead in &selected {
        tx.prepare_cached("DELETE FROM dead WHERE number = ?1")?.execute([dead.number])?;
        tx.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([dead.seq])?;
        tx.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([dead.seq])?;
    }
    Ok(selected.len() as u64)
}
