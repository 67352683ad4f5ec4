//! A flow's share of service, in fixed point.

use crate::range::{Checked, check};

/// Fixed-point one of an inverse weight.
pub(crate) const INVERSE_ONE: u64 = 1 << 24;
/// Fixed-point one of a weight in a sum of weights.
pub(crate) const UNIT: u64 = 1 << 16;

/// A flow's share of service relative to others: 0.01 to 1000.
///
/// It is stored as its inverse, because a charge is `cost / weight`. Rounding changes a weight by
/// less than one part in thirty thousand; after that, tags accumulate without error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    pub(crate) inverse: u32,
    pub(crate) units: u32,
}

// === impl Weight ===

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self { inverse: INVERSE_ONE as u32, units: UNIT as u32 };

    /// A weight from 0.01 to 1000; other numbers, NaN and infinity are refused.
    pub fn new(value: f64) -> Checked<Self> {
        check((0.01..=1000.0).contains(&value), "weight", value, "0.01 to 1000")?;
        let inverse = (INVERSE_ONE as f64 / value).round() as u32;
        Ok(Self { inverse, units: (UNIT as f64 * value).round() as u32 })
    }

    /// The weight after rounding.
    pub fn value(self) -> f64 {
        INVERSE_ONE as f64 / f64::from(self.inverse)
    }

    /// `cost / weight` in virtual time.
    pub(crate) fn stretch(self, cost: u32) -> u64 {
        u64::from(cost) * u64::from(self.inverse)
    }
}
