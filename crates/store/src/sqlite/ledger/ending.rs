//! The transitions that end a batch.

use rusqlite::{Transaction, params};

use super::super::columns::{first, millis, signed};
use super::{Batch, BatchOutput, Status, batches, files};
use crate::message::Outcome;
use crate::moment::Moment;

pub(super) fn fail(
    tx: &Transaction<'_>,
    (id, from): (&str, Status),
    flaws: &str,
    now: Moment,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE batches SET status = 'failed', ended = ?3, flaws = ?2, ending = 'failed' \
               WHERE id = ?1 AND status = ?4 AND ended IS NULL";
    Ok(tx.prepare_cached(sql)?.execute(params![id, flaws, millis(now), from])? > 0)
}

pub(super) fn cancel(
    tx: &Transaction<'_>,
    id: &str,
    now: Moment,
) -> rusqlite::Result<Option<(Batch, bool)>> {
    let sql = "UPDATE batches SET status = 'cancelling', cancelling = ?2, ending = 'cancelled' \
               WHERE id = ?1 AND status IN ('validating', 'in_progress')";
    let changed = tx.prepare_cached(sql)?.execute(params![id, millis(now)])? > 0;
    Ok(batches::get(tx, id)?.map(|batch| (batch, changed)))
}

pub(super) fn is_late(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM results WHERE route = ?1 AND error = ?2)";
    tx.prepare_cached(sql)?.query_row(params![id, Outcome::DEADLINE], first)
}

pub(super) fn begin(
    tx: &Transaction<'_>,
    id: &str,
    ending: Status,
    now: Moment,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE batches SET status = 'finalizing', finalizing = ?3, ending = ?2 \
               WHERE id = ?1 AND status IN ('validating', 'in_progress')";
    Ok(tx.prepare_cached(sql)?.execute(params![id, ending, millis(now)])? > 0)
}

pub(super) fn finish(
    tx: &Transaction<'_>,
    id: &str,
    output: &BatchOutput,
    now: Moment,
) -> rusqlite::Result<bool> {
    let name = |file: &Option<super::File>| file.as_ref().map(|file| file.id.clone());
    let sql = "UPDATE batches SET status = ending, ended = ?2, output = ?3, failures = ?4, \
               total = ?5, completed = ?6, failed = ?7 \
               WHERE id = ?1 AND ended IS NULL AND ending IS NOT NULL";
    let changed = tx.prepare_cached(sql)?.execute(params![
        id,
        millis(now),
        name(&output.output),
        name(&output.failures),
        signed(output.counts.total),
        signed(output.counts.completed),
        signed(output.counts.failed),
    ])?;
    if changed == 0 {
        return Ok(false);
    }
    for file in [&output.output, &output.failures].into_iter().flatten() {
        files::insert(tx, file)?;
    }
    Ok(true)
}
