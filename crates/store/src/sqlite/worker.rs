//! The two threads that own the connections: one writes, one reads.
//!
//! The writer takes all operations that arrived while it wrote the last group, runs them in one
//! transaction, and reports their results after the commit is on the disk. One operation alone
//! waits for one fsync, and so do two hundred that arrive together. Each operation has its own
//! savepoint, so a failed operation does not affect the others.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Notify, mpsc, oneshot};

use super::error;
use crate::error::{ErrorKind, StoreError};

/// The maximum number of operations in one transaction, and in the queue for the next.
const GROUP_MAX: usize = 256;

/// An operation. It gets a transaction, or the error that prevented one.
type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StoreError>) -> Ran + Send>;

/// An operation that ran, whose caller has not been told yet.
struct Ran {
    error: Option<StoreError>,
    notifies: bool,
    /// Sends the result to the caller, or the error of the commit.
    report: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// A thread with a connection.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

// === impl Worker ===

impl Worker {
    /// Starts the thread that writes. It owns the lock of the file until it ends.
    pub(super) fn writer(
        connection: Connection,
        lock: File,
        changed: Arc<Notify>,
    ) -> Result<Self, StoreError> {
        Self::start("store-writer", move |jobs| {
            write(connection, jobs, &changed);
            // A child process that is just being spawned inherits the descriptor for a moment, so
            // closing it is not enough to release the lock.
            _ = lock.unlock();
        })
    }

    /// Starts the thread that reads.
    pub(super) fn reader(connection: Connection) -> Result<Self, StoreError> {
        Self::start("store-reader", move |jobs| read(connection, jobs))
    }

    fn start(
        name: &str,
        work: impl FnOnce(mpsc::Receiver<Job>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(GROUP_MAX);
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(inbox));
        let thread = thread.map_err(|error| {
            StoreError::new(ErrorKind::Broken, format!("no thread for the queue: {error}"))
                .caused_by(error)
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs an operation, and waits until it is committed. Dropping the future does not undo it.
    pub(super) async fn run<T, E>(
        &self,
        notifies: fn(&T) -> bool,
        operation: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        E: Into<StoreError>,
    {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            let result = tx.and_then(|tx| in_savepoint(tx, operation));
            let (error, notifies) =
                (result.as_ref().err().cloned(), result.as_ref().is_ok_and(notifies));
            let report = move |commit: Result<(), StoreError>| _ = sender.send(commit.and(result));
            Ran { error, notifies, report: Box::new(report) }
        });
        let jobs = self.jobs.as_ref().ok_or_else(error::stopped)?;
        jobs.send(job).await.map_err(|_| error::stopped())?;
        receiver.await.unwrap_or_else(|_| Err(error::stopped()))
    }
}

impl Drop for Worker {
    /// Waits for the queued operations, so that the file is closed afterwards. An operation may own
    /// the last handle of its store, and then this runs on the worker thread, which cannot join
    /// itself.
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.take();
        let thread = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = thread {
            _ = thread.join();
        }
    }
}

/// Runs an operation in a savepoint, so that its failure undoes only its own writes.
fn in_savepoint<T, E: Into<StoreError>>(
    tx: &Transaction<'_>,
    operation: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, StoreError> {
    let execute = |sql| tx.prepare_cached(sql).and_then(|mut sql| sql.execute([]));
    execute("SAVEPOINT operation")?;
    let result = operation(tx).map_err(Into::into);
    if tx.is_autocommit() {
        return result;
    }
    let undone = if result.is_err() { execute("ROLLBACK TO operation") } else { Ok(0) };
    if let Err(error) = undone.and_then(|_| execute("RELEASE operation")) {
        // Without the savepoint only the whole group can be undone: a partial write is never kept.
        _ = tx.execute_batch("ROLLBACK");
        return Err(error.into());
    }
    result
}

fn read(mut connection: Connection, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        let mut waiting = VecDeque::from([job]);
        while !waiting.is_empty() {
            run_group(&mut connection, &mut waiting, TransactionBehavior::Deferred);
        }
    }
}

fn write(mut connection: Connection, mut jobs: mpsc::Receiver<Job>, changed: &Notify) {
    let mut waiting = VecDeque::new();
    while let Some(job) = jobs.blocking_recv() {
        waiting.push_back(job);
        while !waiting.is_empty() {
            while waiting.len() < GROUP_MAX
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push_back(job);
            }
            if run_group(&mut connection, &mut waiting, TransactionBehavior::Immediate) {
                changed.notify_waiters();
            }
        }
    }
}

/// Runs the waiting operations in one transaction and reports their results; returns whether to
/// notify of a change. It stops early when SQLite rolls the whole transaction back, as it may when
/// the disk is full: then the operations that ran have failed, and the rest waits for the next
/// transaction.
fn run_group(
    connection: &mut Connection,
    waiting: &mut VecDeque<Job>,
    behavior: TransactionBehavior,
) -> bool {
    let tx = match connection.transaction_with_behavior(behavior) {
        Ok(tx) => tx,
        Err(error) => {
            let error = StoreError::from(error);
            for job in waiting.drain(..) {
                (job(Err(error.clone())).report)(Ok(()));
            }
            return false;
        }
    };
    let mut ran: Vec<Ran> = Vec::with_capacity(waiting.len());
    while let Some(job) = waiting.pop_front() {
        ran.push(job(Ok(&tx)));
        if tx.is_autocommit() {
            break;
        }
    }
    let rolled_back = tx.is_autocommit();
    let committed = match ran.last().and_then(|last| last.error.clone()) {
        Some(error) if rolled_back => Err(error),
        _ => tx.commit().map_err(StoreError::from),
    };
    let notifies = committed.is_ok() && ran.iter().any(|ran| ran.notifies);
    for ran in ran {
        (ran.report)(committed.clone());
    }
    notifies
}
