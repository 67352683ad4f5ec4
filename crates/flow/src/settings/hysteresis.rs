//! A fixed watermark with its bounds.

use crate::range::{Checked, check};

/// The stock per backend: a watermark with a lower and an upper bound around it.
///
/// An ask bypasses the queue while stock is below `upper`, and leaves it while stock is below
/// `lower`, both times the number of ready backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    pub(super) lower: u64,
    watermark: u64,
    pub(super) upper: u64,
}

// === impl Hysteresis ===

impl Hysteresis {
    /// Bounds are stored in fixed point and rounded down, so that a product such as 5 × 2.2, which
    /// should be a whole number, never admits one ask more.
    pub(crate) const ONE: u64 = 1 << 20;

    /// Bounds at `watermark × (1 ± deviation)`.
    pub fn around(watermark: f64, deviation: f64) -> Checked<Self> {
        let open = deviation > 0.0 && deviation < 1.0;
        check(open, "percentage_deviation_for_bounds", deviation, "more than 0, less than 1")?;
        Self::between(watermark * (1.0 - deviation), watermark, watermark * (1.0 + deviation))
    }

    /// Explicit bounds: `0 <= lower <= watermark <= upper`. With a lower bound of 0 an ask leaves
    /// the queue when a backend has no stock.
    pub fn between(lower: f64, watermark: f64, upper: f64) -> Checked<Self> {
        let most = 1e9;
        check(
            watermark > 0.0 && watermark <= most,
            "watermark_per_backend",
            watermark,
            "0 to 1e9",
        )?;
        let low = (0.0..=watermark).contains(&lower);
        check(low, "lower_bound_per_backend", lower, "0 up to the watermark")?;
        let high = (watermark..=most).contains(&upper);
        check(high, "upper_bound_per_backend", upper, "the watermark to 1e9")?;
        let fixed = |bound: f64| (bound * Self::ONE as f64) as u64;
        Ok(Self { lower: fixed(lower), watermark: fixed(watermark), upper: fixed(upper) })
    }

    /// The same value for both bounds: no hysteresis.
    pub fn limit(per_backend: f64) -> Checked<Self> {
        Self::between(per_backend, per_backend, per_backend)
    }

    /// Lower bound, watermark and upper bound for this many ready backends.
    pub fn scaled(self, ready: usize) -> [f64; 3] {
        [self.lower, self.watermark, self.upper]
            .map(|bound| bound as f64 * ready as f64 / Self::ONE as f64)
    }
}

impl Default for Hysteresis {
    /// The default of the source: a watermark of 2 with a deviation of one tenth.
    fn default() -> Self {
        let tenth = Self::ONE / 5;
        Self {
            lower: 2 * Self::ONE - tenth - 1,
            watermark: 2 * Self::ONE,
            upper: 2 * Self::ONE + tenth,
        }
    }
}
