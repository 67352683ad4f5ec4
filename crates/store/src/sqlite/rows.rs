//! Messages as rows, and rows as messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use rusqlite::types::Type;
use rusqlite::{Row, Transaction, params};

use super::error;
use crate::error::{ErrorKind, StoreError};
use crate::message::{Body, Message};
use crate::moment::Moment;

/// The next messages of a lane, in the order of the columns that [`message`] reads; then how often
/// each has failed, whether it is cancelled, and its row.
pub(super) const NEXT: &str = "SELECT m.id, m.queue, m.tenant, m.created, m.deadline, m.endpoint, \
     m.model, m.metadata, m.headers, m.route, m.file, m.offset, m.length, b.bytes, m.failures, \
     m.cancelled, m.seq FROM messages m LEFT JOIN bodies b USING (seq) \
     WHERE m.queue = ?1 AND m.tenant = ?2 AND m.state = 'pending' \
     ORDER BY m.deadline, m.seq LIMIT ?3";

/// A moment as SQLite keeps it. What lies beyond its numbers is as good as never.
pub(super) fn stamp(moment: Moment) -> i64 {
    i64::try_from(moment.millis()).unwrap_or(i64::MAX)
}

/// The moment in a column.
pub(super) fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    let millis: i64 = row.get(column)?;
    Ok(Moment::from_millis(u64::try_from(millis).unwrap_or_default()))
}

/// A count in a column.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count: i64 = row.get(column)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// The message in the first columns of a row.
pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
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

fn map(row: &Row<'_>, column: usize) -> rusqlite::Result<BTreeMap<String, String>> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Keeps a message that is not known yet.
pub(super) fn insert(step: &Transaction<'_>, message: &Message) -> Result<(), StoreError> {
    let (file, offset, bytes) = match &message.body {
        Body::Bytes(bytes) => (None, None, Some(bytes)),
        Body::Slice { file, offset, .. } => {
            let file = file.to_str().ok_or_else(|| {
                let text = format!("message {}: its file's name is not UTF-8", message.id);
                StoreError::new(ErrorKind::Invalid, text)
            })?;
            (Some(file), Some(signed(*offset)), None)
        }
        Body::Gone => (None, None, None),
    };
    let sql = "INSERT INTO messages (id, digest, queue, tenant, created, deadline, endpoint, \
               model, metadata, headers, route, file, offset, length, state) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 'pending')";
    let keep = |metadata: String, headers: String| {
        let digest = message.digest();
        step.prepare_cached(sql)?.execute(params![
            message.id,
            digest,
            message.queue,
            message.tenant,
            stamp(message.created),
            stamp(message.deadline),
            message.endpoint,
            message.model,
            metadata,
            headers,
            message.route,
            file,
            offset,
            signed(message.body.length()),
        ])?;
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            let sql = "INSERT INTO bodies (seq, bytes) VALUES (?1, ?2)";
            step.prepare_cached(sql)?.execute(params![step.last_insert_rowid(), &bytes[..]])?;
        }
        Ok(())
    };
    keep(json(&message.metadata)?, json(&message.headers)?).map_err(error::from)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn json(map: &BTreeMap<String, String>) -> Result<String, StoreError> {
    serde_json::to_string(map)
        .map_err(|error| StoreError::new(ErrorKind::Invalid, error.to_string()))
}
