//! Places for requests that the capacities of the queue do not bound: requests that wait for a
//! configured model without a backend, and reads, which do not use the queue.

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

/// How many places are taken, of how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlacesUsage {
    pub(crate) taken: usize,
    pub(crate) capacity: usize,
}

// === impl Places ===

impl Places {
    /// Takes a place, if fewer than `capacity` are taken.
    pub(crate) fn take(&self, capacity: usize) -> Option<Place> {
        let next = |taken: usize| (taken < capacity).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Place { taken: Arc::clone(&self.taken) })
    }

    pub(crate) fn usage(&self, capacity: usize) -> PlacesUsage {
        PlacesUsage { taken: self.taken.load(Ordering::Relaxed), capacity }
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
