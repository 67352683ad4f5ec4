//! Random numbers that are the same in every run, and what one cycle draws from them.

/// A xorshift generator.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

/// What one step of a benchmark leaves to chance. Core and floor are given the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    /// The flow that the new ask belongs to.
    pub(crate) flow: u32,
    /// Its estimated cost.
    pub(crate) cost: u32,
    /// What the ask that ends really cost.
    pub(crate) actual: u32,
    /// One of the waiting asks, or whatever else a benchmark chooses by number.
    pub(crate) pick: u32,
}

/// The largest cost drawn.
const COST_MAX: u32 = 1000;

// === impl Chance ===

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        // The generator must not start at zero; any odd factor spreads small seeds.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// A number from 0 up to, but not including, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts the items into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end as u32) as usize);
        }
    }

    pub(crate) fn draws(&mut self, count: usize, flows: u32, picks: u32) -> Vec<Draw> {
        let cost = |chance: &mut Self| 1 + chance.below(COST_MAX);
        let draw = |_| Draw {
            flow: self.below(flows),
            cost: cost(self),
            actual: cost(self),
            pick: self.below(picks),
        };
        (0..count).map(draw).collect()
    }
}
