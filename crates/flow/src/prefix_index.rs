//! The blocks of prompts that one backend is believed to have in its prefix cache.
//!
//! A prompt is entered when it is granted. Engines evict the block that was used longest ago, and
//! of one prompt the last block first. So a prompt is entered from its last block to its first one,
//! and the block that was entered longest ago is evicted. Then a block is held only while every
//! block before it is, and a search by halves finds how much of a prompt is held.
//!
//! The index never knows what the engine really holds. `limit` is the number of blocks that are
//! believed to fit. What responses say they found in the cache moves it.

use crate::links::NONE;
use crate::lru::Lru;

/// The least table, and the share of a table that may be in use: three quarters.
const TABLE_MIN: usize = 64;
const fn usable(table: usize) -> usize {
    table / 4 * 3
}

/// The part of the limit by which one response lowers it or raises it. The limit falls while more
/// than a third of the responses found less than expected. Some always do: a prompt that was
/// granted a moment ago is not computed yet. An engine without a cache loses its limit.
const LOWERED_BY: u32 = 16;
/// The least blocks that must be expected for a response to lower the limit.
const JUDGED_FROM: usize = 8;
const RAISED_BY: u32 = 32;

/// An index of one backend. 16 bytes for each block, and 5.4 to 10.7 in the table that finds it; a
/// quarter more blocks than are used are allocated at most.
#[derive(Clone, Debug, Default)]
pub struct PrefixIndex {
    /// By slot, as the links of `order`.
    hashes: Vec<u64>,
    order: Lru,
    /// Slots that are not in use.
    free: Vec<u32>,
    /// The slot of each hash, by the hash; linear probing.
    table: Vec<u32>,
    held: u32,
    /// The most blocks that are believed to fit, and that may ever be.
    limit: u32,
    capacity: u32,
}

// === impl PrefixIndex ===

