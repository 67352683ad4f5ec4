//! The open files for connections to backends: as many as the process may open besides those for
//! clients and for itself.
//!
//! Clients may make more requests at one time than that: one connection of HTTP/2 carries many. If
//! all files are in use, an idle connection of any worker is closed. If there is none, the request
//! waits for a file, those of higher bands first. A request on a connection that was idle needs no
//! file, and takes no lock here.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use flow::Band;
use tokio::sync::oneshot;

use super::pool::Pool;

/// The files of all workers.
#[derive(Debug)]
pub(crate) struct BackendFiles {
    most: usize,
    inner: Mutex<Inner>,
    /// The requests that wait.
    waiting: AtomicUsize,
    /// The connections of each worker.
    pools: Mutex<Vec<Weak<Pool>>>,
    /// Whether the operator knows that requests wait for files.
    told: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    used: usize,
    arrived: u64,
    waiters: BTreeMap<Rank, oneshot::Sender<OpenFile>>,
}

/// The first one is the next to get a file.
type Rank = (Reverse<Band>, u64);

/// One file, given back when it is dropped: after its connection.
#[derive(Debug)]
pub(crate) struct OpenFile(Arc<BackendFiles>);

/// A request that waits.
struct Waiter<'a> {
    files: &'a BackendFiles,
    rank: Rank,
}

// === impl BackendFiles ===

impl BackendFiles {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            inner: Mutex::default(),
            waiting: AtomicUsize::new(0),
            pools: Mutex::default(),
            told: AtomicBool::new(false),
        })
    }

    /// Adds the connections of a worker to those that are closed when files are scarce.
    pub(super) fn add(&self, pool: &Arc<Pool>) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(pool));
    }

    /// Waits for a file.
    pub(super) async fn open(self: &Arc<Self>, band: Band) -> OpenFile {
        let (waiter, file) = {
            let mut inner = self.inner();
            if inner.used < self.most {
                inner.used += 1;
                return OpenFile(Arc::clone(self));
            }
            let (sender, file) = oneshot::channel();
            inner.arrived += 1;
            let rank = (Reverse(band), inner.arrived);
            inner.waiters.insert(rank, sender);
            self.waiting.fetch_add(1, Ordering::SeqCst);
            (Waiter { files: self, rank }, file)
        };
        // It counts as waiting already, so no connection becomes idle unseen.
        let closed = self.close_idle();
        if !closed && !self.told.swap(true, Ordering::Relaxed) {
            let most = self.most;
            tracing::warn!(
                most,
                "requests wait for files: backends have as many connections as fit"
            );
        }
        let file = file.await;
        drop(waiter);
        // A sender that was taken out of the list is used.
        file.unwrap_or_else(|_| {
            self.inner().used += 1;
            OpenFile(Arc::clone(self))
        })
    }

    /// Whether a connection that becomes idle must close, because a request waits for its file.
    pub(super) fn are_scarce(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Closes one idle connection. Returns whether there was any.
    pub(super) fn close_idle(&self) -> bool {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pools.iter().filter_map(Weak::upgrade).any(|pool| pool.close_idle())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Waiter ===

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.files.waiting.fetch_sub(1, Ordering::SeqCst);
        self.files.inner().waiters.remove(&self.rank);
    }
}

// === impl OpenFile ===

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        let next = inner.waiters.pop_first();
        inner.used -= usize::from(next.is_none());
        drop(inner);
        if let Some((_, waiter)) = next {
            // A waiter that has just left drops the file again.
            drop(waiter.send(Self(Arc::clone(&self.0))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn x03_files_for_backends_are_bounded_and_higher_bands_come_first() {
        let files = BackendFiles::new(2);
        let take = |band| match poll(std::pin::pin!(files.open(band))) {
            Poll::Ready(file) => file,
            Poll::Pending => panic!("there is a file"),
        };
        let (first, second) = (take(Band::Normal), take(Band::Normal));
        let mut low = Box::pin(files.open(Band::BestEffort));
        let mut gone = Box::pin(files.open(Band::Critical));
        let mut high = Box::pin(files.open(Band::High));
        assert!(poll(low.as_mut()).is_pending() && poll(gone.as_mut()).is_pending());
        assert!(poll(high.as_mut()).is_pending() && files.are_scarce());
        drop(gone);
        drop(first);
        assert!(poll(low.as_mut()).is_pending());
        let Poll::Ready(third) = poll(high.as_mut()) else { panic!("it has the higher band") };
        drop(second);
        // It has got a file and leaves without it.
        drop(low);
        assert!(!files.are_scarce());
        drop((third, take(Band::Normal)));
        assert_eq!(files.inner().used, 0);
    }
}
