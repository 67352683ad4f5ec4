//! The two threads that hold the connections: one writes, one reads.
//!
//! The writer takes whatever has come while it wrote the last group, runs it in one transaction,
//! and tells nobody before that is on the disk. Whoever comes alone waits for one flush of the
//! disk, and so do two hundred who come together. Every operation has a savepoint of its own: one
//! that fails takes nothing of the others with it.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Notify, mpsc, oneshot};

use super::error;
use crate::error::{ErrorKind, StoreError};

/// The most operations of one transaction, and the most that wait for the next.
const GROUP: usize = 256;

/// An operation that waits for a transaction, or for word that there is none.
type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StoreError>) -> Ran + Send>;

/// An operation that was run, and whom to tell when it counts.
struct Ran {
    failed: Option<StoreError>,
    wakes: bool,
    tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// A thread and the way to it.
#[derive(Debug)]
pub(super) struct Desk {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

// === impl Desk ===

impl Desk {
    /// A thread that writes, and wakes whoever waits for changes. The file is ours until it ends.
    pub(super) fn writer(
        connection: Connection,
        lock: File,
        woken: Arc<Notify>,
    ) -> Result<Self, StoreError> {
        Self::start("store-writer", move |jobs| {
            write(connection, jobs, &woken);
            // A program that is being started has a copy of the open file for a moment: closing
            // ours would leave it locked.
            _ = lock.unlock();
        })
    }

    /// A thread that reads.
    pub(super) fn reader(connection: Connection) -> Result<Self, StoreError> {
        Self::start("store-reader", move |jobs| read(connection, jobs))
    }

    fn start(
        name: &str,
        work: impl FnOnce(mpsc::Receiver<Job>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(GROUP);
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(inbox));
        let thread = thread.map_err(|error| {
            StoreError::new(ErrorKind::Broken, format!("no thread for the queue: {error}"))
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has an operation run, and waits until it counts. Dropping this does not undo it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        wakes: fn(&T) -> bool,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move |step| {
            let result = step.and_then(|step| apart(step, operation));
            let (failed, wakes) =
                (result.as_ref().err().cloned(), result.as_ref().is_ok_and(wakes));
            let tell = move |counts: Result<(), StoreError>| _ = tell.send(counts.and(result));
            Ran { failed, wakes, tell: Box::new(tell) }
        });
        let jobs = self.jobs.as_ref().ok_or_else(error::stopped)?;
        jobs.send(job).await.map_err(|_| error::stopped())?;
        told.await.unwrap_or_else(|_| Err(error::stopped()))
    }
}

impl Drop for Desk {
    /// Waits for what was asked, so that the file is closed when this is over. An operation may
    /// hold the last handle of its own store; the thread that lets go of it cannot wait for itself.
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.take();
        let thread = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = thread {
            _ = thread.join();
        }
    }
}

/// Runs an operation so that its failure undoes it alone.
fn apart<T>(
    step: &Transaction<'_>,
    operation: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let say = |sql| step.prepare_cached(sql).and_then(|mut sql| sql.execute([]));
    say("SAVEPOINT operation").map_err(error::from)?;
    let result = operation(step);
    if step.is_autocommit() {
        return result;
    }
    let undone = if result.is_err() { say("ROLLBACK TO operation") } else { Ok(0) };
    if let Err(error) = undone.and_then(|_| say("RELEASE operation")) {
        // What cannot be undone alone is undone with all others: nothing half done is kept.
        _ = step.execute_batch("ROLLBACK");
        return Err(error::from(error));
    }
    result
}

fn read(mut connection: Connection, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        let mut waiting = VecDeque::from([job]);
        while !waiting.is_empty() {
            group(&mut connection, &mut waiting, TransactionBehavior::Deferred);
        }
    }
}

fn write(mut connection: Connection, mut jobs: mpsc::Receiver<Job>, woken: &Notify) {
    let mut waiting = VecDeque::new();
    while let Some(job) = jobs.blocking_recv() {
        waiting.push_back(job);
        while !waiting.is_empty() {
            while waiting.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push_back(job);
            }
            if group(&mut connection, &mut waiting, TransactionBehavior::Immediate) {
                woken.notify_waiters();
            }
        }
    }
}

/// Runs what waits in one transaction and tells everyone; whether somebody is to be woken. Stops
/// early when SQLite gives the whole transaction up, as it may when there is no room: then what has
/// run did not happen, and the rest waits for the next.
fn group(
    connection: &mut Connection,
    waiting: &mut VecDeque<Job>,
    behavior: TransactionBehavior,
) -> bool {
    let step = match connection.transaction_with_behavior(behavior).map_err(error::from) {
        Ok(step) => step,
        Err(error) => {
            for job in waiting.drain(..) {
                (job(Err(error.clone())).tell)(Ok(()));
            }
            return false;
        }
    };
    let mut ran: Vec<Ran> = Vec::with_capacity(waiting.len());
    while let Some(job) = waiting.pop_front() {
        ran.push(job(Ok(&step)));
        if step.is_autocommit() {
            break;
        }
    }
    let given_up = step.is_autocommit();
    let counts = match ran.last().and_then(|last| last.failed.clone()) {
        Some(error) if given_up => Err(error),
        _ => step.commit().map_err(error::from),
    };
    let wakes = counts.is_ok() && ran.iter().any(|ran| ran.wakes);
    for ran in ran {
        (ran.tell)(counts.clone());
    }
    wakes
}