impl PrefixIndex {
    /// An empty index of a backend that can hold so many blocks.
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.min(NONE - 1);
        Self { limit: capacity, capacity, ..Self::default() }
    }

    /// The number of blocks that are held.
    pub fn len(&self) -> usize {
        self.held as usize
    }

    /// Whether no block is held.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The number of blocks that are believed to fit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether anything of a prompt is held.
    pub(crate) fn begins(&self, prompt: &[u64]) -> bool {
        self.held > 0 && prompt.first().is_some_and(|&first| self.holds(first))
    }

    /// The number of blocks at the beginning of a prompt that are held.
    pub fn held_of(&self, prompt: &[u64]) -> usize {
        // Most prompts have nothing in common with others.
        if !self.begins(prompt) {
            return 0;
        }
        prompt.partition_point(|&hash| self.holds(hash))
    }

    /// Enters a prompt that the backend computes now, and evicts what no longer fits.
    pub fn enter(&mut self, prompt: &[u64]) {
        self.enter_telling(prompt, |_| {});
    }

    /// The same; tells each block that was not held.
    pub(crate) fn enter_telling(&mut self, prompt: &[u64], mut begins: impl FnMut(u64)) {
        let fitting = prompt.len().min(self.limit as usize);
        for &hash in prompt[..fitting].iter().rev() {
            if self.touch(hash) {
                begins(hash);
            }
        }
        self.evict_surplus();
    }

    /// Takes what a response says: of the blocks that were expected to be held when its prompt was
    /// granted, so many were. If far fewer were, the engine evicts sooner than the index. Tokens
    /// are not equally long everywhere in a prompt, so only half of the blocks must have been
    /// found. Of a few blocks rounding alone may lose half, so they say nothing.
    pub fn correct(&mut self, expected: usize, found: usize) {
        let limit = self.limit;
        if expected >= JUDGED_FROM && found < expected.div_ceil(2) {
            self.limit = limit - limit.div_ceil(LOWERED_BY).min(limit);
            self.evict_surplus();
        } else if found > 0 {
            let raised = limit.saturating_add(limit / RAISED_BY).saturating_add(1);
            self.limit = raised.min(self.capacity);
        }
    }

    /// Takes back the blocks of a prompt from this place on: the backend did not compute them after
    /// all. A prompt that was entered in between may lose blocks in its middle. Then more of it may
    /// be found than is held without a gap, until the rest is evicted.
    pub fn withdraw(&mut self, prompt: &[u64], from: usize) {
        for &hash in prompt.iter().skip(from) {
            if let Ok(at) = self.find(hash) {
                self.remove(self.table[at]);
            }
        }
    }

    /// Takes a new capacity of the backend. The limit keeps its share of it.
    pub fn resize(&mut self, capacity: u32) {
        let capacity = capacity.min(NONE - 1);
        if capacity == self.capacity {
            return;
        }
        let share = u64::from(self.limit) * u64::from(capacity);
        let share = share.checked_div(u64::from(self.capacity)).unwrap_or(u64::from(capacity));
        (self.limit, self.capacity) = (share as u32, capacity);
        self.evict_surplus();
        if self.hashes.capacity() > 2 * (self.capacity as usize).max(TABLE_MIN) {
            self.rebuild();
        }
    }

    /// Forgets everything: the engine has restarted.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    /// The bytes that it has allocated.
    pub fn bytes(&self) -> usize {
        let slots = self.table.capacity() + self.free.capacity();
        self.hashes.capacity() * 8 + slots * 4 + self.order.bytes()
    }

    /// Whether a block is held.
    pub fn holds(&self, hash: u64) -> bool {
        self.find(hash).is_ok()
    }

    /// The place of a hash in the table, or the place where it would be.
    fn find(&self, hash: u64) -> Result<usize, usize> {
        let mask = self.table.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            match self.table.get(at) {
                None | Some(&NONE) => return Err(at),
                Some(&slot) if self.hashes[slot as usize] == hash => return Ok(at),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Makes a block the one used last; enters it, and returns true, if it is not held.
    fn touch(&mut self, hash: u64) -> bool {
        if let Ok(at) = self.find(hash) {
            let slot = self.table[at];
            self.order.remove(slot);
            self.order.push(slot);
            return false;
        }
        if self.held >= self.limit {
            self.evict_oldest();
        }
        if self.held as usize >= usable(self.table.len()) {
            self.grow_table();
        }
        let slot = self.new_slot(hash);
        if let Err(at) = self.find(hash) {
            self.table[at] = slot;
        }
        self.order.push(slot);
        self.held += 1;
        true
    }

    fn new_slot(&mut self, hash: u64) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.hashes[slot as usize] = hash;
            return slot;
        }
        let used = self.hashes.len();
        if used == self.hashes.capacity() {
            // Vectors double by themselves, and half of the index would be empty.
            let more = (used / 4).max(TABLE_MIN).min(self.limit as usize - used);
            self.hashes.reserve_exact(more);
            self.order.reserve_exact(more);
        }
        self.hashes.push(hash);
        used as u32
    }

    fn grow_table(&mut self) {
        let size = (self.table.len() * 2).max(TABLE_MIN);
        let slots = std::mem::replace(&mut self.table, vec![NONE; size]);
        for slot in slots.into_iter().filter(|&slot| slot != NONE) {
            if let Err(at) = self.find(self.hashes[slot as usize]) {
                self.table[at] = slot;
            }
        }
    }

    /// Copies the blocks in their order, so that the memory of those that are gone is freed.
    fn rebuild(&mut self) {
        let (limit, capacity) = (self.limit, self.capacity);
        let mut new = Self { limit, capacity, ..Self::default() };
        let mut next = self.order.oldest();
        while let Some(slot) = next {
            new.touch(self.hashes[slot as usize]);
            next = self.order.after(slot);
        }
        *self = new;
    }

    fn evict_surplus(&mut self) {
        while self.held > self.limit {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        if let Some(oldest) = self.order.oldest() {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.order.remove(slot);
        if let Ok(at) = self.find(self.hashes[slot as usize]) {
            self.unlink(at);
        }
        self.free.push(slot);
        self.held -= 1;
    }

    /// Empties a place of the table, and moves back those behind it that it kept from their own.
    fn unlink(&mut self, mut empty: usize) {
        let mask = self.table.len() - 1;
        let mut at = empty;
        loop {
            at = (at + 1) & mask;
            let slot = self.table[at];
            if slot == NONE {
                break;
            }
            let home = self.hashes[slot as usize] as usize & mask;
            let from_home = at.wrapping_sub(home) & mask;
            if from_home >= (at.wrapping_sub(empty) & mask) {
                self.table[empty] = slot;
                empty = at;
            }
        }
        self.table[empty] = NONE;
    }
}

#[cfg(test)]
mod tests;
