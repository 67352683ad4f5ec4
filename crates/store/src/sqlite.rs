//! The embedded engine: queues in one SQLite file that one process owns.
//!
//! ```text
//! verb that writes ─▶ jobs (bounded) ─▶ writer ─▶ one transaction, one fsync per group ─▶ results
//! verb that reads  ─▶ jobs (bounded) ─▶ reader ─▶ a snapshot after some commit        ─▶ results
//! ```
//!
//! When a verb that writes resolves, its write is on the disk (WAL, `synchronous = FULL`). The
//! `sqlite3` shell can read the file while it is in use.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use rusqlite::Transaction;
use tokio::sync::Notify;

use self::worker::Worker;
use crate::error::StoreError;
use crate::message::{Message, Outcome, StoredResult};
use crate::moment::Moment;
use crate::{
    Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, Receipt, Reclaimed,
    Redriven, Release, Selection, Standing, Store, StoreFuture,
};

mod active;
mod cancel;
mod claim;
mod columns;
mod complete;
mod dead_letter;
mod depth;
mod error;
mod file;
mod lanes;
pub mod ledger;
mod list_dead_letters;
mod purge_dead_letters;
mod receipts;
mod reclaim;
mod redrive_dead_letters;
mod release;
mod renew;
mod schema;
mod standing;
mod submit;
mod take_results;
#[cfg(test)]
mod tests;
mod worker;

/// The maximum number of messages that one transaction of [`SqliteStore::cancel_route`] ends, so
/// that other operations run in between.
const CANCEL_BATCH: usize = 1000;

/// Queues in one file.
#[derive(Debug)]
pub struct SqliteStore {
    reader: Worker,
    /// Declared after the reader, so that it is dropped last: the last connection to close
    /// checkpoints the log.
    writer: Worker,
    changed: Arc<Notify>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens a file, or creates it. Messages that were claimed when it was last in use are pending
    /// again.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, StoreError> {
        let path = path.as_ref();
        let lock = file::lock(path)?;
        let mut writer = file::writer(path)?;
        let tx = writer.transaction()?;
        reclaim::recover(&tx)?;
        tx.commit()?;
        let changed = Arc::new(Notify::new());
        Ok(Arc::new(Self {
            reader: Worker::reader(file::reader(path)?)?,
            writer: Worker::writer(writer, lock, changed.clone())?,
            changed,
        }))
    }

    /// Cancels all messages of a route. Pending messages get their results now, claimed messages
    /// get them from the dispatchers that hold them. Returns how many were pending.
    pub async fn cancel_route(&self, route: &str, now: Moment) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let route = route.to_owned();
            let cancelled = self.write_and_notify(
                |_| true,
                move |tx| cancel::cancel_route(tx, &route, CANCEL_BATCH, now),
            );
            match cancelled.await? {
                0 => return Ok(count),
                more => count += more,
            }
        }
    }

    /// Runs an operation in the transaction of the next group. When the future resolves, the
    /// operation is durable or has failed without effect. Dropping the future does not undo it.
    pub(crate) fn write<T: Send + 'static, E: Into<StoreError> + 'static>(
        &self,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.run(|_| false, operation))
    }

    /// Like [`SqliteStore::write`], and resolves [`Store::changed`] if `notifies` says so of the
    /// result.
    pub(crate) fn write_and_notify<T: Send + 'static, E: Into<StoreError> + 'static>(
        &self,
        notifies: fn(&T) -> bool,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.run(notifies, operation))
    }

    /// Runs an operation on a snapshot of the file, as it was after some commit.
    pub(crate) fn read<T: Send + 'static, E: Into<StoreError> + 'static>(
        &self,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.reader.run(|_| false, operation))
    }
}

impl Store for SqliteStore {
    fn submit(&self, messages: Vec<Message>, _now: Moment) -> StoreFuture<'_, Vec<Receipt>> {
        let notifies = |receipts: &Vec<Receipt>| receipts.contains(&Receipt::Accepted);
        self.write_and_notify(notifies, move |tx| submit::submit(tx, &messages))
    }

    fn lanes<'a>(&'a self, queue: &'a str, _now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        let queue = queue.to_owned();
        self.read(move |tx| lanes::lanes(tx, &queue))
    }

    fn claim(&self, request: ClaimRequest, _now: Moment) -> StoreFuture<'_, Vec<Claim>> {
        self.write(move |tx| claim::claim(tx, &request))
    }

    fn renew(&self, claims: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>> {
        self.write(move |tx| renew::renew(tx, &claims, until))
    }

    fn standing(&self, claims: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>> {
        self.read(move |tx| standing::standing(tx, &claims))
    }

    fn complete(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.write(move |tx| complete::complete(tx, &claim, outcome, now))
    }

    fn release(&self, claim: ClaimRef, release: Release, now: Moment) -> StoreFuture<'_, bool> {
        // Also for a message that is due later: the dispatcher must recompute when to wake.
        self.write_and_notify(bool::clone, move |tx| release::release(tx, &claim, release, now))
    }

    fn dead_letter(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.write(move |tx| dead_letter::dead_letter(tx, &claim, outcome, now))
    }

    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> StoreFuture<'a, bool> {
        let id = id.to_owned();
        self.write_and_notify(bool::clone, move |tx| cancel::cancel(tx, &id, now))
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        let queue = queue.to_owned();
        let notifies = |reclaimed: &Reclaimed| reclaimed.lost + reclaimed.due > 0;
        self.write_and_notify(notifies, move |tx| reclaim::reclaim(tx, &queue, now))
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        let queue = queue.to_owned();
        self.read(move |tx| depth::depth(tx, &queue))
    }

    fn list_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        let queue = queue.to_owned();
        self.read(move |tx| list_dead_letters::list_dead_letters(tx, &queue, after, limit))
    }

    fn redrive_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        let queue = queue.to_owned();
        let notifies = |redriven: &Redriven| redriven.requeued > 0;
        self.write_and_notify(notifies, move |tx| {
            redrive_dead_letters::redrive_dead_letters(tx, &queue, &selection, now)
        })
    }

    fn purge_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
    ) -> StoreFuture<'a, u64> {
        let queue = queue.to_owned();
        self.write(move |tx| purge_dead_letters::purge_dead_letters(tx, &queue, &selection))
    }

    fn take_results<'a>(
        &'a self,
        route: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        let route = route.to_owned();
        self.write(move |tx| take_results::take_results(tx, &route, limit))
    }

    fn join<'a>(
        &'a self,
        _group: &'a str,
        _name: &'a str,
        _until: Moment,
        _now: Moment,
    ) -> StoreFuture<'a, Membership> {
        // One process owns the file, so its dispatcher is the only member.
        Box::pin(async { Ok(Membership { rank: 0, size: 1 }) })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.changed.notified())
    }
}
