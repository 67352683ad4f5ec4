//! The life of a message, verb by verb, each inside somebody's transaction.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::rows::{self, stamp};
use super::{error, receipts};
use crate::error::StoreError;
use crate::message::{Message, Outcome};
use crate::moment::Moment;
use crate::{Claim, ClaimRef, ClaimRequest, Receipt, Reclaimed, Release, Standing};

/// The most that one claim takes, so that its bodies fit into memory.
const CLAIM: usize = 256;

/// The most of each kind that one look brings back, so that nobody waits long for the writer.
const REVIVE: usize = 1000;

/// Brings back what is due of those in one state.
pub(super) const BACK: &str = "UPDATE messages SET state = 'pending', \
     failures = failures + (?2 = 'claimed'), due = NULL, token = NULL \
     WHERE seq IN (SELECT seq FROM messages \
     WHERE queue = ?1 AND state = ?2 AND due <= ?3 ORDER BY due LIMIT ?4)";

/// When the next of those in one state is due.
pub(super) const WAKE: &str =
    "SELECT min(due) FROM messages WHERE queue = ?1 AND state = ?2 AND due IS NOT NULL";

/// Those that go one way and wait, and those that are claimed.
pub(super) const ROUTED: &str = "SELECT seq, id, queue, route, 0 FROM messages \
     WHERE route = ?1 AND route <> '' AND ended IS NULL AND state IN ('pending', 'retry') LIMIT ?2";
pub(super) const ROUTED_CLAIMED: &str = "UPDATE messages SET cancelled = 1 \
     WHERE route = ?1 AND route <> '' AND ended IS NULL AND state = 'claimed'";

/// A claimed message, as far as its end needs it.
struct Open {
    seq: i64,
    id: String,
    queue: String,
    route: String,
}

/// Keeps messages that are not known yet.
pub(super) fn submit(
    step: &Transaction<'_>,
    messages: &[Message],
) -> Result<Vec<Receipt>, StoreError> {
    messages.iter().map(|message| submit_one(step, message)).collect()
}

fn submit_one(step: &Transaction<'_>, message: &Message) -> Result<Receipt, StoreError> {
    message.check()?;
    let known = || {
        let mut sql = step.prepare_cached("SELECT digest FROM messages WHERE id = ?1")?;
        sql.query_row([&message.id], |row| row.get::<_, Vec<u8>>(0)).optional()
    };
    match known().map_err(error::from)? {
        Some(digest) if digest == message.digest() => Ok(Receipt::Duplicate),
        Some(_) => Ok(Receipt::Conflict),
        None => rows::insert(step, message).map(|()| Receipt::Accepted),
    }
}

/// Takes messages of one lane.
pub(super) fn claim(step: &Transaction<'_>, want: &ClaimRequest) -> rusqlite::Result<Vec<Claim>> {
    let most = want.limit.min(CLAIM) as i64;
    let mut sql = step.prepare_cached(rows::NEXT)?;
    let found = sql.query_map(params![want.queue, want.tenant, most], |row| {
        let seq: i64 = row.get(16)?;
        let held = ClaimRef { queue: row.get(1)?, key: seq.to_string(), token: String::new() };
        let (failures, cancelled) = (row.get(14)?, row.get(15)?);
        Ok((seq, Claim { reference: held, message: rows::message(row)?, failures, cancelled }))
    })?;
    let found: Vec<(i64, Claim)> = found.collect::<Result<_, _>>()?;
    let mut take = step.prepare_cached(
        "UPDATE messages SET state = 'claimed', due = ?2, token = lower(hex(randomblob(16))) \
         WHERE seq = ?1 RETURNING token",
    )?;
    let taken = found.into_iter().map(|(seq, mut claim)| {
        claim.reference.token =
            take.query_row(params![seq, stamp(want.until)], |row| row.get(0))?;
        Ok(claim)
    });
    taken.collect()
}

/// Holds claims longer.
pub(super) fn renew(
    step: &Transaction<'_>,
    held: &[ClaimRef],
    until: Moment,
) -> rusqlite::Result<Vec<Standing>> {
    let sql = "UPDATE messages SET due = ?3 WHERE seq = ?1 AND token = ?2 RETURNING cancelled";
    let mut sql = step.prepare_cached(sql)?;
    let look = |held: &ClaimRef| {
        let found = sql.query_row(params![held.seq(), held.token, stamp(until)], cancelled);
        Ok(Standing::of(found.optional()?))
    };
    held.iter().map(look).collect()
}

