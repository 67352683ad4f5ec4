//! A list of slots from the least to the most recently used, O(1) at both ends and in between.

use crate::links::Link;
use crate::links::NONE;

#[derive(Clone, Debug)]
pub(crate) struct Lru {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
}

// === impl Lru ===

impl Default for Lru {
    fn default() -> Self {
        Self { links: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Lru {
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The slot that was used next after this one, which is in the list.
    pub(crate) fn after(&self, slot: u32) -> Option<u32> {
        let next = self.links[slot as usize].next;
        (next != NONE).then_some(next)
    }

    /// Makes room for so many more slots, and for no others.
    pub(crate) fn reserve_exact(&mut self, more: usize) {
        self.links.reserve_exact(more);
    }

    /// The bytes that it has allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    /// Adds a slot that is not in the list, as the most recently used.
    pub(crate) fn push(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link::UNLINKED);
        }
        let newest = self.newest;
        self.join(newest, slot);
        self.join(slot, NONE);
    }

    /// Removes a slot that is in the list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Link { prev, next } = self.links[slot as usize];
        self.join(prev, next);
    }

    fn join(&mut self, prev: u32, next: u32) {
        match prev {
            NONE => self.oldest = next,
            _ => self.links[prev as usize].next = next,
        }
        match next {
            NONE => self.newest = prev,
            _ => self.links[next as usize].prev = prev,
        }
    }
}
