//! Reading pending messages without claiming them.

use std::ops::Range;

use super::connection::Durability;
use super::envelope::{self, DecodedMessage, EnvelopeError};
use super::keys::Keys;
use super::pipeline::Command;
use super::{RedisStore, quarantine};
use crate::error::StoreError;
use crate::moment::Moment;

/// How many pending messages are looked at, from the earliest deadline on.
pub(super) const WINDOW: usize = 512;

/// A member of a sorted set, and the message that it encodes.
pub(super) struct Member {
    pub(super) text: String,
    pub(super) decoded: DecodedMessage,
}

/// A member that cannot be decoded.
pub(super) struct UnreadableMember {
    pub(super) bytes: Vec<u8>,
    pub(super) error: EnvelopeError,
}

/// Decodes a member of a queue.
pub(super) fn decode(member: Vec<u8>, queue: &str) -> Result<Member, UnreadableMember> {
    let text = String::from_utf8(member).map_err(|error| UnreadableMember {
        bytes: error.into_bytes(),
        error: EnvelopeError::NotUtf8,
    })?;
    match envelope::decode(&text, queue) {
        Ok(decoded) => Ok(Member { text, decoded }),
        Err(error) => Err(UnreadableMember { bytes: text.into_bytes(), error }),
    }
}

/// Reads pending messages by their positions. Unreadable messages become dead letters.
pub(super) async fn peek(
    store: &RedisStore,
    keys: &Keys,
    positions: Range<usize>,
    now: Moment,
) -> Result<Vec<Member>, StoreError> {
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let command = Command::new("ZRANGE", &keys.pending).arg(positions.start).arg(positions.end - 1);
    let found: Vec<Vec<u8>> = store.connection.query(command, Durability::Primary).await?;
    let (mut members, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
    for member in found {
        match decode(member, &keys.pending) {
            Ok(member) => members.push(member),
            Err(error) => unreadable.push(error),
        }
    }
    quarantine::quarantine(store, keys, (&keys.pending, unreadable), now).await?;
    Ok(members)
}
