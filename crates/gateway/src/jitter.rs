//! Random variation of intervals, so that loops and retries do not run in step.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A generator; the same seed gives the same sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter(u64);

/// A random number from 0 to 1, for a single retry that has no sequence.
pub(crate) fn fraction() -> f64 {
    let bits = RandomState::new().hash_one(()) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

// === impl Jitter ===

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// A random part of a duration, from none to all of it.
    pub(crate) fn part_of(&mut self, whole: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        whole.mul_f64((self.0 >> 40) as f64 / (1u64 << 24) as f64)
    }

    /// A duration within a tenth of another one.
    pub(crate) fn around(&mut self, time: Duration) -> Duration {
        time.mul_f64(0.9) + self.part_of(time.mul_f64(0.2))
    }
}
