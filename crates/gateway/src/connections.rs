//! How many are connected, and when nobody is.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Everyone who is connected.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    count: AtomicUsize,
    /// Rung when the last one leaves.
    empty: Notify,
}

/// One place among those who are connected.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Connections);

// === impl Connections ===

impl Connections {
    /// Takes a place if there are fewer than `most`.
    pub(crate) fn join(&self, most: usize) -> Option<Place<'_>> {
        let more = |count| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Place(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Resolves when nobody is connected.
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