/// How claims stand.
pub(super) fn standing(
    step: &Transaction<'_>,
    held: &[ClaimRef],
) -> rusqlite::Result<Vec<Standing>> {
    let sql = "SELECT cancelled FROM messages WHERE seq = ?1 AND token = ?2";
    let mut sql = step.prepare_cached(sql)?;
    let look = |held: &ClaimRef| {
        let found = sql.query_row(params![held.seq(), held.token], cancelled);
        Ok(Standing::of(found.optional()?))
    };
    held.iter().map(look).collect()
}

fn cancelled(row: &Row<'_>) -> rusqlite::Result<bool> {
    row.get(0)
}

/// Keeps the result and a receipt.
pub(super) fn complete(
    step: &Transaction<'_>,
    held: &ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Some(open) = open(step, held)? else { return Ok(false) };
    end(step, &open, outcome, now)?;
    Ok(true)
}

/// Keeps the result, and the message among the dead.
pub(super) fn dead_letter(
    step: &Transaction<'_>,
    held: &ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Some(open) = open(step, held)? else { return Ok(false) };
    let sql = "UPDATE messages SET state = 'dead', due = NULL, token = NULL, cancelled = 0, \
               failures = failures + 1 WHERE seq = ?1";
    step.prepare_cached(sql)?.execute([open.seq])?;
    let sql = "INSERT INTO dead (seq, queue, at, why) VALUES (?1, ?2, ?3, ?4)";
    let why = outcome.why();
    step.prepare_cached(sql)?.execute(params![open.seq, open.queue, stamp(now), why])?;
    keep(step, &open, outcome, now)?;
    Ok(true)
}

/// The message of a claim, unless that was lost.
fn open(step: &Transaction<'_>, held: &ClaimRef) -> rusqlite::Result<Option<Open>> {
    let sql = "SELECT seq, id, queue, route FROM messages WHERE seq = ?1 AND token = ?2";
    let read = |row: &Row<'_>| {
        Ok(Open { seq: row.get(0)?, id: row.get(1)?, queue: row.get(2)?, route: row.get(3)? })
    };
    step.prepare_cached(sql)?.query_row(params![held.seq(), held.token], read).optional()
}

/// Ends a message: its result is kept, its body goes, and the row stays as a receipt.
fn end(step: &Transaction<'_>, open: &Open, outcome: Outcome, now: Moment) -> rusqlite::Result<()> {
    let sql = "UPDATE messages SET state = 'ended', due = NULL, token = NULL, ended = ?2, \
               metadata = '', headers = '' WHERE seq = ?1";
    step.prepare_cached(sql)?.execute(params![open.seq, stamp(now)])?;
    step.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([open.seq])?;
    keep(step, open, outcome, now)?;
    receipts::sweep(step, open.seq, now)
}

/// Keeps a result, and counts it where somebody counts.
fn keep(
    step: &Transaction<'_>,
    open: &Open,
    outcome: Outcome,
    now: Moment,
) -> rusqlite::Result<()> {
    let route = if open.route.is_empty() { &open.queue } else { &open.route };
    let stored = outcome.stored(&open.id);
    let sql = "INSERT INTO results (route, id, at, status, error, text, body) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    step.prepare_cached(sql)?.execute(params![
        route,
        stored.id,
        stamp(now),
        stored.status,
        stored.error,
        stored.text,
        &stored.body[..],
    ])?;
    let well = stored.status.is_some_and(|status| (200..300).contains(&status));
    let sql = "UPDATE tallies SET answered_well = answered_well + ?2, failed = failed + NOT ?2 \
               WHERE route = ?1";
    step.prepare_cached(sql)?.execute(params![route, well])?;
    Ok(())
}

