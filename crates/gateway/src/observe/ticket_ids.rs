//! The request ids of live asks, by which an operator finds a request.
//!
//! The core knows an ask by its ticket. A hash of the request id is stored under the index of the
//! ticket when the ask begins, and the reason of the choice and the number of the attempt when a
//! backend is granted: a few writes for each request, and no allocation. The next ask with the same
//! index overwrites them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use flow::RouteReason;

/// The table is allocated in segments on first use.
const SEGMENT: usize = 1 << 12;
const SEGMENTS: usize = 1 << 12;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct TicketIds {
    segments: Box<[OnceLock<Box<[TicketEntry]>>]>,
}

#[derive(Debug, Default)]
struct TicketEntry {
    /// The hash of the request id.
    id: AtomicU64,
    /// The number of the reason, plus one; 0 means none.
    reason: AtomicU8,
    /// The attempts at backends so far.
    attempts: AtomicU32,
}

// === impl TicketIds ===

impl TicketIds {
    /// An ask begins. Requests with tickets beyond the table cannot be found.
    pub(super) fn set(&self, index: usize, id: &[u8]) {
        let Some(segment) = self.segments.get(index / SEGMENT) else { return };
        let segment = segment.get_or_init(|| (0..SEGMENT).map(|_| Default::default()).collect());
        let entry = &segment[index % SEGMENT];
        entry.id.store(hash(id), Relaxed);
        entry.reason.store(0, Relaxed);
        entry.attempts.store(0, Relaxed);
    }

    /// Its backend was chosen, for its attempt with this number.
    pub(super) fn chose(&self, index: usize, reason: RouteReason, attempt: u32) {
        if let Some(entry) = self.entry(index) {
            entry.reason.store(reason as u8 + 1, Relaxed);
            entry.attempts.store(attempt, Relaxed);
        }
    }

    /// The attempts at backends so far, with the present one.
    pub(super) fn attempts(&self, index: usize) -> Option<u32> {
        Some(self.entry(index)?.attempts.load(Relaxed))
    }

    /// Whether the ask with this index has this request id.
    pub(super) fn has(&self, index: usize, id: &[u8]) -> bool {
        self.entry(index).is_some_and(|entry| entry.id.load(Relaxed) == hash(id))
    }

    /// Why its backend was chosen.
    pub(super) fn reason(&self, index: usize) -> Option<RouteReason> {
        let number = self.entry(index)?.reason.load(Relaxed).checked_sub(1)?;
        RouteReason::ALL.get(usize::from(number)).copied()
    }

    fn entry(&self, index: usize) -> Option<&TicketEntry> {
        self.segments.get(index / SEGMENT)?.get()?.get(index % SEGMENT)
    }
}

impl Default for TicketIds {
    fn default() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect() }
    }
}

/// A hash of a few instructions for each eight bytes. It tells ids apart; it guards nothing.
fn hash(id: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = MIX ^ id.len() as u64;
    for part in id.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MIX).rotate_left(29);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_a_request_is_found_by_its_id_until_the_next_one_takes_its_ticket() {
        let ids = TicketIds::default();
        assert!(!ids.has(7, b"one"));
        ids.set(7, b"one");
        ids.chose(7, RouteReason::NormalBalanced, 3);
        assert!(ids.has(7, b"one") && !ids.has(7, b"two") && !ids.has(8, b"one"));
        assert_eq!(ids.reason(7), Some(RouteReason::NormalBalanced));
        assert_eq!(ids.attempts(7), Some(3));
        ids.set(7, b"two");
        assert!(!ids.has(7, b"one") && ids.has(7, b"two"));
        assert_eq!((ids.reason(7), ids.attempts(7)), (None, Some(0)));
        ids.set(SEGMENT * SEGMENTS, b"beyond");
        assert!(!ids.has(SEGMENT * SEGMENTS, b"beyond"));
    }

    #[test]
    fn m03_similar_ids_have_different_hashes() {
        let ids: Vec<String> = (0..50_000).map(|number| format!("req-{number:032x}")).collect();
        let hashes: std::collections::BTreeSet<u64> =
            ids.iter().map(|id| hash(id.as_bytes())).collect();
        assert_eq!(hashes.len(), ids.len());
        assert_ne!(hash(b""), hash(b"\0"));
    }
}
