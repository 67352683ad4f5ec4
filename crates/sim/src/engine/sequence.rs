//! One job inside a batching engine: how far it is, and which blocks it holds.

use std::cmp::Reverse;

use super::blocks::{BLOCK_TOKENS, BlockId, Content, Pool};
use super::cost::Load;
use super::{Job, JobId, Progress};

/// Blocks per segment of 512 tokens that a job's prefix names.
const SEGMENT_BLOCKS: usize = 512 / BLOCK_TOKENS as usize;

/// A place in the order of service: smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: Reverse<u8>,
    pub(super) serial: u64,
}

/// A job in the batch or waiting for it.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) job: JobId,
    pub(super) rank: Rank,
    prompt: u32,
    output: u32,
    /// It has not been thrown back yet.
    fresh: bool,
    /// Output tokens so far. They survive a preemption: only their keys and values are lost.
    made: u32,
    /// Tokens whose keys and values are in the blocks.
    computed: u32,
    /// Tokens that the running step adds.
    chunk: u32,
    blocks: Vec<BlockId>,
    /// The blocks it held when it was thrown back: its own text can only be found there.
    lost: Vec<BlockId>,
    /// Prompt tokens that were in the cache when it first entered.
    cached: u32,
    /// The leading blocks that are full and have been named.
    named: usize,
    /// Names of the prompt's segments, each bound to the ones before it.
    segments: Box<[u64]>,
}

// === impl Sequence ===

impl Sequence {
    pub(super) fn new(job: &Job, rank: Rank) -> Self {
        let bind = |before: &mut u64, name: &u64| {
            *before = mix(*before ^ mix(*name));
            Some(*before)
        };
        Self {
            job: job.id,
            rank,
            prompt: job.prompt.max(1),
            output: job.output.max(1),
            fresh: true,
            made: 0,
            computed: 0,
            chunk: 0,
            blocks: Vec::new(),
            lost: Vec::new(),
            cached: 0,
            named: 0,
            segments: job.prefix.iter().scan(0, bind).collect(),
        }
    }

    /// Prompt tokens.
    pub(super) fn prompt(&self) -> u32 {
        self.prompt
    }

    /// Whether it has never been thrown back.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Tokens known so far: all must be computed before the next one comes out.
    fn known(&self) -> u32 {
        self.prompt + self.made
    }

    /// Whether its next token needs one token of work and no more.
    fn decodes(&self) -> bool {
        self.made > 0 && self.computed + 1 == self.known()
    }

    /// Tokens in the running step.
    #[cfg(test)]
    pub(super) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// The blocks it holds.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Plans its part of a step within `budget` tokens; false when the pool has no room for it.
    pub(super) fn plan(&mut self, budget: u32, pool: &mut Pool, load: &mut Load) -> bool {
        let chunk = (self.known() - self.computed).min(budget);
        let end = self.computed + chunk;
        let missing = (end.div_ceil(BLOCK_TOKENS) as usize).saturating_sub(self.blocks.len());
        if missing > pool.unused() as usize {
            return false;
        }
        self.blocks.extend((0..missing).map_while(|_| pool.take()));
        let full = (end / BLOCK_TOKENS) as usize;
        for at in self.named..full {
            pool.name(self.blocks[at], self.content(at));
        }
        self.named = full;
        self.chunk = chunk;
        load.add(self.computed, chunk, self.decodes());
        true
    }

    /// Takes its part of a step back out of the load.
    pub(super) fn unplan(&mut self, load: &mut Load) {
        if self.chunk > 0 {
            load.remove(self.computed, self.chunk, self.decodes());
            self.chunk = 0;
        }
    }

    /// The step is over; the token that came out of it, if one did.
    pub(super) fn complete(&mut self) -> Option<Progress> {
        let chunk = std::mem::take(&mut self.chunk);
        self.computed += chunk;
        if chunk == 0 || self.computed < self.known() {
            return None;
        }
        self.made += 1;
        let (tokens, finished) = (self.made, self.is_finished());
        Some(Progress { job: self.job, tokens, finished, cached: self.cached })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.made >= self.output
    }

    /// Takes the leading blocks that the pool still knows, if all that is known of the sequence
    /// then fits: admitting on the first chunk alone would let long prompts crowd each other out.
    /// The last token is always computed, since the next one comes out of it.
    pub(super) fn enter(&mut self, pool: &mut Pool) -> bool {
        let most = ((self.known() - 1) / BLOCK_TOKENS) as usize;
        let found: Vec<BlockId> = (0..most).map_while(|at| self.find(at, pool)).collect();
        let idle = found.iter().filter(|block| pool.is_unused(**block)).count();
        let needed = self.known().div_ceil(BLOCK_TOKENS) as usize - found.len() + idle;
        if needed > pool.unused() as usize {
            return false;
        }
        found.iter().for_each(|block| pool.share(*block));
        self.named = found.len();
        self.computed = found.len() as u32 * BLOCK_TOKENS;
        if self.fresh {
            self.cached = self.computed;
        }
        self.blocks = found;
        true
    }

    /// Tokens found in the cache when it entered; before its first step.
    pub(super) fn computed(&self) -> u32 {
        self.computed
    }

    /// Gives all blocks back, the last first, so that the common beginnings live longest.
    pub(super) fn leave(&mut self, pool: &mut Pool) {
        self.lost = std::mem::take(&mut self.blocks);
        for block in self.lost.iter().rev() {
            pool.release(*block);
        }
        self.fresh = false;
        self.named = 0;
        self.computed = 0;
        self.chunk = 0;
    }

    /// The block that still holds what its block `at` is to hold.
    fn find(&self, at: usize, pool: &Pool) -> Option<BlockId> {
        match self.content(at) {
            Content::Shared(name) => pool.find(name),
            own => self.lost.get(at).copied().filter(|lost| pool.holds(*lost, own)),
        }
    }

    /// What its block `at` holds.
    fn content(&self, at: usize) -> Content {
        let in_prompt = (at + 1) * BLOCK_TOKENS as usize <= self.prompt as usize;
        match self.segments.get(at / SEGMENT_BLOCKS).filter(|_| in_prompt) {
            Some(segment) => Content::Shared(mix(segment ^ at as u64)),
            None => Content::Own(mix(mix(self.rank.serial) ^ at as u64)),
        }
    }
}

/// Spreads a number over all 64 bits (the finaliser of splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
