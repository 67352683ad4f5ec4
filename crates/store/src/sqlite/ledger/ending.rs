//! How a batch ends.

use rusqlite::{Transaction, params};

use super::super::rows::stamp;
use super::{Batch, BatchOutput, Status, batches, files};
use crate::message::Outcome;
use crate::moment::Moment;

pub(super) fn fail(
    step: &Transaction<'_>,
    (id, from): (&str, Status),
    flaws: &str,
    now: Moment,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE batches SET status = 'failed', ended = ?3, flaws = ?2, ending = 'failed' \
               WHERE id = ?1 AND status = ?4 AND ended IS NULL";
    Ok(step.prepare_cached(sql)?.execute(params![id, flaws, stamp(now), from])? > 0)
}

pub(super) fn cancel(
    step: &Transaction<'_>,
    id: &str,
    now: Moment,
) -> rusqlite::Result<Option<(Batch, bool)>> {
    let sql = "UPDATE batches SET status = 'cancelling', cancelling = ?2, ending = 'cancelled' \
               WHERE id = ?1 AND status IN ('validating', 'in_progress')";
    let changed = step.prepare_cached(sql)?.execute(params![id, stamp(now)])? > 0;
    Ok(batches::get(step, id)?.map(|batch| (batch, changed)))
}

pub(super) fn is_late(step: &Transaction<'_>, id: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM results WHERE route = ?1 AND error = ?2)";
    step.prepare_cached(sql)?.query_row(params![id, Outcome::DEADLINE], |row| row.get(0))
}

pub(super) fn begin(
    step: &Transaction<'_>,
    id: &str,
    ending: Status,
    now: Moment,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE batches SET status = 'finalizing', finalizing = ?3, ending = ?2 \
               WHERE id = ?1 AND status IN ('validating', 'in_progress')";
    Ok(step.prepare_cached(sql)?.execute(params![id, ending, stamp(now)])? > 0)
}

pub(super) fn finish(
    step: &Transaction<'_>,
    id: &str,
    written: &BatchOutput,
    now: Moment,
) -> rusqlite::Result<bool> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let name = |file: &Option<super::File>| file.as_ref().map(|file| file.id.clone());
    let sql = "UPDATE batches SET status = ending, ended = ?2, output = ?3, failures = ?4, \
               total = ?5, completed = ?6, failed = ?7 \
               WHERE id = ?1 AND ended IS NULL AND ending IS NOT NULL";
    let changed = step.prepare_cached(sql)?.execute(params![
        id,
        stamp(now),
        name(&written.output),
        name(&written.failures),
        number(written.counts.total),
        number(written.counts.completed),
        number(written.counts.failed),
    ])?;
    if changed == 0 {
        return Ok(false);
    }
    for file in [&written.output, &written.failures].into_iter().flatten() {
        files::insert(step, file)?;
    }
    Ok(true)
}
