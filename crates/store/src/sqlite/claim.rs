//! [`Store::claim`](crate::Store::claim): claims the first messages of a lane.

use std::path::PathBuf;

use bytes::Bytes;
use rusqlite::{Row, Transaction, params};

use super::columns::{count, first, map, millis, moment};
use crate::message::{Body, Message};
use crate::{Claim, ClaimRef, ClaimRequest};

/// The maximum number of messages per call, so that their bodies fit into memory.
const CLAIM_MAX: usize = 256;

/// The next messages of a lane: first the columns that [`message`] reads, then the number of
/// failures, whether the message is cancelled, and the row.
pub(super) const NEXT: &str = "SELECT m.id, m.queue, m.tenant, m.created, m.deadline, m.endpoint, \
     m.model, m.metadata, m.headers, m.route, m.file, m.offset, m.length, b.bytes, m.failures, \
     m.cancelled, m.seq FROM messages m LEFT JOIN bodies b USING (seq) \
     WHERE m.queue = ?1 AND m.tenant = ?2 AND m.state = 'pending' \
     ORDER BY m.deadline, m.seq LIMIT ?3";

const CLAIM: &str = "UPDATE messages SET state = 'claimed', due = ?2, \
     token = lower(hex(randomblob(16))) WHERE seq = ?1 RETURNING token";

pub(super) fn claim(tx: &Transaction<'_>, request: &ClaimRequest) -> rusqlite::Result<Vec<Claim>> {
    let limit = request.limit.min(CLAIM_MAX) as i64;
    let mut sql = tx.prepare_cached(NEXT)?;
    let found = sql.query_map(params![request.queue, request.tenant, limit], |row| {
        let seq: i64 = row.get(16)?;
        let reference = ClaimRef { queue: row.get(1)?, key: seq.to_string(), token: String::new() };
        let (failures, cancelled) = (row.get(14)?, row.get(15)?);
        Ok((seq, Claim { reference, message: message(row)?, failures, cancelled }))
    })?;
    let found: Vec<(i64, Claim)> = found.collect::<Result<_, _>>()?;
    let mut sql = tx.prepare_cached(CLAIM)?;
    let claims = found.into_iter().map(|(seq, mut claim)| {
        claim.reference.token = sql.query_row(params![seq, millis(request.until)], first)?;
        Ok(claim)
    });
    claims.collect()
}

/// Reads the message in the first columns of a row.
fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: row.get(0)?,
        queue: row.get(1)?,
        tenant: row.get(2)?,
        created: moment(row, 3)?,
        deadline: moment(row, 4)?,
        endpoint: row.get(5)?,
        model: row.get(6)?,
        metadata: map(row, 7)?,
        headers: map(row, 8)?,
        route: row.get(9)?,
        body: body(row)?,
    })
}

fn body(row: &Row<'_>) -> rusqlite::Result<Body> {
    if let Some(file) = row.get::<_, Option<String>>(10)? {
        let (offset, length) = (count(row, 11)?, count(row, 12)?);
        return Ok(Body::Slice { file: PathBuf::from(file), offset, length });
    }
    Ok(match row.get::<_, Option<Vec<u8>>>(13)? {
        Some(bytes) => Body::Bytes(bytes.into()),
        None if count(row, 12)? == 0 => Body::Bytes(Bytes::new()),
        None => Body::Gone,
    })
}
