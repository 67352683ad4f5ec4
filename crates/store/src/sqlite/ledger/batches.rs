//! The rows of batches, until all their lines are submitted as messages.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::super::columns::{self, first, json, millis, optional_moment, signed};
use super::super::submit;
use super::files;
use super::{
    Added, Batch, BatchTimes, DueBatches, ListQuery, Listed, OPEN_BATCHES_MAX, OWNER_PART,
    ROWS_MAX, RequestCounts, Status,
};
use crate::error::StoreError;
use crate::message::Message;
use crate::moment::Moment;

/// The purpose of the input files of batches.
const PURPOSE: &str = "batch";

/// The columns in the order of [`read`]. Until the batch ends, the tally of its route counts the
/// results.
const SELECT: &str = "SELECT b.id, endpoint, input, span, tenant, metadata, keep, created, \
     deadline, status, in_progress, finalizing, cancelling, ended, b.total, \
     iif(ended IS NULL, ifnull(t.answered_well, 0), b.completed), \
     iif(ended IS NULL, ifnull(t.failed, 0), b.failed), queued, model, output, failures, flaws, \
     ending, headers, owner FROM batches b LEFT JOIN tallies t ON t.route = b.id";

pub(super) fn add(tx: &Transaction<'_>, batch: &Batch) -> Result<Added, StoreError> {
    let input = files::get(tx, &batch.input)?;
    if input.is_none_or(|file| file.purpose != PURPOSE || !file.is_seen_by(&batch.owner)) {
        return Ok(Added::NoInput);
    }
    let sql = "SELECT (SELECT count(*) FROM batches) >= ?1 OR \
               (SELECT count(*) FROM batches WHERE cleared = 0) >= ?2";
    let limits = [ROWS_MAX as i64, OPEN_BATCHES_MAX as i64];
    if tx.prepare_cached(sql)?.query_row(limits, first)? {
        return Ok(Added::TooMany);
    }
    let sql = "SELECT count(*) >= ?2 OR sum(cleared = 0) >= ?3 FROM batches \
               WHERE owner = ?1 AND owner <> ''";
    let parts = [ROWS_MAX, OPEN_BATCHES_MAX].map(|most| (most / OWNER_PART) as i64);
    let is_full: Option<bool> =
        tx.prepare_cached(sql)?.query_row(params![batch.owner, parts[0], parts[1]], first)?;
    if is_full == Some(true) {
        return Ok(Added::TooMany);
    }
    let sql = "SELECT count(*) >= ?2 FROM batches \
               WHERE address = ?1 AND address <> '' AND cleared = 0";
    let most = (OPEN_BATCHES_MAX - OPEN_BATCHES_MAX / OWNER_PART) as i64;
    if tx.prepare_cached(sql)?.query_row(params![batch.address, most], first)? {
        return Ok(Added::TooMany);
    }
    let sql = "INSERT INTO batches (id, endpoint, input, span, tenant, metadata, keep, created, \
               deadline, status, headers, owner, address) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    tx.prepare_cached(sql)?.execute(params![
        batch.id,
        batch.endpoint,
        batch.input,
        batch.window,
        batch.tenant,
        batch.metadata,
        i64::try_from(batch.keep.as_millis()).unwrap_or(i64::MAX),
        millis(batch.created),
        millis(batch.deadline),
        Status::Validating,
        json(&batch.headers)?,
        batch.owner,
        batch.address,
    ])?;
    Ok(Added::Kept)
}

