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
use crate::message::{Message, Outcome, Stored};
use crate::moment::Moment;
use crate::{
    Answer, Attendance, Back, Claim, Dead, Depth, Held, Lane, Receipt, Redriven, Revived, Standing,
    Store, Want, Which,
};

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
mod trouble;

/// The most messages that one step of [`Sqlite::cancel_route`] ends, so that others get a turn.
const CANCEL: usize = 1000;

/// Queues in one file.
#[derive(Debug)]
pub struct Sqlite {
    reader: Desk,
    /// Goes after the reader: whoever closes the file last puts the log away.
    writer: Desk,
    woken: Arc<Notify>,
}

// === impl Sqlite ===

impl Sqlite {
    /// Opens a queue, or makes a new one. What was claimed when it was last in use waits again.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, StoreError> {
        let path = path.as_ref();
        let lock = file::lock(path)?;
        let mut writer = file::writer(path)?;
        let step = writer.transaction().map_err(trouble::from)?;
        queue::recover(&step).and_then(|()| step.commit()).map_err(trouble::from)?;
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
                move |step| queue::cancel_route(step, &route, CANCEL, now).map_err(trouble::from),
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
    ) -> Answer<'_, T> {
        Box::pin(self.writer.ask(|_| false, operation))
    }

    /// As [`Sqlite::write`]. Wakes whoever waits for something to claim when what came out says so.
    pub(crate) fn write_and_wake<T: Send + 'static>(
        &self,
        wakes: fn(&T) -> bool,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.writer.ask(wakes, operation))
    }

    /// Looks at one state of everything, as it was after some commit.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.reader.ask(|_| false, operation))
    }
}

impl Store for Sqlite {
    fn submit(&self, messages: Vec<Message>, _now: Moment) -> Answer<'_, Vec<Receipt>> {
        let wakes = |receipts: &Vec<Receipt>| receipts.contains(&Receipt::Accepted);
        self.write_and_wake(wakes, move |step| queue::submit(step, &messages))
    }

    fn lanes<'a>(&'a self, queue: &'a str, _now: Moment) -> Answer<'a, Vec<Lane>> {
        let queue = queue.to_owned();
        self.read(move |step| look::lanes(step, &queue).map_err(trouble::from))
    }

    fn claim(&self, want: Want, _now: Moment) -> Answer<'_, Vec<Claim>> {
        self.write(move |step| queue::claim(step, &want).map_err(trouble::from))
    }

    fn renew(&self, held: Vec<Held>, until: Moment) -> Answer<'_, Vec<Standing>> {
        self.write(move |step| queue::renew(step, &held, until).map_err(trouble::from))
    }

    fn standing(&self, held: Vec<Held>) -> Answer<'_, Vec<Standing>> {
        self.read(move |step| queue::standing(step, &held).map_err(trouble::from))
    }

    fn complete(&self, held: Held, outcome: Outcome, now: Moment) -> Answer<'_, bool> {
        self.write(move |step| queue::complete(step, &held, outcome, now).map_err(trouble::from))
    }

    fn put_back(&self, held: Held, back: Back, now: Moment) -> Answer<'_, bool> {
        // Also one that waits for later: whoever sleeps until the next is due must know of it.
        self.write_and_wake(bool::clone, move |step| {
            queue::put_back(step, &held, back, now).map_err(trouble::from)
        })
    }

    fn bury(&self, held: Held, outcome: Outcome, now: Moment) -> Answer<'_, bool> {
        self.write(move |step| queue::bury(step, &held, outcome, now).map_err(trouble::from))
    }

    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> Answer<'a, bool> {
        let id = id.to_owned();
        self.write_and_wake(bool::clone, move |step| {
            queue::cancel(step, &id, now).map_err(trouble::from)
        })
    }

    fn revive<'a>(&'a self, queue: &'a str, now: Moment) -> Answer<'a, Revived> {
        let queue = queue.to_owned();
        let wakes = |revived: &Revived| revived.lost + revived.due > 0;
        self.write_and_wake(wakes, move |step| {
            queue::revive(step, &queue, now).map_err(trouble::from)
        })
    }

    fn depth<'a>(&'a self, queue: &'a str) -> Answer<'a, Depth> {
        let queue = queue.to_owned();
        self.read(move |step| look::depth(step, &queue).map_err(trouble::from))
    }

    fn dead<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        most: usize,
    ) -> Answer<'a, Vec<Dead>> {
        let queue = queue.to_owned();
        self.read(move |step| grave::list(step, &queue, after, most).map_err(trouble::from))
    }

    fn redrive<'a>(&'a self, queue: &'a str, which: Which, now: Moment) -> Answer<'a, Redriven> {
        let queue = queue.to_owned();
        self.write_and_wake(
            |redriven| redriven.again > 0,
            move |step| grave::redrive(step, &queue, &which, now).map_err(trouble::from),
        )
    }

    fn purge<'a>(&'a self, queue: &'a str, which: Which) -> Answer<'a, u64> {
        let queue = queue.to_owned();
        self.write(move |step| grave::purge(step, &queue, &which).map_err(trouble::from))
    }

    fn take_results<'a>(&'a self, route: &'a str, most: usize) -> Answer<'a, Vec<Stored>> {
        let route = route.to_owned();
        self.write(move |step| look::take_results(step, &route, most).map_err(trouble::from))
    }

    fn attend<'a>(
        &'a self,
        _group: &'a str,
        _name: &'a str,
        _until: Moment,
        _now: Moment,
    ) -> Answer<'a, Attendance> {
        // The file is one process's own.
        Box::pin(async { Ok(Attendance { rank: 0, of: 1 }) })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.woken.notified())
    }
}
