//! The memory of bodies, bounded for all requests together.
//!
//! Each body has a limit of its own, but a thousand bodies at that limit would not fit into memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::reply::Fault;

/// A body up to this size is small. The last eighth of the memory is for small bodies alone, so
/// that a few large ones that come slowly do not block all others.
const SMALL: usize = 64 << 10;

/// The memory of all bodies.
#[derive(Debug, Default)]
pub(crate) struct BodyMemory {
    bytes: AtomicUsize,
}

/// The memory of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    bytes: usize,
}

// === impl BodyMemory ===

impl BodyMemory {
    /// The bytes of all reservations.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An empty reservation.
    pub(crate) fn hold(self: &Arc<Self>) -> Reservation {
        Reservation { memory: Arc::clone(self), bytes: 0 }
    }
}

// === impl Reservation ===

impl Reservation {
    /// Reserves more bytes, if all reservations together then hold at most `most`.
    pub(crate) fn more(&mut self, bytes: usize, most: usize) -> Result<(), Fault> {
        let small = self.bytes.saturating_add(bytes) <= SMALL;
        let most = if small { most } else { most - most / 8 };
        let sum = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= most);
        let held = &self.memory.bytes;
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .map_err(|_| Fault::Overloaded)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Counts bytes that are held in any case, also above the bound.
    pub(crate) fn force(&mut self, bytes: usize) {
        self.memory.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// The bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back up to so many bytes.
    pub(crate) fn less(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x03_bodies_are_bounded_all_together_and_give_their_memory_back() {
        let memory = Arc::new(BodyMemory::default());
        let (mut one, mut other) = (memory.hold(), memory.hold());
        assert_eq!(one.more(60, 100), Ok(()));
        assert_eq!(other.more(41, 100), Err(Fault::Overloaded));
        assert_eq!(other.more(40, 100), Ok(()));
        assert_eq!(one.more(1, 100), Err(Fault::Overloaded));
        drop(one);
        assert_eq!(other.more(60, 100), Ok(()));
        assert_eq!(other.more(usize::MAX, usize::MAX), Err(Fault::Overloaded));
        drop(other);
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn x03_large_bodies_leave_room_for_small_ones() {
        let memory = Arc::new(BodyMemory::default());
        let most = 8 << 20;
        let (mut large, mut small) = (memory.hold(), memory.hold());
        let mut pieces = 0;
        while large.more(SMALL, most).is_ok() {
            pieces += 1;
        }
        assert_eq!(pieces * SMALL, 7 << 20);
        assert_eq!(small.more(SMALL, most), Ok(()));
        assert_eq!(small.more(1, most), Err(Fault::Overloaded), "it is large now");
    }
}
