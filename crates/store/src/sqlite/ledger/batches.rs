//! Batches: their rows, from the first to where all their lines wait as messages.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::rows::{self, stamp};
use super::super::{error, queue};
use super::files::{self, first};
use super::{
    Added, Batch, BatchTimes, DueBatches, KEPT_MAX, ListQuery, Listed, OPEN_MAX, RequestCounts,
    Status,
};
use crate::error::StoreError;
use crate::message::Message;
use crate::moment::Moment;

/// The purpose of files that can be the input of a batch.
const PURPOSE: &str = "batch";

/// The columns in the order in which [`read`] reads them. While lines are being answered, the tally
/// of the queue knows how many were.
const SELECT: &str = "SELECT b.id, endpoint, input, span, tenant, metadata, keep, created, \
     deadline, status, in_progress, finalizing, cancelling, ended, b.total, \
     iif(ended IS NULL, ifnull(t.answered_well, 0), b.completed), \
     iif(ended IS NULL, ifnull(t.failed, 0), b.failed), queued, model, output, failures, flaws, \
     ending FROM batches b LEFT JOIN tallies t ON t.route = b.id";

pub(super) fn add(step: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<Added> {
    let input = files::get(step, &batch.input)?;
    if input.is_none_or(|file| file.purpose != PURPOSE) {
        return Ok(Added::NoInput);
    }
    let sql = "SELECT (SELECT count(*) FROM batches) >= ?1 OR \
               (SELECT count(*) FROM batches WHERE cleared = 0) >= ?2";
    let limits = [KEPT_MAX as i64, OPEN_MAX as i64];
    if step.prepare_cached(sql)?.query_row(limits, first)? {
        return Ok(Added::TooMany);
    }
    let sql = "INSERT INTO batches (id, endpoint, input, span, tenant, metadata, keep, created, \
               deadline, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    step.prepare_cached(sql)?.execute(params![
        batch.id,
        batch.endpoint,
        batch.input,
        batch.window,
        batch.tenant,
        batch.metadata,
        i64::try_from(batch.keep.as_millis()).unwrap_or(i64::MAX),
        stamp(batch.created),
        stamp(batch.deadline),
        Status::Validating,
    ])?;
    Ok(Added::Kept)
}

pub(super) fn get(step: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<Batch>> {
    let sql = format!("{SELECT} WHERE b.id = ?1");
    step.prepare_cached(&sql)?.query_row([id], read).optional()
}

pub(super) fn list(
    step: &Transaction<'_>,
    page: &ListQuery,
) -> rusqlite::Result<Option<Listed<Batch>>> {
    let Some(after) = page.after_number(step, "batches")? else { return Ok(None) };
    let (relation, order) = page.direction();
    let sql = format!("{SELECT} WHERE number {relation} ?1 ORDER BY number {order} LIMIT ?2");
    let mut sql = step.prepare_cached(&sql)?;
    let rows = sql.query_map([after, page.limit()], read)?.collect::<Result<_, _>>()?;
    Ok(Some(page.cut(rows)))
}

/// All but those whose lines are being answered and that have time left.
pub(super) fn due(
    step: &Transaction<'_>,
    now: Moment,
    old: Moment,
) -> rusqlite::Result<DueBatches> {
    let sql = "SELECT b.id, status = 'in_progress' AND deadline > ?1 AND \
               t.answered_well + t.failed < t.total FROM batches b LEFT JOIN tallies t \
               ON t.route = b.id WHERE cleared = 0 ORDER BY number";
    let mut due = DueBatches { old: is_any_old(step, now, old)?, ..DueBatches::default() };
    let mut sql = step.prepare_cached(sql)?;
    let mut found = sql.query([stamp(now)])?;
    while let Some(row) = found.next()? {
        if row.get::<_, Option<bool>>(1)? == Some(true) {
            due.underway = true;
        } else {
            due.ids.push(row.get(0)?);
        }
    }
    Ok(due)
}

fn is_any_old(step: &Transaction<'_>, now: Moment, old: Moment) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM files WHERE expires <= ?1) \
               OR EXISTS (SELECT 1 FROM batches WHERE ended < ?2)";
    step.prepare_cached(sql)?.query_row([stamp(now), stamp(old)], first)
}

pub(super) fn forget(step: &Transaction<'_>, before: Moment, most: usize) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM batches WHERE number IN (SELECT number FROM batches WHERE ended < ?1 \
               AND cleared ORDER BY ended LIMIT ?2)";
    let count = step.prepare_cached(sql)?.execute(params![stamp(before), most as i64])?;
    Ok(count as u64)
}

pub(super) fn accept(
    step: &Transaction<'_>,
    id: &str,
    total: u64,
    model: Option<String>,
) -> rusqlite::Result<bool> {
    let total = i64::try_from(total).unwrap_or(i64::MAX);
    let sql = "UPDATE batches SET total = ?2, model = ?3 WHERE id = ?1 AND status = 'validating'";
    if step.prepare_cached(sql)?.execute(params![id, total, model])? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO tallies (route, total) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    step.prepare_cached(sql)?.execute(params![id, total])?;
    Ok(true)
}

pub(super) fn enqueue(
    step: &Transaction<'_>,
    (id, from): (&str, u64),
    lines: &[Message],
    now: Moment,
) -> Result<bool, StoreError> {
    let next = from + lines.len() as u64;
    let advance = || {
        let sql = "UPDATE batches SET queued = ?3, \
                   status = iif(?3 >= total, 'in_progress', status), \
                   in_progress = iif(?3 >= total, ?4, NULL) \
                   WHERE id = ?1 AND status = 'validating' AND queued = ?2";
        let values = params![id, from as i64, next as i64, stamp(now)];
        step.prepare_cached(sql)?.execute(values)
    };
    if advance().map_err(error::from)? == 0 {
        return Ok(false);
    }
    queue::submit(step, lines)?;
    Ok(true)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Batch> {
    let time =
        |column| row.get::<_, Option<i64>>(column)?.map(|_| rows::moment(row, column)).transpose();
    Ok(Batch {
        id: row.get(0)?,
        endpoint: row.get(1)?,
        input: row.get(2)?,
        window: row.get(3)?,
        tenant: row.get(4)?,
        metadata: row.get(5)?,
        keep: Duration::from_millis(rows::count(row, 6)?),
        created: rows::moment(row, 7)?,
        deadline: rows::moment(row, 8)?,
        status: row.get(9)?,
        times: BatchTimes {
            in_progress: time(10)?,
            finalizing: time(11)?,
            cancelling: time(12)?,
            ended: time(13)?,
        },
        counts: RequestCounts {
            total: rows::count(row, 14)?,
            completed: rows::count(row, 15)?,
            failed: rows::count(row, 16)?,
        },
        queued: rows::count(row, 17)?,
        model: row.get(18)?,
        output: row.get(19)?,
        failures: row.get(20)?,
        flaws: row.get(21)?,
        ending: row.get(22)?,
    })
}