/// Gives a message back.
pub(super) fn release(
    step: &Transaction<'_>,
    held: &ClaimRef,
    back: Release,
    now: Moment,
) -> rusqlite::Result<bool> {
    // Whoever wants it cancelled does not want to wait until it is due.
    let sql = "UPDATE messages SET token = NULL, failures = failures + ?3, \
               state = iif(?4 > ?5 AND NOT cancelled, 'retry', 'pending'), \
               due = iif(?4 > ?5 AND NOT cancelled, ?4, NULL) WHERE seq = ?1 AND token = ?2";
    let (due, now) = (stamp(back.due), stamp(now));
    let values = params![held.seq(), held.token, back.failed, due, now];
    Ok(step.prepare_cached(sql)?.execute(values)? > 0)
}

/// Ends a message that waits as cancelled; of one that is claimed, its owner will hear.
pub(super) fn cancel(step: &Transaction<'_>, id: &str, now: Moment) -> rusqlite::Result<bool> {
    let sql = "SELECT seq, id, queue, route, state = 'claimed' FROM messages \
               WHERE id = ?1 AND state IN ('pending', 'retry', 'claimed')";
    let found = step.prepare_cached(sql)?.query_row([id], waiting).optional()?;
    let Some((open, claimed)) = found else { return Ok(false) };
    cancel_one(step, &open, claimed, now)?;
    Ok(true)
}

/// Cancels messages whose results go the same way, so many at most; says how many waited. Whoever
/// calls goes on until none is left; the claimed ones are marked every time.
pub(super) fn cancel_route(
    step: &Transaction<'_>,
    route: &str,
    most: usize,
    now: Moment,
) -> rusqlite::Result<u64> {
    step.prepare_cached(ROUTED_CLAIMED)?.execute([route])?;
    let mut sql = step.prepare_cached(ROUTED)?;
    let found = sql.query_map(params![route, most as i64], waiting)?;
    let found: Vec<(Open, bool)> = found.collect::<Result<_, _>>()?;
    for (open, claimed) in &found {
        cancel_one(step, open, *claimed, now)?;
    }
    Ok(found.len() as u64)
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<(Open, bool)> {
    let open = Open { seq: row.get(0)?, id: row.get(1)?, queue: row.get(2)?, route: row.get(3)? };
    Ok((open, row.get(4)?))
}

fn cancel_one(
    step: &Transaction<'_>,
    open: &Open,
    claimed: bool,
    now: Moment,
) -> rusqlite::Result<()> {
    if claimed {
        let sql = "UPDATE messages SET cancelled = 1 WHERE seq = ?1";
        step.prepare_cached(sql)?.execute([open.seq])?;
        return Ok(());
    }
    let text = "it was cancelled before it was sent";
    end(step, open, Outcome::failed(Outcome::CANCELLED, text), now)
}

/// Brings back what is due.
pub(super) fn reclaim(
    step: &Transaction<'_>,
    queue: &str,
    now: Moment,
) -> rusqlite::Result<Reclaimed> {
    let back = |state: &str| {
        let values = params![queue, state, stamp(now), REVIVE as i64];
        step.prepare_cached(BACK)?.execute(values).map(|count| count as u64)
    };
    let (lost, due) = (back("claimed")?, back("retry")?);
    let mut sql = step.prepare_cached(WAKE)?;
    let mut next = |state: &str| {
        sql.query_row([queue, state], |row| {
            row.get::<_, Option<i64>>(0)?.map(|_| rows::moment(row, 0)).transpose()
        })
    };
    let next = [next("claimed")?, next("retry")?].into_iter().flatten().min();
    Ok(Reclaimed { lost, due, next })
}

/// After a start nobody holds anything any more. What was claimed may be what ended the process, so
/// it counts as a failure: one that always does ends among the dead.
pub(super) fn recover(step: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "UPDATE messages SET state = 'pending', failures = failures + 1, due = NULL, \
               token = NULL WHERE state = 'claimed' AND due IS NOT NULL";
    step.execute(sql, []).map(|_| ())
}

// === impl ClaimRef ===

impl ClaimRef {
    /// The row of the message; none for a key that is not one of ours.
    fn seq(&self) -> Option<i64> {
        self.key.parse().ok()
    }
}

// === impl Standing ===

impl Standing {
    fn of(found: Option<bool>) -> Self {
        match found {
            Some(false) => Self::Held,
            Some(true) => Self::Cancelled,
            None => Self::Lost,
        }
    }
}
