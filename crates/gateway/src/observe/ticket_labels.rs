//! The label index of each live ask.
//!
//! The core knows an ask by its ticket and its target model, but gauges also have the requested
//! model as a label. So the label index of an ask is stored under the index of its ticket when it
//! begins. The core reuses the index of an ended ask for the next one, which overwrites the entry;
//! no entry is ever cleared.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The table is allocated in segments on first use.
const SEGMENT: usize = 1 << 14;
const SEGMENTS: usize = 1 << 10;

/// See the module documentation. An entry is a label index plus one; 0 means none.
#[derive(Debug)]
pub(super) struct TicketLabels {
    segments: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

// === impl TicketLabels ===

impl TicketLabels {
    /// Stores a label index. Tickets beyond the table have none and are counted by their target
    /// alone.
    pub(super) fn set(&self, index: usize, label_index: u32) {
        let Some(segment) = self.segments.get(index / SEGMENT) else { return };
        let segment = segment.get_or_init(|| (0..SEGMENT).map(|_| AtomicU32::new(0)).collect());
        segment[index % SEGMENT].store(label_index + 1, Relaxed);
    }

    pub(super) fn get(&self, index: usize) -> Option<u32> {
        let segment = self.segments.get(index / SEGMENT)?.get()?;
        segment[index % SEGMENT].load(Relaxed).checked_sub(1)
    }
}

impl Default for TicketLabels {
    fn default() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect() }
    }
}
