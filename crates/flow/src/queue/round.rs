//! One fair queue: the claims of one band that need the same set of backends.
//!
//! A claim whose flow may use every backend of the set stands in the round's heap. A claim whose
//! flow is limited per backend stands instead at the *door* of each backend that may still take
//! it, so finding the next claim never means stepping over those that cannot go.

use super::fair::Clock;
use super::heap::{Entry, Heap, Positions, entry, id};

/// A claim's place in a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) tag: u64,
    pub(crate) turn: u32,
    pub(crate) claim: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) clock: Clock,
    pub(crate) cost_waiting: u64,
    heap: Heap,
    doors: Vec<Door>,
    turn_last: u32,
}

#[derive(Clone, Debug)]
struct Door {
    backend: u32,
    heap: Heap,
    positions: Positions,
}

// === impl Turn ===

impl Turn {
    fn entry(self) -> Entry {
        entry(self.tag, self.turn, self.claim)
    }

    fn of(entry: Entry) -> Self {
        Self { tag: (entry >> 64) as u64, turn: (entry >> 32) as u32, claim: id(entry) }
    }
}

// === impl Round ===

impl Round {
    /// A fresh turn, behind all others of the same tag. It wraps after four billion moves; what is
    /// lost then is the order of one tie.
    pub(crate) fn next_turn(&mut self) -> u32 {
        self.turn_last = self.turn_last.wrapping_add(1);
        self.turn_last
    }

    /// Whether no claim takes part.
    pub(crate) fn is_idle(&self) -> bool {
        self.clock.weight() == 0
    }

    /// Lets a claim take part for every backend.
    pub(crate) fn enter(&mut self, turn: Turn, positions: &mut Positions) {
        self.heap.push(turn.entry(), positions);
    }

    /// Ends a claim's part everywhere.
    pub(crate) fn exit(&mut self, claim: u32, positions: &mut Positions) {
        if self.heap.holds(claim, positions) {
            self.heap.remove(claim, positions);
            return;
        }
        for door in self.doors.iter_mut().filter(|door| door.holds(claim)) {
            door.heap.remove(claim, &mut door.positions);
        }
    }

    /// Tells the heap that a claim's tag or turn has changed.
    pub(crate) fn moved(&mut self, turn: Turn, positions: &mut Positions) {
        if self.heap.holds(turn.claim, positions) {
            self.heap.update(turn.entry(), positions);
            return;
        }
        for door in self.doors.iter_mut().filter(|door| door.holds(turn.claim)) {
            door.heap.update(turn.entry(), &mut door.positions);
        }
    }

    /// Lets a claim take part for one backend.
    pub(crate) fn enter_door(&mut self, backend: u32, turn: Turn) {
        let at = self.doors.iter().position(|door| door.backend == backend).unwrap_or_else(|| {
            self.doors.push(Door { backend, heap: Heap::default(), positions: Positions::new() });
            self.doors.len() - 1
        });
        let door = &mut self.doors[at];
        if !door.holds(turn.claim) {
            door.heap.push(turn.entry(), &mut door.positions);
        }
    }

    /// Ends a claim's part for one backend; says whether any other door still holds it.
    pub(crate) fn exit_door(&mut self, backend: u32, claim: u32) -> bool {
        let mut held = false;
        for door in self.doors.iter_mut().filter(|door| door.holds(claim)) {
            if door.backend == backend {
                door.heap.remove(claim, &mut door.positions);
            } else {
                held = true;
            }
        }
        held
    }

    /// The claim whose turn it is, among those that some backend with room may take.
    pub(crate) fn first(&self, has_room: impl Fn(u32) -> bool) -> Option<u32> {
        let doors = self.doors.iter().filter(|door| has_room(door.backend));
        let at_doors = doors.filter_map(|door| door.heap.top());
        self.heap.top().into_iter().chain(at_doors).min().map(id)
    }

    /// Brings every tag in the heaps down by `shift`.
    pub(crate) fn shift(&mut self, shift: u64) {
        let lower = |entry: &mut Entry| {
            let turn = Turn::of(*entry);
            *entry = Turn { tag: turn.tag.saturating_sub(shift), ..turn }.entry();
        };
        self.heap.shift(lower);
        self.doors.iter_mut().for_each(|door| door.heap.shift(lower));
    }

    /// The turns of all claims that take part, for checking.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Turn> + '_ {
        let doors = self.doors.iter().flat_map(|door| door.heap.iter());
        self.heap.iter().chain(doors).map(Turn::of)
    }
}

// === impl Door ===

impl Door {
    fn holds(&self, claim: u32) -> bool {
        self.heap.holds(claim, &self.positions)
    }
}
