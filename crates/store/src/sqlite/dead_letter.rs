//! [`Store::dead_letter`](crate::Store::dead_letter): stores the result and keeps the message as a
//! dead letter.

use rusqlite::{Transaction, params};

use super::active::ActiveMessage;
use super::columns::millis;
use crate::ClaimRef;
use crate::message::Outcome;
use crate::moment::Moment;

pub(super) fn dead_letter(
    tx: &Transaction<'_>,
    claim: &ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Some(message) = ActiveMessage::claimed(tx, claim)? else { return Ok(false) };
    let sql = "UPDATE messages SET state = 'dead', due = NULL, token = NULL, cancelled = 0, \
               failures = failures + 1 WHERE seq = ?1";
    tx.prepare_cached(sql)?.execute([message.seq])?;
    let sql = "INSERT INTO dead (seq, queue, at, why) VALUES (?1, ?2, ?3, ?4)";
    let values = params![message.seq, message.queue, millis(now), outcome.why()];
    tx.prepare_cached(sql)?.execute(values)?;
    message.store_result(tx, outcome, now)?;
    Ok(true)
}
