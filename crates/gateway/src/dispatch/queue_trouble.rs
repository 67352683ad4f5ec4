//! Queues that cannot be used while others of the same store can: another program may use a key of
//! theirs. Such a queue claims nothing until its data is in order again, and the others go on. An
//! error of the whole store is no such trouble. At some servers each queue is a resource of its
//! own; then one that is unavailable is tried on, beside the others.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::StoreError;
use tokio::time::Instant;

use super::delivery::can_wait;
use super::{Dispatcher, ServedQueue};

/// The pause between two looks at a queue that cannot be used.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a queue cannot be used, if that is so, and when it is looked at again. A new queue is looked
/// at before its first use.
#[derive(Debug)]
pub(super) struct QueueTrouble(Mutex<Look>);

#[derive(Debug)]
struct Look {
    why: Option<String>,
    next: Option<Instant>,
    /// Why the messages that wait for a retry cannot be kept apart, while the queue is used.
    retries: Option<String>,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Whether a queue can be used. After an error that its data does not explain it is tried
    /// again.
    pub(super) async fn is_usable(&self, served: &ServedQueue) -> Result<bool, StoreError> {
        let next = served.trouble.look().next;
        if next.is_some_and(|next| next <= Instant::now()) {
            match self.store.check_queue(&served.queue.name).await? {
                Some(found) => served.note_trouble(found),
                None => served.trouble.look().next = None,
            }
        }
        Ok(served.trouble.look().next.is_none())
    }

    /// The value of a verb on one queue; `None` if that queue alone cannot be used.
    pub(super) async fn of_queue<T>(
        &self,
        served: &ServedQueue,
        outcome: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let error = match outcome {
            Ok(value) => {
                served.note_success();
                return Ok(Some(value));
            }
            Err(error) if can_wait(&error) && self.fails_alone() => {
                served.note_why(error.to_string());
                return Ok(None);
            }
            Err(error) if can_wait(&error) => return Err(error),
            Err(error) => error,
        };
        let found = self.store.check_queue(&served.queue.name).await?;
        if found.is_none() && self.queues.len() == 1 {
            return Err(error);
        }
        served.note_trouble(found.unwrap_or_else(|| error.to_string()));
        Ok(None)
    }

    /// Whether a queue that is unavailable leaves others.
    fn fails_alone(&self) -> bool {
        self.queues.len() > 1 && self.store.queues_fail_alone()
    }

    /// The trouble of the first queue, if no queue can be used.
    pub(crate) fn trouble_of_all(&self) -> Option<String> {
        let mut all = self.queues.iter().map(|served| served.trouble.why());
        let first = all.next()??;
        all.all(|why| why.is_some()).then_some(first)
    }
}

// === impl ServedQueue ===

impl ServedQueue {
    /// Records why the queue cannot be used, to be looked at again after a while.
    fn note_trouble(&self, why: String) {
        self.trouble.look().next = Some(Instant::now() + LOOK_EVERY);
        self.note_why(why);
    }

    /// Records why the queue cannot be used. A change is logged.
    fn note_why(&self, why: String) {
        let mut look = self.trouble.look();
        if look.why.as_ref() != Some(&why) {
            let queue = &self.queue.name;
            tracing::error!(queue, "the queue cannot be used and sends nothing: {why}");
            look.why = Some(why);
        }
    }

    /// Records why the messages that wait for a retry cannot be kept apart, if that is so. A change
    /// is logged.
    pub(super) fn note_retries(&self, why: Option<String>) {
        let mut look = self.trouble.look();
        if look.retries != why {
            let queue = &self.queue.name;
            match &why {
                Some(why) => tracing::error!(queue, "the retries of a queue have no place: {why}"),
                None => tracing::info!(queue, "the retries of a queue have their place again"),
            }
            look.retries = why;
        }
    }

    /// Records that a verb on the queue succeeded.
    fn note_success(&self) {
        let mut look = self.trouble.look();
        if look.next.is_none() && look.why.take().is_some() {
            tracing::info!(queue = self.queue.name, "the queue can be used again");
        }
    }
}

// === impl QueueTrouble ===

impl QueueTrouble {
    /// Why the queue cannot be used.
    pub(super) fn why(&self) -> Option<String> {
        self.look().why.clone()
    }

    /// Why the messages that wait for a retry cannot be kept apart.
    pub(super) fn of_retries(&self) -> Option<String> {
        self.look().retries.clone()
    }

    fn look(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for QueueTrouble {
    fn default() -> Self {
        Self(Mutex::new(Look { why: None, next: Some(Instant::now()), retries: None }))
    }
}
