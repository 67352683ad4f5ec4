//! Dead letters, the messages that failed too often: an operator lists, redrives or purges
//! them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::{DeadLetter, ErrorKind, Redriven, Selection, Store, StoreError};

use super::DurableQueues;
use super::status::within;
use crate::clock::moment;
use crate::config::BATCH_QUEUE;
use crate::dispatch::Dispatcher;

/// How long a store may take to respond before a command on dead letters. The command itself has no
/// limit, because a timeout could leave it half done.
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// The most dead letters on one page.
const PAGE_MAX: usize = 1000;

/// A page of dead letters.
#[derive(Debug, Serialize)]
pub(crate) struct DeadLetterPage {
    queue: String,
    dead: Vec<DeadLetterEntry>,
    /// The `after` of the next page, if there may be one.
    next: Option<u64>,
}

#[derive(Debug, Serialize)]
struct DeadLetterEntry {
    number: u64,
    id: String,
    buried_at: u64,
    failures: u32,
    why: String,
}

/// A command on dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadLetterAction {
    Redrive,
    Purge,
}

/// The dead letters that a command is for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterSelection {
    queue: String,
    /// Their ids; all dead letters of the queue if `None`.
    ids: Option<Vec<String>>,
}

/// The result of a command on dead letters.
#[derive(Debug, Serialize)]
pub(crate) struct DeadLetterResult {
    queue: String,
    messages: u64,
    /// The number of selected dead letters that could not be redriven.
    stay: u64,
    /// The reasons for the first of them.
    why: Vec<NotRedriven>,
}

#[derive(Debug, Serialize)]
struct NotRedriven {
    id: String,
    why: String,
}

// === impl DurableQueues ===

impl DurableQueues {
    /// A page of the dead letters of a queue.
    pub(crate) async fn list_dead_letters(
        &self,
        queue: &str,
        after: Option<u64>,
    ) -> Result<DeadLetterPage, StoreError> {
        let dead =
            self.checked_store(queue).await?.list_dead_letters(queue, after, PAGE_MAX).await?;
        let next = (dead.len() == PAGE_MAX).then(|| dead.last().map(|dead| dead.number)).flatten();
        Ok(DeadLetterPage {
            queue: queue.into(),
            dead: dead.into_iter().map(DeadLetterEntry::of).collect(),
            next,
        })
    }

    /// Redrives or purges dead letters.
    pub(crate) async fn change_dead_letters(
        &self,
        action: DeadLetterAction,
        selection: DeadLetterSelection,
    ) -> Result<DeadLetterResult, StoreError> {
        let DeadLetterSelection { queue, ids } = selection;
        let which = ids.map_or(Selection::All, Selection::Ids);
        let store = self.checked_store(&queue).await?;
        let Redriven { requeued, skipped, reasons } = match action {
            DeadLetterAction::Redrive => {
                store.redrive_dead_letters(&queue, which, moment()).await?
            }
            DeadLetterAction::Purge => {
                let requeued = store.purge_dead_letters(&queue, which).await?;
                Redriven { requeued, ..Redriven::default() }
            }
        };
        let why = reasons.into_iter().map(|(id, why)| NotRedriven { id, why }).collect();
        Ok(DeadLetterResult { queue, messages: requeued, stay: skipped, why })
    }

    /// The store of a queue, after a check that it responds.
    async fn checked_store(&self, queue: &str) -> Result<&Arc<dyn Store>, StoreError> {
        let store = self.dispatcher_of(queue)?.store();
        within(CHECK_LIMIT, store.depth(queue)).await.map(|_| store)
    }

    fn dispatcher_of(&self, queue: &str) -> Result<&Arc<Dispatcher>, StoreError> {
        let has =
            |dispatcher: &&Arc<Dispatcher>| dispatcher.views().any(|view| view.queue.name == queue);
        self.dispatchers().find(has).ok_or_else(|| {
            let folder = self.folder.as_ref().filter(|_| queue == BATCH_QUEUE);
            if let Some(why) = folder.and_then(|folder| folder.error()) {
                return StoreError::new(ErrorKind::Unavailable, why);
            }
            let known = self.queues().join(", ");
            let what = format!("there is no queue {queue:?}; known are: {known}");
            StoreError::new(ErrorKind::Invalid, what)
        })
    }
}

// === impl DeadLetterEntry ===

impl DeadLetterEntry {
    fn of(dead: DeadLetter) -> Self {
        let DeadLetter { number, id, at, why, failures } = dead;
        Self { number, id, buried_at: at.secs(), failures, why }
    }
}
