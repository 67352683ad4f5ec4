//! [`Store::list_dead_letters`](crate::Store::list_dead_letters): lists dead letters; and how
//! [`redrive_dead_letters`](super::redrive_dead_letters) and
//! [`purge_dead_letters`](super::purge_dead_letters) find theirs.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::RedisStore;
use super::connection::{Durability, next};
use super::keys::Keys;
use super::pipeline::Command;
use crate::error::StoreError;
use crate::moment::Moment;
use crate::{DeadLetter, Selection};

/// How many dead letters are read at a time.
const PAGE: usize = 128;

/// Why a message is a dead letter, as it is stored.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Reason {
    pub(super) id: String,
    pub(super) at: u64,
    pub(super) why: String,
    pub(super) failures: u32,
}

/// A dead letter with its message.
pub(super) struct DeadMember {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) member: Vec<u8>,
}

/// The selected dead letters of a queue, page by page.
pub(super) struct SelectedPages<'a> {
    store: &'a RedisStore,
    keys: &'a Keys,
    /// The selected ids; all dead letters without them.
    ids: Option<BTreeSet<String>>,
    after: Option<u64>,
}

pub(super) async fn list_dead_letters(
    store: &RedisStore,
    queue: &str,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<DeadLetter>, StoreError> {
    let keys = store.layout.queue(queue);
    let numbers = read_numbers(store, &keys, after, limit).await?;
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let command = Command::new("HMGET", &keys.dead_reasons).arg(&numbers);
    let reasons: Vec<Option<Vec<u8>>> =
        store.connection.query(command, Durability::Primary).await?;
    let dead = numbers.into_iter().zip(reasons).map(|(number, reason)| {
        let Reason { id, at, why, failures } = Reason::decode(reason);
        DeadLetter { number, id, at: Moment::from_millis(at), why, failures }
    });
    Ok(dead.collect())
}

async fn read_numbers(
    store: &RedisStore,
    keys: &Keys,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<u64>, StoreError> {
    let from = after.map_or("-inf".to_owned(), |number| format!("({number}"));
    let command = Command::new("ZRANGEBYSCORE", &keys.dead).arg(from).arg("+inf");
    let command = command.arg("LIMIT").arg(0).arg(limit);
    store.connection.query(command, Durability::Primary).await
}

// === impl SelectedPages ===

impl<'a> SelectedPages<'a> {
    pub(super) fn new(store: &'a RedisStore, keys: &'a Keys, selection: Selection) -> Self {
        let ids = match selection {
            Selection::All => None,
            Selection::Ids(ids) => Some(ids.into_iter().collect()),
        };
        Self { store, keys, ids, after: None }
    }

    /// Reads the next page, which may have no selected dead letter; `None` after the last page.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<DeadMember>>, StoreError> {
        let numbers = read_numbers(self.store, self.keys, self.after, PAGE).await?;
        let Some(last) = numbers.last() else { return Ok(None) };
        self.after = Some(*last);
        let commands = vec![
            Command::new("HMGET", &self.keys.dead_reasons).arg(&numbers),
            Command::new("HMGET", &self.keys.dead_members).arg(&numbers),
        ];
        let mut replies = self.store.connection.run(commands, Durability::Primary).await?;
        let reasons: Vec<Option<Vec<u8>>> = next(&mut replies)?;
        let members: Vec<Option<Vec<u8>>> = next(&mut replies)?;
        let all = numbers.into_iter().zip(reasons).zip(members);
        let dead = all.map(|((number, reason), member)| {
            let (id, member) = (Reason::decode(reason).id, member.unwrap_or_default());
            DeadMember { number, id, member }
        });
        Ok(Some(dead.filter(|dead| self.selects(&dead.id)).collect()))
    }

    fn selects(&self, id: &str) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id))
    }
}

// === impl Reason ===

impl Reason {
    pub(super) fn encode(&self) -> String {
        let Self { id, at, why, failures } = self;
        serde_json::json!({ "id": id, "at": at, "why": why, "failures": failures }).to_string()
    }

    /// Decodes a reason; an absent or unreadable one is empty.
    fn decode(text: Option<Vec<u8>>) -> Self {
        serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
    }
}
