//! [`Store::redrive_dead_letters`](crate::Store::redrive_dead_letters): makes dead letters pending
//! again.

use std::fmt;

use super::RedisStore;
use super::connection::Durability;
use super::envelope::{self, DecodedMessage, EnvelopeError, Payload, deadline_secs};
use super::keys::{self, Keys};
use super::list_dead_letters::{DeadMember, SelectedPages};
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use super::submit::{MARK_GRACE, RECEIPT_GRACE, SEQUENCE_GRACE, ttl};
use crate::error::StoreError;
use crate::message::{BATCH_ROUTE, ENDED_WITH_BATCH};
use crate::moment::Moment;
use crate::{Redriven, Selection, token};

/// Why a dead letter cannot be redriven.
#[derive(Debug)]
enum NotRedrivable {
    /// It would be a dead letter again at once.
    Unreadable(EnvelopeError),
    EndedWithBatch,
}

pub(super) async fn redrive_dead_letters(
    store: &RedisStore,
    queue: &str,
    selection: Selection,
    now: Moment,
) -> Result<Redriven, StoreError> {
    let keys = store.layout.queue(queue);
    let mut pages = SelectedPages::new(store, &keys, selection);
    let mut redriven = Redriven::default();
    while let Some(page) = pages.next().await? {
        for dead in page {
            match redrivable(&dead, &keys) {
                Ok(message) => {
                    let requeued = redrive_one(store, &keys, (&dead, &message), now).await?;
                    redriven.requeued += u64::from(requeued);
                }
                Err(error) => redriven.skip(&dead.id, error.to_string()),
            }
        }
    }
    if redriven.requeued > 0 {
        let commands = vec![Command::publish_change(queue)];
        store.connection.run(commands, Durability::Primary).await?;
    }
    Ok(redriven)
}

/// The message of a dead letter, or why it cannot be redriven.
fn redrivable(dead: &DeadMember, keys: &Keys) -> Result<DecodedMessage, NotRedrivable> {
    let text = String::from_utf8_lossy(&dead.member);
    let message = envelope::decode(&text, &keys.pending).map_err(NotRedrivable::Unreadable)?;
    match message.message.route.starts_with(BATCH_ROUTE) {
        true => Err(NotRedrivable::EndedWithBatch),
        false => Ok(message),
    }
}

async fn redrive_one(
    store: &RedisStore,
    keys: &Keys,
    (dead, decoded): (&DeadMember, &DecodedMessage),
    now: Moment,
) -> Result<bool, StoreError> {
    let message = &decoded.message;
    let deadline = now.after(message.deadline.since(message.created));
    let (token, text) = (token::request(), String::from_utf8_lossy(&dead.member));
    let Ok(member) = envelope::encode_redriven(&text, &token, (now, deadline)) else {
        return Ok(false);
    };
    let secs = deadline_secs(deadline);
    let (sequence, receipt) = (keys.sequence(secs), keys.receipt(&message.id));
    let (reasons, members) = (&keys.dead_reasons, &keys.dead_members);
    let names = [&keys.dead, reasons, members, &sequence, &keys.pending, &receipt];
    let ttl = |grace| ttl(deadline, now, grace);
    let command = Command::script(&SCRIPTS.redrive_dead_letters, &names.map(String::as_str))
        .arg(dead.number)
        .arg(&member.before)
        .arg(&member.after)
        .arg(secs)
        .arg(ttl(SEQUENCE_GRACE))
        .arg(&decoded.token)
        .arg(&token)
        .arg(ttl(RECEIPT_GRACE));
    if !store.connection.query::<bool>(command, Durability::Replicated).await? {
        return Ok(false);
    }
    let active = Command::new("SET", &keys::active(&message.id));
    let mut marks = vec![active.arg(&token).arg("EX").arg(ttl(MARK_GRACE))];
    if let Payload::Apart(body) = &decoded.body {
        marks.push(Command::new("EXPIRE", body).arg(ttl(MARK_GRACE)));
    }
    store.connection.run(marks, Durability::Primary).await?;
    Ok(true)
}

// === impl NotRedrivable ===

impl fmt::Display for NotRedrivable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => {
                write!(f, "it cannot be read: {error}; purge it, and submit a corrected one")
            }
            Self::EndedWithBatch => f.write_str(ENDED_WITH_BATCH),
        }
    }
}
