//! Which page each living ask belongs to.
//!
//! The core knows asks by number and models by target; gauges also name the model that was asked
//! for. So the page of an ask is noted under its ticket's index when it begins. The index is given
//! to the next ask when this one has ended, which then notes its own: nothing is ever cleared.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Indices are kept in segments, which are made when one of them is used first.
const SEGMENT: usize = 1 << 14;
const SEGMENTS: usize = 1 << 10;

/// See the module's description. A value is a page's number plus one; 0 means that none was noted.
#[derive(Debug)]
pub(super) struct TicketLabels {
    segments: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

// === impl TicketLabels ===

impl TicketLabels {
    /// Notes a page. Indices beyond what is kept go without; they count by their target alone.
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
