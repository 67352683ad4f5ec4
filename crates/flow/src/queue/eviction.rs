//! The flow that loses an ask when the queue is full.
//!
//! One ranking per band: the flow that was preempted least recently comes first; among flows that
//! never were, the flow with the longest queue. Lengths change with every enqueue and dequeue, so
//! the ranking keeps only an upper bound of each. A dequeue leaves the bound alone. An enqueue
//! raises it, to the next power of two, only when the length exceeds it. The search for a victim
//! tightens the bound of the first flow until it is exact. Each tightening was paid for by a raise,
//! so the cost is O(log flows) amortised, and an ask that is not preempted pays nothing.

use super::heap::{Entry, Heap, Positions, entry, id};

#[derive(Clone, Debug, Default)]
pub(crate) struct EvictionRanking {
    heap: Heap,
    positions: Positions,
    /// When each flow was last preempted, by flow; 0 is never.
    stamps: Vec<u64>,
    stamp_last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    stamp: u64,
    length_bound: u32,
    flow: u32,
}

// === impl Rank ===

impl Rank {
    fn entry(self) -> Entry {
        entry(self.stamp, !self.length_bound, self.flow)
    }

    fn of(entry: Entry) -> Self {
        let length_bound = !((entry >> 32) as u32);
        Self { stamp: (entry >> 64) as u64, length_bound, flow: id(entry) }
    }
}

// === impl EvictionRanking ===

impl EvictionRanking {
    /// Raises the bound of a flow whose queue has exceeded it; returns the new bound.
    pub(crate) fn raise(&mut self, flow: u32, length: u32) -> u32 {
        let length_bound = length.next_power_of_two();
        if self.stamps.len() <= flow as usize {
            self.stamps.resize(flow as usize + 1, 0);
        }
        let rank = Rank { stamp: self.stamps[flow as usize], length_bound, flow };
        if self.contains(flow) {
            self.heap.update(rank.entry(), &mut self.positions);
        } else {
            self.heap.push(rank.entry(), &mut self.positions);
        }
        length_bound
    }

    /// The flow that loses an ask next. `length` returns the number of a flow's waiting asks, and
    /// `tighten` is called with each new bound.
    pub(crate) fn victim(
        &mut self,
        length: impl Fn(u32) -> u32,
        mut tighten: impl FnMut(u32, u32),
    ) -> Option<u32> {
        loop {
            let first = Rank::of(self.heap.top()?);
            let actual = length(first.flow);
            let exact = actual == first.length_bound;
            // Stamps above 0 are unique, so the length does not decide between them.
            if actual > 0 && (exact || first.stamp > 0) {
                return Some(first.flow);
            }
            tighten(first.flow, actual);
            if actual == 0 {
                self.heap.remove(first.flow, &mut self.positions);
            } else {
                let rank = Rank { length_bound: actual, ..first };
                self.heap.update(rank.entry(), &mut self.positions);
            }
        }
    }

    /// Puts a flow that has just been preempted behind all others.
    pub(crate) fn stamp(&mut self, flow: u32) {
        self.stamp_last += 1;
        self.stamps[flow as usize] = self.stamp_last;
        let rank = Rank { stamp: self.stamp_last, length_bound: u32::MAX, flow };
        self.heap.update(rank.entry(), &mut self.positions);
    }

    /// Forgets a flow.
    pub(crate) fn forget(&mut self, flow: u32) {
        if self.contains(flow) {
            self.heap.remove(flow, &mut self.positions);
        }
        if let Some(stamp) = self.stamps.get_mut(flow as usize) {
            *stamp = 0;
        }
    }

    fn contains(&self, flow: u32) -> bool {
        self.heap.holds(flow, &self.positions)
    }
}
