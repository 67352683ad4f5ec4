//! Deadlines in a hashed timing wheel of one level.
//!
//! One turn of the wheel is longer than any deadline it is given here, so a slot never holds an
//! ask that is due only in a later turn: the simplest wheel is then also the fastest.

use super::{NONE, Node};

/// A tick is 2^20 ns, about a millisecond, and a turn is 34 s.
const TICK_BITS: u32 = 20;
const SLOTS: usize = 1 << 15;

#[derive(Clone, Debug)]
pub(super) struct Wheel {
    heads: Vec<u32>,
    /// Every tick before this one has been dealt with.
    tick: u64,
}

// === impl Wheel ===

impl Default for Wheel {
    fn default() -> Self {
        Self { heads: vec![NONE; SLOTS], tick: 0 }
    }
}

impl Wheel {
    pub(super) fn insert(&mut self, at: u32, nodes: &mut [Node]) {
        let head = &mut self.heads[slot_of(nodes[at as usize].deadline)];
        let next = std::mem::replace(head, at);
        nodes[at as usize].wheel_next = next;
        if next != NONE {
            nodes[next as usize].wheel_prev = at;
        }
    }

    pub(super) fn remove(&mut self, at: u32, nodes: &mut [Node]) {
        let Node { wheel_prev, wheel_next, deadline, .. } = nodes[at as usize];
        match wheel_prev {
            NONE => self.heads[slot_of(deadline)] = wheel_next,
            _ => nodes[wheel_prev as usize].wheel_next = wheel_next,
        }
        if wheel_next != NONE {
            nodes[wheel_next as usize].wheel_prev = wheel_prev;
        }
    }

    /// An ask whose tick has passed; it stays until it is removed.
    pub(super) fn due(&mut self, now: u64, nodes: &[Node]) -> Option<u32> {
        while self.tick < now >> TICK_BITS {
            let first = self.heads[self.tick as usize % SLOTS];
            let due = nodes.get(first as usize).filter(|node| node.deadline <= now);
            if due.is_some() {
                return Some(first);
            }
            self.tick += 1;
        }
        None
    }
}

fn slot_of(deadline: u64) -> usize {
    (deadline >> TICK_BITS) as usize % SLOTS
}
