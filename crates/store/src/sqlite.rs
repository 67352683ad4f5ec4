//! The embedded engine: queues in one SQLite file, owned by one process.
//!
//! ```text
//! verb ─▶ jobs (bounded) ─▶ writer ─▶ one transaction, one flush for the whole group ─▶ answers
//! look ─▶ jobs (bounded) ─▶ reader ─▶ the state after some commit                    ─▶ answers
//! ```
//!
//! An answer means that the write is on the disk (WAL, `synchronous = FULL`). The file can be
//! looked at with the ordinary shell while it is in use.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use rusqlite::Transaction;
use tokio::sync::Notify;

use self::threads::Desk;
use crate::error::StoreError;
use crate::message::{Message, Outcome, StoredResult};
use crate::moment::Moment;
use crate::{
    Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, Receipt, Reclaimed,
    Redriven, Release, Selection, Standing, Store, StoreFuture,
};

mod error;
mod file;
mod grave;
pub mod ledger;
mod look;
mod queue;
mod receipts;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod threads;

/// The most messages that one step of [`SqliteStore::cancel_route`] ends, so that others get a turn.
const CANCEL: usize = 1000;

/// Queues in one file.
#[derive(Debug)]
pub struct SqliteStore {
    reader: Desk,
    /// Goes after the reader: whoever closes the file last puts the log away.
    writer: Desk,
    woken: Arc<Notify>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens a queue, or makes a new one. What was claimed when it was last in use waits again.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, StoreError> {
        let path = path.as_ref();
        let lock = file::lock(path)?;
        let mut writer = file::writer(path)?;
        let step = writer.transaction().map_err(error::from)?;
        queue::recover(&step).and_then(|()| step.commit()).map_err(error::from)?;
        let woken = Arc::new(Notify::new());
        Ok(Arc::new(Self {
            reader: Desk::reader(file::reader(path)?)?,
            writer: Desk::writer(writer, lock, woken.clone())?,
            woken,
        }))
    }

    /// Cancels all messages whose results go this way: those that wait get their results now, those
    /// that are claimed from whoever holds them. Says how many waited.
    pub async fn cancel_route(&self, route: &str, now: Moment) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let route = route.to_owned();
            let step = self.write_and_wake(
                |_| true,
                move |step| queue::cancel_route(step, &route, CANCEL, now).map_err(error::from),
            );
            match step.await? {
                0 => return Ok(count),
                more => count += more,
            }
        }
    }

    /// Runs an operation in the next group's transaction. When this returns it is durable, or it
    /// did not happen. Dropping the answer does not undo it.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.ask(|_| false, operation))
    }

    /// As [`SqliteStore::write`]. Wakes whoever waits for something to claim when what came out says so.
    pub(crate) fn write_and_wake<T: Send + 'static>(
        &self,
        wakes: fn(&T) -> bool,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.ask(wakes, operation))
    }

    /// Looks at one state of everything, as it was after some commit.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.reader.ask(|_| false, operation))
    }
}

impl Store for SqliteStore {
    fn submit(&self, messages: Vec<Message>, _now: Moment) -> StoreFuture<'_, Vec<Receipt>> {
        let wakes = |receipts: &Vec<Receipt>| receipts.contains(&Receipt::Accepted);
        self.write_and_wake(wakes, move |step| queue::submit(step, &messages))
    }

    fn lanes<'a>(&'a self, queue: &'a str, _now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        let queue = queue.to_owned();
        self.read(move |step| look::lanes(step, &queue).map_err(error::from))
    }

    fn claim(&self, want: ClaimRequest, _now: Moment) -> StoreFuture<'_, Vec<Claim>> {
        self.write(move |step| queue::claim(step, &want).map_err(error::from))
    }

    fn renew(&self, held: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>> {
        self.write(move |step| queue::renew(step, &held, until).map_err(error::from))
    }

    fn standing(&self, held: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>> {
        self.read(move |step| queue::standing(step, &held).map_err(error::from))
    }

    fn complete(&self, held: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.write(move |step| queue::complete(step, &held, outcome, now).map_err(error::from))
    }

    fn release(&self, held: ClaimRef, back: Release, now: Moment) -> StoreFuture<'_, bool> {
        // Also one that waits for later: whoever sleeps until the next is due must know of it.
        self.write_and_wake(bool::clone, move |step| {
            queue::release(step, &held, back, now).map_err(error::from)
        })
    }

    fn dead_letter(&self, held: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.write(move |step| queue::dead_letter(step, &held, outcome, now).map_err(error::from))
    }

    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> StoreFuture<'a, bool> {
        let id = id.to_owned();
        self.write_and_wake(bool::clone, move |step| {
            queue::cancel(step, &id, now).map_err(error::from)
        })
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        let queue = queue.to_owned();
        let wakes = |reclaimed: &Reclaimed| reclaimed.lost + reclaimed.due > 0;
        self.write_and_wake(wakes, move |step| {
            queue::reclaim(step, &queue, now).map_err(error::from)
        })
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        let queue = queue.to_owned();
        self.read(move |step| look::depth(step, &queue).map_err(error::from))
    }

    fn dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        most: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        let queue = queue.to_owned();
        self.read(move |step| grave::list(step, &queue, after, most).map_err(error::from))
    }

    fn redrive<'a>(
        &'a self,
        queue: &'a str,
        which: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        let queue = queue.to_owned();
        self.write_and_wake(
            |redriven| redriven.requeued > 0,
            move |step| grave::redrive(step, &queue, &which, now).map_err(error::from),
        )
    }

    fn purge<'a>(&'a self, queue: &'a str, which: Selection) -> StoreFuture<'a, u64> {
        let queue = queue.to_owned();
        self.write(move |step| grave::purge(step, &queue, &which).map_err(error::from))
    }

    fn take_results<'a>(
        &'a self,
        route: &'a str,
        most: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        let route = route.to_owned();
        self.write(move |step| look::take_results(step, &route, most).map_err(error::from))
    }

    fn join<'a>(
        &'a self,
        _group: &'a str,
        _name: &'a str,
        _until: Moment,
        _now: Moment,
    ) -> StoreFuture<'a, Membership> {
        // The file is one process's own.
        Box::pin(async { Ok(Membership { rank: 0, size: 1 }) })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.woken.notified())
    }
}
