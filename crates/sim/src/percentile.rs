//! The one definition of a percentile: nearest rank, on sorted values, never interpolated.

use flow::Span;

/// How a set of spans is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean: Span,
    /// Half of them are at most this.
    pub p50: Span,
    /// 99 of 100 are at most this.
    pub p99: Span,
    /// The largest.
    pub max: Span,
}

/// The smallest value such that at least `per_mille` of 1000 parts of all are no larger. The share
/// is an integer because 0.99 times a count is not always what it should be.
pub fn nearest_rank<T: Copy>(sorted: &[T], per_mille: usize) -> Option<T> {
    let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

// === impl Stat ===

impl Stat {
    /// The distribution of these values; nothing where there are none.
    pub fn of(mut values: Vec<Span>) -> Option<Self> {
        values.sort_unstable();
        let sum: u128 = values.iter().map(|value| u128::from(value.nanos())).sum();
        let mean = sum.checked_div(values.len() as u128)?;
        Some(Self {
            count: values.len() as u64,
            mean: Span::from_nanos(mean as u64),
            p50: nearest_rank(&values, 500)?,
            p99: nearest_rank(&values, 990)?,
            max: *values.last()?,
        })
    }
}
