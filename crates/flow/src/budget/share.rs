//! The share of one dispatcher in a budget that several dispatchers read.

/// The share of one dispatcher, if several dispatchers read the same system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: u32,
    of: u32,
}

// === impl Share ===

impl Share {
    /// The whole budget.
    pub const WHOLE: Self = Self { rank: 0, of: 1 };

    /// The share of the dispatcher with this rank (from 0) among `of` dispatchers. A rank beyond
    /// the last has no share.
    pub const fn new(rank: u32, of: u32) -> Self {
        Self { rank, of: if of == 0 { 1 } else { of } }
    }

    /// Whether it is no share.
    pub(super) const fn is_none(self) -> bool {
        self.rank >= self.of
    }

    /// Its part of `total`. The parts of all ranks add up to `total`.
    pub fn part(self, total: i64) -> i64 {
        if self.is_none() {
            return 0;
        }
        let of = i64::from(self.of);
        total.div_euclid(of) + i64::from(i64::from(self.rank) < total.rem_euclid(of))
    }
}
