//! The paged KV cache: blocks of 16 tokens, shared by count, found again by name until reused.
//!
//! A block without a user keeps its content and its name until it is taken for something else,
//! the one longest out of use first. That is the prefix cache: it costs no room.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Tokens per block, as in vLLM.
pub(super) const BLOCK_TOKENS: u32 = 16;

/// A block, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId(u32);

/// The name of a block's content: equal text after equal text has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Other jobs may begin with the same text.
    Shared(u64),
    /// Only the job that wrote it can ask for it again.
    Own(u64),
}

/// All blocks of one engine.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// The blocks, and one more at the end that ties the ring of unused ones together.
    blocks: Vec<Block>,
    /// Where shared content is.
    places: HashMap<u64, BlockId, BuildHasherDefault<NameHasher>>,
    unused: u32,
    shared_named: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    users: u32,
    content: Option<Content>,
    previous: u32,
    next: u32,
}

/// Names are well mixed already.
#[derive(Clone, Copy, Debug, Default)]
struct NameHasher(u64);

// === impl BlockId ===

#[cfg(test)]
impl BlockId {
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

// === impl Pool ===

impl Pool {
    /// A cold pool.
    pub(super) fn new(count: u32) -> Self {
        let ring = count + 1;
        let block = |at: u32| Block {
            users: 0,
            content: None,
            previous: (at + ring - 1) % ring,
            next: (at + 1) % ring,
        };
        Self {
            blocks: (0..ring).map(block).collect(),
            places: HashMap::default(),
            unused: count,
            shared_named: 0,
        }
    }

    /// Blocks in all.
    pub(super) fn count(&self) -> u32 {
        self.tie()
    }

    /// Blocks without a user.
    pub(super) fn unused(&self) -> u32 {
        self.unused
    }

    /// How many blocks of shareable text were ever named: while this and the unused blocks stay
    /// as they are, a job that found no room finds none again.
    pub(super) fn shared_named(&self) -> u64 {
        self.shared_named
    }

    /// The block that holds the shared content of this name.
    pub(super) fn find(&self, name: u64) -> Option<BlockId> {
        self.places.get(&name).copied()
    }

    /// Whether the block still holds this content.
    pub(super) fn holds(&self, BlockId(at): BlockId, content: Content) -> bool {
        self.blocks[at as usize].content == Some(content)
    }

    /// Whether the block has no user.
    pub(super) fn is_unused(&self, BlockId(at): BlockId) -> bool {
        self.blocks[at as usize].users == 0
    }

    /// Takes the block longest out of use; its old content is forgotten.
    pub(super) fn take(&mut self) -> Option<BlockId> {
        let oldest = self.blocks[self.tie() as usize].next;
        if oldest == self.tie() {
            return None;
        }
        if let Some(Content::Shared(name)) = self.blocks[oldest as usize].content.take() {
            self.places.remove(&name);
        }
        self.share(BlockId(oldest));
        Some(BlockId(oldest))
    }

    /// One more user of a block.
    pub(super) fn share(&mut self, block: BlockId) {
        if self.is_unused(block) {
            self.unlink(block);
        }
        self.blocks[block.0 as usize].users += 1;
    }

    /// One user less; the last one leaves the block to be found again or reused.
    pub(super) fn release(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].users -= 1;
        if self.is_unused(block) {
            self.link(block);
        }
    }

    /// The block is full and holds this content now. Where another block holds the same already,
    /// that one stays the known one.
    pub(super) fn name(&mut self, block: BlockId, content: Content) {
        if let Content::Shared(name) = content {
            if self.places.contains_key(&name) {
                return;
            }
            self.places.insert(name, block);
            self.shared_named += 1;
        }
        self.blocks[block.0 as usize].content = Some(content);
    }

    /// How many users each block has.
    #[cfg(test)]
    pub(super) fn users(&self) -> Vec<u32> {
        self.blocks[..self.count() as usize].iter().map(|block| block.users).collect()
    }

    /// The unused blocks as the ring has them, the next to be reused first.
    #[cfg(test)]
    pub(super) fn ring(&self) -> Vec<u32> {
        let first = self.blocks[self.tie() as usize].next;
        let follow = |at: &u32| Some(self.blocks[*at as usize].next);
        std::iter::successors(Some(first), follow).take_while(|at| *at != self.tie()).collect()
    }

    /// Every name that can be found leads to the block that holds it.
    #[cfg(test)]
    pub(super) fn audit_names(&self) {
        for (name, block) in &self.places {
            assert!(self.holds(*block, Content::Shared(*name)), "{block:?} does not hold {name}");
        }
        let shared = |block: &&Block| matches!(block.content, Some(Content::Shared(_)));
        assert_eq!(self.blocks.iter().filter(shared).count(), self.places.len(), "shared blocks");
    }

    /// The place of the entry that ties the ring: its next is the oldest, its previous the newest.
    fn tie(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    fn unlink(&mut self, BlockId(at): BlockId) {
        let Block { previous, next, .. } = self.blocks[at as usize];
        self.blocks[previous as usize].next = next;
        self.blocks[next as usize].previous = previous;
        self.unused -= 1;
    }

    fn link(&mut self, BlockId(at): BlockId) {
        let tie = self.tie();
        let newest = self.blocks[tie as usize].previous;
        self.blocks[newest as usize].next = at;
        self.blocks[tie as usize].previous = at;
        self.blocks[at as usize].previous = newest;
        self.blocks[at as usize].next = tie;
        self.unused += 1;
    }
}

// === impl NameHasher ===

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}
