//! The waiting asks whose prompts backends have cached, in the order of how much.
//!
//! A grant must not look at every waiting ask. So each ask is filed where it can be found: under
//! the next block of its prompt that a backend lacks, and, once a backend has some of its prompt,
//! in a line of its flow queue for this backend. A block that a backend begins to hold leads to the
//! asks that gain by it. A block that a backend no longer holds is found when the ask would go for
//! it, so that a line tells the most that may be cached, and its first ask is checked.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::asks::Turn;
use crate::prefix_index::PrefixIndex;
use crate::prompt_blocks::PromptBlocks;
use crate::time::Time;

/// The tokens of a prompt that are cached, in steps of a sixteenth to a thirty-second; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step(u32);

/// What is filed of a waiting ask.
#[derive(Clone, Debug)]
struct Filed {
    flow_queue: u32,
    turn: Turn,
    blocks: PromptBlocks,
    tokens: u64,
    /// The backends that have, or had, the first block.
    warm: Vec<Warm>,
}

/// What a backend had of a prompt when it was last looked at.
#[derive(Clone, Copy, Debug)]
struct Warm {
    backend: u32,
    held: u32,
}

/// The asks that wait in the order `fifo` and have a prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarmAsks {
    /// By slot.
    filed: Vec<Option<Filed>>,
    /// The backends that lack a block of these asks, by the block. [`ANY`] lacks the first block.
    awaiting: HashMap<u64, BTreeSet<(u32, u32)>, BuildHasherDefault<BlockHash>>,
    /// By flow queue and backend, from the most cached tokens to the fewest, then by turn.
    lines: BTreeSet<(u32, u32, Reverse<Step>, Turn, u32)>,
}

/// The hash of a block's hash: itself. Clients do not know its key, see [`crate::prompt_blocks`].
#[derive(Clone, Copy, Debug, Default)]
struct BlockHash(u64);

/// Every backend that has nothing of a prompt.
const ANY: u32 = u32::MAX;
/// Before every turn, and behind.
const LEAST: Turn = (Time::ZERO, 0);
const MOST: Turn = (Time::NEVER, u64::MAX);

// === impl Step ===

impl Step {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn of(tokens: u64) -> Self {
        if tokens == 0 {
            return Self::NONE;
        }
        let power = tokens.ilog2();
        // Four bits behind the first one.
        let behind = if power >= 4 { tokens >> (power - 4) } else { tokens << (4 - power) };
        Self(1 + 16 * power + (behind as u32 & 15))
    }

