//! [`Store::depth`](crate::Store::depth): the number of messages in each state.

use rusqlite::Transaction;

use super::columns;
use crate::Depth;

pub(super) fn depth(tx: &Transaction<'_>, queue: &str) -> rusqlite::Result<Depth> {
    let sql = "SELECT ifnull(sum(pending), 0), ifnull(sum(retry), 0), ifnull(sum(claimed), 0), \
               ifnull(sum(dead), 0) FROM lanes WHERE queue = ?1";
    tx.prepare_cached(sql)?.query_row([queue], |row| {
        let count = |column| columns::count(row, column);
        Ok(Depth { pending: count(0)?, retry: count(1)?, claimed: count(2)?, dead: count(3)? })
    })
}
