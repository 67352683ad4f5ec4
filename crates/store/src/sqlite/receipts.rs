//! Receipts: the rows of messages that have ended, which identify a message that is submitted
//! again.
//!
//! Receipts are kept for a day, and up to a maximum number. The end of every 1024th message sweeps
//! old receipts, and deletes more of them than could have been added since the last sweep.

use rusqlite::{Transaction, params};

use super::columns::millis;
use crate::moment::Moment;

/// How long a receipt is kept, in milliseconds: a day.
const AGE_MAX: i64 = 24 * 3600 * 1000;

/// The maximum number of receipts.
const COUNT_MAX: i64 = 100_000;

/// One message in this many sweeps.
const SWEEP_INTERVAL: i64 = 1024;

/// The receipts beyond the newest `?1`.
pub(super) const EXCESS: &str = "SELECT seq FROM messages WHERE ended IS NOT NULL \
     ORDER BY ended DESC LIMIT ?2 OFFSET ?1";

/// The receipts of messages that ended before `?1`.
pub(super) const AGED: &str = "SELECT seq FROM messages WHERE ended < ?1 ORDER BY ended LIMIT ?2";

/// Deletes old receipts, if the row `seq` is one that sweeps.
pub(super) fn sweep(tx: &Transaction<'_>, seq: i64, now: Moment) -> rusqlite::Result<()> {
    if seq % SWEEP_INTERVAL == 0 {
        delete(tx, AGED, millis(now).saturating_sub(AGE_MAX))?;
        delete(tx, EXCESS, COUNT_MAX)?;
    }
    Ok(())
}

/// Deletes some of the receipts that a query finds.
pub(super) fn delete(tx: &Transaction<'_>, query: &str, bound: i64) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM messages WHERE seq IN ({query})");
    tx.prepare_cached(&sql)?.execute(params![bound, SWEEP_INTERVAL * 2])?;
    Ok(())
}