pub(super) fn get(tx: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<Batch>> {
    let sql = format!("{SELECT} WHERE b.id = ?1");
    tx.prepare_cached(&sql)?.query_row([id], read).optional()
}

pub(super) fn list(
    tx: &Transaction<'_>,
    query: &ListQuery,
) -> rusqlite::Result<Option<Listed<Batch>>> {
    let Some(after) = query.after_number(tx, "batches")? else { return Ok(None) };
    let (relation, order) = query.direction();
    let sql = format!(
        "{SELECT} WHERE number {relation} ?1 AND (?3 IS NULL OR owner = ?3) \
         ORDER BY number {order} LIMIT ?2"
    );
    let mut sql = tx.prepare_cached(&sql)?;
    let values = params![after, query.rows_max(), query.owner];
    let rows = sql.query_map(values, read)?.collect::<Result<_, _>>()?;
    Ok(Some(query.cut(rows)))
}

/// All batches except those that wait for results and whose deadline has not passed.
pub(super) fn due(tx: &Transaction<'_>, now: Moment, old: Moment) -> rusqlite::Result<DueBatches> {
    let sql = "SELECT b.id, status = 'in_progress' AND deadline > ?1 AND \
               t.answered_well + t.failed < t.total FROM batches b LEFT JOIN tallies t \
               ON t.route = b.id WHERE cleared = 0 ORDER BY number";
    let mut due = DueBatches { old: is_any_old(tx, now, old)?, ..DueBatches::default() };
    let mut sql = tx.prepare_cached(sql)?;
    let mut found = sql.query([millis(now)])?;
    while let Some(row) = found.next()? {
        if row.get::<_, Option<bool>>(1)? == Some(true) {
            due.underway = true;
        } else {
            due.ids.push(row.get(0)?);
        }
    }
    Ok(due)
}

fn is_any_old(tx: &Transaction<'_>, now: Moment, old: Moment) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM files WHERE expires <= ?1) \
               OR EXISTS (SELECT 1 FROM batches WHERE ended < ?2)";
    tx.prepare_cached(sql)?.query_row([millis(now), millis(old)], first)
}

pub(super) fn forget(tx: &Transaction<'_>, before: Moment, limit: usize) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM batches WHERE number IN (SELECT number FROM batches WHERE ended < ?1 \
               AND cleared ORDER BY ended LIMIT ?2)";
    let count = tx.prepare_cached(sql)?.execute(params![millis(before), limit as i64])?;
    Ok(count as u64)
}

pub(super) fn accept(
    tx: &Transaction<'_>,
    id: &str,
    total: u64,
    model: Option<String>,
) -> rusqlite::Result<bool> {
    let total = signed(total);
    let sql = "UPDATE batches SET total = ?2, model = ?3 WHERE id = ?1 AND status = 'validating'";
    if tx.prepare_cached(sql)?.execute(params![id, total, model])? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO tallies (route, total) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    tx.prepare_cached(sql)?.execute(params![id, total])?;
    Ok(true)
}

pub(super) fn enqueue(
    tx: &Transaction<'_>,
    (id, from): (&str, u64),
    lines: &[Message],
    now: Moment,
) -> Result<bool, StoreError> {
    let next = from + lines.len() as u64;
    let sql = "UPDATE batches SET queued = ?3, \
               status = iif(?3 >= total, 'in_progress', status), \
               in_progress = iif(?3 >= total, ?4, NULL) \
               WHERE id = ?1 AND status = 'validating' AND queued = ?2";
    let values = params![id, from as i64, next as i64, millis(now)];
    if tx.prepare_cached(sql)?.execute(values)? == 0 {
        return Ok(false);
    }
    submit::submit(tx, lines)?;
    Ok(true)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Batch> {
    let time = |column| optional_moment(row, column);
    Ok(Batch {
        id: row.get(0)?,
        endpoint: row.get(1)?,
        input: row.get(2)?,
        window: row.get(3)?,
        tenant: row.get(4)?,
        metadata: row.get(5)?,
        keep: Duration::from_millis(columns::count(row, 6)?),
        created: columns::moment(row, 7)?,
        deadline: columns::moment(row, 8)?,
        status: row.get(9)?,
        times: BatchTimes {
            in_progress: time(10)?,
            finalizing: time(11)?,
            cancelling: time(12)?,
            ended: time(13)?,
        },
        counts: RequestCounts {
            total: columns::count(row, 14)?,
            completed: columns::count(row, 15)?,
            failed: columns::count(row, 16)?,
        },
        queued: columns::count(row, 17)?,
        model: row.get(18)?,
        output: row.get(19)?,
        failures: row.get(20)?,
        flaws: row.get(21)?,
        ending: row.get(22)?,
        headers: columns::map(row, 23)?,
        address: String::new(),
        owner: row.get(24)?,
    })
}