    /// The step below, which is nearly as good.
    pub(crate) const fn below(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

// === impl BlockHash ===

impl Hasher for BlockHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

// === impl WarmAsks ===

impl WarmAsks {
    /// Files an ask that begins to wait, with the backends that may have some of its prompt.
    pub(crate) fn insert<'a>(
        &mut self,
        slot: u32,
        (flow_queue, turn): (u32, Turn),
        (blocks, tokens): (&PromptBlocks, u64),
        backends: impl Iterator<Item = (u32, &'a PrefixIndex)>,
    ) {
        let Some(&first) = blocks.hashes().first() else { return };
        if self.filed.len() <= slot as usize {
            self.filed.resize_with(slot as usize + 1, || None);
        }
        self.awaiting.entry(first).or_default().insert((ANY, slot));
        let warm = Vec::new();
        let filed = Filed { flow_queue, turn, blocks: blocks.clone(), tokens, warm };
        self.filed[slot as usize] = Some(filed);
        for (backend, prefixes) in backends {
            self.look_at(slot, backend, prefixes);
        }
    }

    /// Forgets an ask that no longer waits.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(filed) = self.filed.get_mut(slot as usize).and_then(Option::take) else { return };
        if let Some(&first) = filed.blocks.hashes().first() {
            self.forget(first, ANY, slot);
        }
        for &warm in &filed.warm {
            self.unfile(slot, &filed, warm);
        }
    }

    /// Forgets all asks.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no backend has anything of any ask's prompt.
    pub(crate) fn all_cold(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether any ask gains if a backend begins to hold this block.
    pub(crate) fn awaits(&self, block: u64) -> bool {
        self.awaiting.contains_key(&block)
    }

    /// Up to `count` asks that gain because a backend has begun to hold this block.
    pub(crate) fn gain_by(&self, block: u64, backend: u32, count: usize) -> Vec<u32> {
        let Some(awaiting) = self.awaiting.get(&block) else { return Vec::new() };
        let of = |backend: u32| {
            awaiting.range((backend, 0)..=(backend, u32::MAX)).map(|&(_, slot)| slot)
        };
        of(backend).chain(of(ANY)).take(count).collect()
    }

    /// Looks at what a backend has of the prompt of an ask; returns it.
    pub(crate) fn look_at(&mut self, slot: u32, backend: u32, prefixes: &PrefixIndex) -> Step {
        let Some(mut filed) = self.filed.get_mut(slot as usize).and_then(Option::take) else {
            return Step::NONE;
        };
        let held = prefixes.held_of(filed.blocks.hashes()) as u32;
        let known = filed.warm.iter().position(|warm| warm.backend == backend);
        let was = known.map_or(0, |at| filed.warm[at].held);
        if was != held {
            if let Some(at) = known {
                let warm = filed.warm.swap_remove(at);
                self.unfile(slot, &filed, warm);
            }
            if held > 0 {
                filed.warm.push(Warm { backend, held });
                self.file(slot, &filed, Warm { backend, held });
            }
        }
        let step = filed.step(held);
        self.filed[slot as usize] = Some(filed);
        step
    }

    /// The ask of a flow queue with the most cached at a backend, as last looked at, and how much.
    pub(crate) fn most(
        &self,
        flow_queue: u32,
        backend: u32,
        refuses: impl Fn(u32) -> bool,
    ) -> Option<(Step, u32)> {
        let from = (flow_queue, backend, Reverse(Step(u32::MAX)), LEAST, 0);
        let line = self.lines.range(from..);
        let mut line = line.take_while(|&&(of, at, ..)| (of, at) == (flow_queue, backend));
        let found = line.find(|&&(.., slot)| !refuses(slot));
        found.map(|&(_, _, Reverse(step), _, slot)| (step, slot))
    }

    /// The ask of a flow queue whose turn is first among those with so much cached at a backend.
    pub(crate) fn first_with(
        &self,
        line: (u32, u32, Step),
        refuses: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (flow_queue, backend, step) = line;
        let from = (flow_queue, backend, Reverse(step), LEAST, 0);
        let to = (flow_queue, backend, Reverse(step), MOST, u32::MAX);
        self.lines.range(from..=to).map(|&(.., slot)| slot).find(|&slot| !refuses(slot))
    }

    fn file(&mut self, slot: u32, filed: &Filed, Warm { backend, held }: Warm) {
        if let Some(&next) = filed.blocks.hashes().get(held as usize) {
            self.awaiting.entry(next).or_default().insert((backend, slot));
        }
        self.lines.insert(filed.key(slot, backend, held));
    }

    fn unfile(&mut self, slot: u32, filed: &Filed, Warm { backend, held }: Warm) {
        if let Some(&next) = filed.blocks.hashes().get(held as usize) {
            self.forget(next, backend, slot);
        }
        self.lines.remove(&filed.key(slot, backend, held));
    }

    fn forget(&mut self, block: u64, backend: u32, slot: u32) {
        let Some(awaiting) = self.awaiting.get_mut(&block) else { return };
        awaiting.remove(&(backend, slot));
        if awaiting.is_empty() {
            self.awaiting.remove(&block);
        }
    }
}

// === impl Filed ===

impl Filed {
    fn step(&self, held: u32) -> Step {
        Step::of(self.blocks.tokens_of(held as usize, self.tokens))
    }

    fn key(&self, slot: u32, backend: u32, held: u32) -> (u32, u32, Reverse<Step>, Turn, u32) {
        (self.flow_queue, backend, Reverse(self.step(held)), self.turn, slot)
    }
}
