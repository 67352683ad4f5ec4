//! [`Store::complete`](crate::Store::complete): stores the result and ends the message.

use rusqlite::Transaction;

use super::active::ActiveMessage;
use crate::ClaimRef;
use crate::message::Outcome;
use crate::moment::Moment;

pub(super) fn complete(
    tx: &Transaction<'_>,
    claim: &ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Some(message) = ActiveMessage::claimed(tx, claim)? else { return Ok(false) };
    message.end(tx, outcome, now)?;
    Ok(true)
}
