//! Chance from a seed: the same seed, the same history, on every machine.

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Dice(u64);

// === impl Dice ===

impl Dice {
    /// A generator with its own history.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one purpose: streams drawn for different purposes do not disturb each other.
    pub fn fork(&self, purpose: &str) -> Self {
        let mixed = purpose
            .bytes()
            .fold(self.0, |mix, byte| (mix ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut fork = Self(mixed);
        fork.bits();
        fork
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }
}
