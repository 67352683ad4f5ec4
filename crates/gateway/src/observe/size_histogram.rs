//! Histograms of sizes: bytes and tokens. The bucket bounds are the powers of two up to 2^30.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of buckets with an upper bound.
pub(super) const BUCKETS: usize = 31;

/// Counts by bucket; the last one is for larger sizes.
#[derive(Debug, Default)]
pub(super) struct SizeHistogram {
    counts: [AtomicU64; BUCKETS + 1],
    sum: AtomicU64,
}

/// A histogram at one moment, with cumulative counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SizeSnapshot {
    pub(super) up_to: [u64; BUCKETS],
    pub(super) count: u64,
    pub(super) sum: u64,
}

// === impl SizeHistogram ===

impl SizeHistogram {
    pub(super) fn add(&self, size: u64) {
        // The exponent of the smallest power of two that is not below the size.
        let bucket = u64::BITS - size.saturating_sub(1).leading_zeros();
        self.counts[(bucket as usize).min(BUCKETS)].fetch_add(1, Relaxed);
        self.sum.fetch_add(size, Relaxed);
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    pub(super) fn read(&self) -> SizeSnapshot {
        let mut count = 0;
        let mut running = self.counts.iter().map(|bucket| {
            count += bucket.load(Relaxed);
            count
        });
        let up_to = std::array::from_fn(|_| running.next().unwrap_or_default());
        running.for_each(drop);
        SizeSnapshot { up_to, count, sum: self.sum() }
    }
}
