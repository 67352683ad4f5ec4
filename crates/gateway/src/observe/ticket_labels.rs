//! The label index of each live ask, and the size of its body.
//!
//! The core knows an ask by its ticket and its target model, but gauges also have the requested
//! model as a label, and sum up bytes. So both are stored under the index of its ticket when it
//! begins, in one word. The core reuses the index of an ended ask for the next one, which
//! overwrites the entry; no entry is ever cleared.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The table is allocated in segments on first use.
const SEGMENT: usize = 1 << 14;
const SEGMENTS: usize = 1 << 10;

/// The bits of an entry that are the size.
const SIZE_BITS: u32 = 40;

/// See the module documentation. The upper bits of an entry are a label index plus one; 0 means
/// none.
#[derive(Debug)]
pub(super) struct TicketLabels {
    segments: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

// === impl TicketLabels ===

impl TicketLabels {
    /// Stores a label index. Tickets beyond the table have none and are counted by their target
    /// alone.
    pub(super) fn set(&self, index: usize, label_index: u32, bytes: u64) {
        let Some(segment) = self.segments.get(index / SEGMENT) else { return };
        let segment = segment.get_or_init(|| (0..SEGMENT).map(|_| AtomicU64::new(0)).collect());
        let entry = u64::from(label_index + 1) << SIZE_BITS | bytes.min((1 << SIZE_BITS) - 1);
        segment[index % SEGMENT].store(entry, Relaxed);
    }

    /// The label index and the size.
    pub(super) fn get(&self, index: usize) -> Option<(u32, u64)> {
        let segment = self.segments.get(index / SEGMENT)?.get()?;
        let entry = segment[index % SEGMENT].load(Relaxed);
        let label_index = (entry >> SIZE_BITS).checked_sub(1)?;
        Some((label_index as u32, entry & ((1 << SIZE_BITS) - 1)))
    }
}

impl Default for TicketLabels {
    fn default() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect() }
    }
}
