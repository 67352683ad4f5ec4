//! Reproducible random numbers: the seed is printed, and `TIDEGATE_SEED` sets it.

use std::hash::{BuildHasher as _, RandomState};

/// Random numbers (xorshift64*).
#[derive(Debug)]
pub(crate) struct Random(u64);

// === impl Random ===

impl Random {
    /// Starts with a new seed and prints it.
    pub(crate) fn new(what: &str) -> Self {
        let given = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(what) >> 16);
        eprintln!("{what}: TIDEGATE_SEED={seed}");
        Self(seed.max(1))
    }

    /// Further random numbers that depend on the seed alone, for another thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}
