//! A message that has not ended, and how it ends.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::columns::millis;
use super::receipts;
use crate::ClaimRef;
use crate::message::Outcome;
use crate::moment::Moment;

/// The columns of a message that its end needs.
pub(super) struct ActiveMessage {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) route: String,
}

// === impl ActiveMessage ===

impl ActiveMessage {
    /// Finds the message of a claim; `None` when the claim was lost.
    pub(super) fn claimed(
        tx: &Transaction<'_>,
        claim: &ClaimRef,
    ) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT seq, id, queue, route FROM messages WHERE seq = ?1 AND token = ?2";
        let values = params![claim.seq(), claim.token];
        tx.prepare_cached(sql)?.query_row(values, Self::read).optional()
    }

    /// Reads the columns seq, id, queue and route.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { seq: row.get(0)?, id: row.get(1)?, queue: row.get(2)?, route: row.get(3)? })
    }

    /// Ends the message: stores its result, deletes its body, and keeps the row as a receipt.
    pub(super) fn end(
        &self,
        tx: &Transaction<'_>,
        outcome: Outcome,
        now: Moment,
    ) -> rusqlite::Result<()> {
        let sql = "UPDATE messages SET state = 'ended', due = NULL, token = NULL, ended = ?2, \
                   metadata = '', headers = '' WHERE seq = ?1";
        tx.prepare_cached(sql)?.execute(params![self.seq, millis(now)])?;
        tx.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([self.seq])?;
        self.store_result(tx, outcome, now)?;
        receipts::sweep(tx, self.seq, now)
    }

    /// Stores the result, and counts it in the tally of the route if that has one.
    pub(super) fn store_result(
        &self,
        tx: &Transaction<'_>,
        outcome: Outcome,
        now: Moment,
    ) -> rusqlite::Result<()> {
        let route = if self.route.is_empty() { &self.queue } else { &self.route };
        let stored = outcome.stored(&self.id);
        let sql = "INSERT INTO results (route, id, at, status, error, text, body) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        tx.prepare_cached(sql)?.execute(params![
            route,
            stored.id,
            millis(now),
            stored.status,
            stored.error,
            stored.text,
            &stored.body[..],
        ])?;
        let succeeded = stored.status.is_some_and(|status| (200..300).contains(&status));
        let sql = "UPDATE tallies SET answered_well = answered_well + ?2, \
                   failed = failed + NOT ?2 WHERE route = ?1";
        tx.prepare_cached(sql)?.execute(params![route, succeeded])?;
        Ok(())
    }
}

// === impl ClaimRef ===

impl ClaimRef {
    /// The row of the message; `None` for a key that this engine did not make.
    pub(super) fn seq(&self) -> Option<i64> {
        self.key.parse().ok()
    }
}
