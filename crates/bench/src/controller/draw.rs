//! What one step of a benchmark leaves to chance.

use sim::random::Random;

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

/// The next draws, for this many flows and picks.
pub(crate) fn draws(random: &mut Random, count: usize, flows: u32, picks: u32) -> Vec<Draw> {
    let cost = |random: &mut Random| 1 + below(random, COST_MAX);
    let draw = |_| Draw {
        flow: below(random, flows),
        cost: cost(random),
        actual: cost(random),
        pick: below(random, picks),
    };
    (0..count).map(draw).collect()
}

/// Puts the items into a random order.
pub(crate) fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for end in (2..=items.len()).rev() {
        items.swap(end - 1, random.below(end as u64) as usize);
    }
}

/// A number from 0 up to, but not including, `end`.
pub(crate) fn below(random: &mut Random, end: u32) -> u32 {
    random.below(u64::from(end)) as u32
}
