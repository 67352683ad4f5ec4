//! The places of requests that wait for a configured model without a backend.
//!
//! Such waits are long, so they have a bound of their own beside the capacities of the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of places taken.
#[derive(Debug, Default)]
pub(crate) struct HoldPlaces {
    taken: Arc<AtomicUsize>,
}

/// The place of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HoldPlace {
    taken: Arc<AtomicUsize>,
}

/// How many places are taken, of how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoldUsage {
    pub(crate) taken: usize,
    pub(crate) capacity: usize,
}

// === impl HoldPlaces ===

impl HoldPlaces {
    /// Takes a place, if fewer than `capacity` are taken.
    pub(crate) fn take(&self, capacity: usize) -> Option<HoldPlace> {
        let next = |taken: usize| (taken < capacity).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(HoldPlace { taken: Arc::clone(&self.taken) })
    }

    pub(crate) fn usage(&self, capacity: usize) -> HoldUsage {
        HoldUsage { taken: self.taken.load(Ordering::Relaxed), capacity }
    }
}

// === impl HoldPlace ===

impl Drop for HoldPlace {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
