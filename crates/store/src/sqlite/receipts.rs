//! Receipts: the rows of messages that have ended, by which one that is submitted again is known.
//!
//! They are kept for a day, and no more than so many. Old ones go when messages end: the end of
//! every so many-th message sweeps, and takes more with it than could have come since.

use rusqlite::{Transaction, params};

use super::rows::stamp;
use crate::moment::Moment;

/// For how long an ended message is known, in milliseconds: a day.
const KEPT: i64 = 24 * 3600 * 1000;

/// How many ended messages are known at most.
const MOST: i64 = 100_000;

/// One message in so many sweeps.
const EVERY: i64 = 1024;

/// The oldest receipts, from the one after so many, and those that ended before then.
pub(super) const OLD: &str = "SELECT seq FROM messages WHERE ended IS NOT NULL \
     ORDER BY ended DESC LIMIT ?2 OFFSET ?1";
pub(super) const AGED: &str = "SELECT seq FROM messages WHERE ended < ?1 ORDER BY ended LIMIT ?2";

/// Lets old receipts go, if it is this message's turn to do so.
pub(super) fn sweep(step: &Transaction<'_>, seq: i64, now: Moment) -> rusqlite::Result<()> {
    if seq % EVERY == 0 {
        forget(step, AGED, stamp(now).saturating_sub(KEPT))?;
        forget(step, OLD, MOST)?;
    }
    Ok(())
}

/// Lets some of these go.
pub(super) fn forget(step: &Transaction<'_>, which: &str, bound: i64) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM messages WHERE seq IN ({which})");
    step.prepare_cached(&sql)?.execute(params![bound, EVERY * 2])?;
    Ok(())
}
