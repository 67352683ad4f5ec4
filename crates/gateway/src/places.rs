//! Places for what the capacities of the queue do not bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of places taken.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Arc<AtomicUsize>,
}

/// The place of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<AtomicUsize>,
}

// === impl Places ===

impl Places {
    /// Takes a place, if fewer than `capacity` are taken.
    pub(crate) fn take(&self, capacity: usize) -> Option<Place> {
        let next = |taken: usize| (taken < capacity).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Place { taken: Arc::clone(&self.taken) })
    }

    /// How many places are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
