//! The number of open connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    count: AtomicUsize,
    /// Notified when the last connection closes.
    empty: Notify,
}

/// One connection in the count.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Connections);

// === impl Connections ===

impl Connections {
    /// Counts a connection, if fewer than `most` are open.
    pub(crate) fn join(&self, most: usize) -> Option<Place<'_>> {
        let more = |count| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Place(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Resolves when no connection is open.
    pub(crate) async fn none(&self) {
        loop {
            let empty = self.empty.notified();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }
}

// === impl Place ===

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}
