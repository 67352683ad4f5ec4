//! Chance from a seed: the same seed, the same history, on every machine.
//!
//! Distributions are built from additions, multiplications, divisions and square roots alone,
//! because these are rounded alike everywhere.

mod elementary;
#[cfg(test)]
mod tests;

use elementary::{exp, ln};

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

// === impl Random ===

impl Random {
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
    /// A number above 0 up to and with 1, whose logarithm is therefore finite.
    fn unit_above_zero(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// An exponential number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(self.unit_above_zero())
    }

    /// A normal number with mean 0 and deviation 1, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// A gamma number of a shape above 0 with scale 1: mean and variance are both `shape`.
    ///
    /// Marsaglia and Tsang's method, ACM Transactions on Mathematical Software 26 (2000), 363.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // The method needs a shape of at least 1; a power of a uniform number takes it down.
            let boosted = self.gamma(shape + 1.0);
            return boosted * exp(ln(self.unit_above_zero()) / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            let v = root * root * root;
            let bound = 0.5 * x * x + d - d * v;
            if root > 0.0 && ln(self.unit_above_zero()) < bound + d * ln(v) {
                return d * v;
            }
        }
    }

    /// A lognormal number with this mean and coefficient of variation, both above 0.
    pub fn lognormal(&mut self, mean: f64, cv: f64) -> f64 {
        let variance = ln(1.0 + cv * cv);
        exp(ln(mean) - variance / 2.0 + variance.sqrt() * self.normal())
    }
}
