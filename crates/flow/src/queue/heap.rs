//! An indexed 4-ary heap: O(1) access to the least entry, and to any entry by its id.
//!
//! Four children per node halve the depth of a binary heap, and share a cache line. An entry is one
//! integer, with its order in the high bits and its id in the low 32 bits. So a comparison is two
//! instructions, and the choice among four children needs no branch. The caller owns the table of
//! positions, because one table can serve many heaps as long as each id is in at most one of them.

use crate::links::NONE;

const ARITY: usize = 4;
/// Room for as many entries as are usually found.
const PLACES: usize = 16;

/// A sort key, with an id in the low 32 bits.
pub(crate) type Entry = u128;

/// The position of each id in its heap, or [`NONE`].
pub(crate) type Positions = Vec<u32>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
}

pub(crate) const fn entry(first: u64, then: u32, id: u32) -> Entry {
    ((first as u128) << 64) | ((then as u128) << 32) | id as u128
}

pub(crate) const fn id(entry: Entry) -> u32 {
    entry as u32
}

// === impl Heap ===

impl Heap {
    pub(crate) fn top(&self) -> Option<Entry> {
        self.entries.first().copied()
    }

    /// Whether an id is in this heap, or in another heap with the same table of positions.
    pub(crate) fn holds(&self, id: u32, positions: &Positions) -> bool {
        positions.get(id as usize).is_some_and(|&at| at != NONE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.iter().copied()
    }

    /// The entries up to `most` in value, of which at least `count` are found if there are so many.
    /// The children of an entry are looked at only if the entry is found.
    pub(crate) fn up_to(&self, most: Entry, count: usize, found: &mut Vec<Entry>) {
        let fits = |&at: &usize| self.entries.get(at).is_some_and(|&entry| entry <= most);
        let mut places = Vec::with_capacity(PLACES);
        places.extend(Some(0).filter(fits));
        let mut next = 0;
        while let Some(&at) = places.get(next) {
            next += 1;
            found.push(self.entries[at]);
            if found.len() >= count {
                return;
            }
            places.extend((at * ARITY + 1..=at * ARITY + ARITY).filter(fits));
        }
    }

    /// Changes every entry in a way that keeps their order.
    pub(crate) fn shift(&mut self, change: impl FnMut(&mut Entry)) {
        self.entries.iter_mut().for_each(change);
    }

    pub(crate) fn push(&mut self, entry: Entry, positions: &mut Positions) {
        let id = id(entry) as usize;
        if positions.len() <= id {
            positions.resize(id + 1, NONE);
        }
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry, positions);
    }

    /// Replaces the entry with the same id.
    pub(crate) fn update(&mut self, entry: Entry, positions: &mut Positions) {
        let at = positions[id(entry) as usize] as usize;
        if entry < self.entries[at] {
            self.rise(at, entry, positions);
        } else {
            self.sink(at, entry, positions);
        }
    }

    pub(crate) fn remove(&mut self, id: u32, positions: &mut Positions) {
        let at = std::mem::replace(&mut positions[id as usize], NONE) as usize;
        let Some(last) = self.entries.pop() else { return };
        if at == self.entries.len() {
            return;
        }
        if last < self.entries[at] {
            self.rise(at, last, positions);
        } else {
            self.sink(at, last, positions);
        }
    }

    /// Moves the hole at `at` up until `entry` fits into it.
    fn rise(&mut self, mut at: usize, entry: Entry, positions: &mut Positions) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if entry >= self.entries[parent] {
                break;
            }
            self.place(at, self.entries[parent], positions);
            at = parent;
        }
        self.place(at, entry, positions);
    }

    /// Moves the hole at `at` down until `entry` fits into it.
    fn sink(&mut self, mut at: usize, entry: Entry, positions: &mut Positions) {
        while let Some((child, least)) = self.least_child(at) {
            if least >= entry {
                break;
            }
            self.place(at, least, positions);
            at = child;
        }
        self.place(at, entry, positions);
    }

    fn least_child(&self, at: usize) -> Option<(usize, Entry)> {
        let first = at * ARITY + 1;
        let children = self.entries.get(first..)?;
        if let Some(&[a, b, c, d]) = children.first_chunk() {
            let (left, right) = (lesser((0, a), (1, b)), lesser((2, c), (3, d)));
            let (child, least) = lesser(left, right);
            return Some((first + child, least));
        }
        let last = children.iter().copied().enumerate().reduce(lesser)?;
        Some((first + last.0, last.1))
    }

    fn place(&mut self, at: usize, entry: Entry, positions: &mut Positions) {
        self.entries[at] = entry;
        positions[id(entry) as usize] = at as u32;
    }
}

fn lesser(left: (usize, Entry), right: (usize, Entry)) -> (usize, Entry) {
    if right.1 < left.1 { right } else { left }
}
