//! [`Store::release`](crate::Store::release): gives a claimed message back.

use rusqlite::{Transaction, params};

use super::columns::millis;
use crate::moment::Moment;
use crate::{ClaimRef, Release};

pub(super) fn release(
    tx: &Transaction<'_>,
    claim: &ClaimRef,
    release: Release,
    now: Moment,
) -> rusqlite::Result<bool> {
    // A cancelled message is pending at once, so that its result does not wait for the due time.
    let sql = "UPDATE messages SET token = NULL, failures = failures + ?3, \
               state = iif(?4 > ?5 AND NOT cancelled, 'retry', 'pending'), \
               due = iif(?4 > ?5 AND NOT cancelled, ?4, NULL) WHERE seq = ?1 AND token = ?2";
    let (due, now) = (millis(release.due), millis(now));
    let values = params![claim.seq(), claim.token, release.failed, due, now];
    Ok(tx.prepare_cached(sql)?.execute(values)? > 0)
}
