//! An indexed 4-ary heap: the least entry at once, any entry by its id.
//!
//! Four children to a node halve the depth of a binary heap, and with 16-byte entries they share
//! a cache line. Positions live in a table that the caller owns, because one table can serve many
//! heaps as long as an id is in at most one of them.

use super::NONE;

const ARITY: usize = 4;

/// What a heap holds: something with an order and an id.
pub(crate) trait Entry: Copy {
    /// Whether it comes before the other.
    fn before(&self, other: &Self) -> bool;
    /// Its index in the table of positions.
    fn id(&self) -> u32;
}

/// Where each id stands, or [`NONE`].
pub(crate) type Positions = Vec<u32>;

#[derive(Clone, Debug)]
pub(crate) struct Heap<E> {
    entries: Vec<E>,
}

// === impl Heap ===

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<E: Entry> Heap<E> {
    pub(crate) fn top(&self) -> Option<&E> {
        self.entries.first()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    /// Changes every entry in a way that keeps their order.
    pub(crate) fn shift(&mut self, change: impl FnMut(&mut E)) {
        self.entries.iter_mut().for_each(change);
    }

    pub(crate) fn push(&mut self, entry: E, positions: &mut Positions) {
        let id = entry.id() as usize;
        if positions.len() <= id {
            positions.resize(id + 1, NONE);
        }
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, positions);
    }

    /// Puts `entry` where the one with its id stood.
    pub(crate) fn update(&mut self, entry: E, positions: &mut Positions) {
        let at = positions[entry.id() as usize] as usize;
        let earlier = entry.before(&self.entries[at]);
        self.entries[at] = entry;
        if earlier {
            self.rise(at, positions);
        } else {
            self.sink(at, positions);
        }
    }

    pub(crate) fn remove(&mut self, id: u32, positions: &mut Positions) {
        let at = positions[id as usize] as usize;
        positions[id as usize] = NONE;
        let Some(last) = self.entries.pop() else { return };
        if at == self.entries.len() {
            return;
        }
        let earlier = last.before(&self.entries[at]);
        self.entries[at] = last;
        if earlier {
            self.rise(at, positions);
        } else {
            self.sink(at, positions);
        }
    }

    fn rise(&mut self, mut at: usize, positions: &mut Positions) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.place(at, self.entries[parent], positions);
            at = parent;
        }
        self.place(at, entry, positions);
    }

    fn sink(&mut self, mut at: usize, positions: &mut Positions) {
        let entry = self.entries[at];
        while let Some(child) = self.least_child(at) {
            if !self.entries[child].before(&entry) {
                break;
            }
            self.place(at, self.entries[child], positions);
            at = child;
        }
        self.place(at, entry, positions);
    }

    fn least_child(&self, at: usize) -> Option<usize> {
        let first = at * ARITY + 1;
        let end = (first + ARITY).min(self.entries.len());
        let mut least = first;
        for child in first + 1..end {
            if self.entries[child].before(&self.entries[least]) {
                least = child;
            }
        }
        (first < end).then_some(least)
    }

    fn place(&mut self, at: usize, entry: E, positions: &mut Positions) {
        self.entries[at] = entry;
        positions[entry.id() as usize] = at as u32;
    }
}
