//! [`Store::submit`](crate::Store::submit): inserts messages that are not known yet.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::columns::{first, json, millis, signed};
use crate::Receipt;
use crate::error::{ErrorKind, StoreError};
use crate::message::{Body, Message};

pub(super) fn submit(
    tx: &Transaction<'_>,
    messages: &[Message],
) -> Result<Vec<Receipt>, StoreError> {
    messages.iter().map(|message| submit_one(tx, message)).collect()
}

fn submit_one(tx: &Transaction<'_>, message: &Message) -> Result<Receipt, StoreError> {
    message.check()?;
    let mut sql = tx.prepare_cached("SELECT digest FROM messages WHERE id = ?1")?;
    let known: Option<Vec<u8>> = sql.query_row([&message.id], first).optional()?;
    match known {
        Some(digest) if digest == message.digest() => Ok(Receipt::Duplicate),
        Some(_) => Ok(Receipt::Conflict),
        None => insert(tx, message).map(|()| Receipt::Accepted),
    }
}

fn insert(tx: &Transaction<'_>, message: &Message) -> Result<(), StoreError> {
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
    tx.prepare_cached(sql)?.execute(params![
        message.id,
        message.digest(),
        message.queue,
        message.tenant,
        millis(message.created),
        millis(message.deadline),
        message.endpoint,
        message.model,
        json(&message.metadata)?,
        json(&message.headers)?,
        message.route,
        file,
        offset,
        signed(message.body.length()),
    ])?;
    if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
        let sql = "INSERT INTO bodies (seq, bytes) VALUES (?1, ?2)";
        tx.prepare_cached(sql)?.execute(params![tx.last_insert_rowid(), &bytes[..]])?;
    }
    Ok(())
}
