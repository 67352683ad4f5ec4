//! The index of cached prefixes: a prompt of 100k tokens, hashed, looked up at 16 backends and
//! entered at one, beside hash maps of the standard library with the same blocks.

use std::collections::HashSet;
use std::hint::black_box;

use anyhow::{Result, ensure};
use flow::{BLOCK_BYTES, BlockHasher, PrefixIndex, PromptBlocks};
use sim::random::Random;
use testbed::stopwatch::Stopwatch;

use super::sample::Sample;
use crate::report::Table;
use crate::runner::Runner;

const BATCHES: usize = 200;
const BACKENDS: usize = 16;
/// The blocks that a backend holds: two million tokens.
const CAPACITY: u32 = 31_250;
const PROMPT_BYTES: usize = 400_000;
const LOOKUP_MICROS_MAX: f64 = 100.0;
const BLOCK_BYTES_MAX: f64 = 32.0;

/// The backends, each with the blocks of other prompts and with a part of the one prompt.
struct Fleet {
    prompt: Vec<u8>,
    blocks: PromptBlocks,
    indexes: Vec<PrefixIndex>,
    sets: Vec<HashSet<u64>>,
}

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Table> {
    let title = "The prefix index: a prompt of 100k tokens, 16 full backends";
    let mut table = Table::new(title, &[("least", 2), ("median", 2)]);
    table.subject = "µs";
    if !run.wants("prefix-index")? {
        return Ok(table);
    }
    let mut fleet = Fleet::new();
    let mut samples = [const { Vec::new() }; 4];
    for _ in 0..run.batches(BATCHES) {
        let micros = fleet.time()?;
        samples.iter_mut().zip(micros).for_each(|(sample, micros)| sample.push(micros));
    }
    let [hashed, looked_up, in_sets, entered] = samples.map(Sample::of);
    table.push_all("hash the prompt", [hashed.min, hashed.median]);
    table.push_all("look it up at 16 backends", [looked_up.min, looked_up.median]);
    table.push_all("look it up in 16 hash sets", [in_sets.min, in_sets.median]);
    table.push_all("enter it at one backend", [entered.min, entered.median]);
    table.target("µs to look a prompt up at 16 backends", LOOKUP_MICROS_MAX, looked_up.median);
    let bytes: usize = fleet.indexes.iter().map(PrefixIndex::bytes).sum();
    let held: usize = fleet.indexes.iter().map(PrefixIndex::len).sum();
    table.target("bytes for each block", BLOCK_BYTES_MAX, bytes as f64 / held as f64);
    Ok(table)
}

fn micros<T>(act: impl FnOnce() -> T) -> (f64, T) {
    let watch = Stopwatch::start();
    let result = black_box(act());
    (watch.nanos() / 1e3, result)
}

// === impl Fleet ===

impl Fleet {
    fn new() -> Self {
        let mut random = Random::new(20);
        let prompt: Vec<u8> = (0..PROMPT_BYTES).map(|_| random.below(256) as u8).collect();
        let blocks = hashed(&prompt);
        let hashes = blocks.hashes();
        let mut indexes = vec![PrefixIndex::new(CAPACITY); BACKENDS];
        for (at, index) in indexes.iter_mut().enumerate() {
            let part = &hashes[..hashes.len() * at / BACKENDS];
            let others = CAPACITY as usize - part.len();
            let others: Vec<u64> = (0..others).map(|_| random.below(u64::MAX)).collect();
            others.chunks(100).for_each(|prompt| index.enter(prompt));
            index.enter(part);
        }
        let sets = (0..BACKENDS).map(|at| {
            let part = &hashes[..hashes.len() * at / BACKENDS];
            let others = (part.len()..CAPACITY as usize).map(|_| random.below(u64::MAX));
            part.iter().copied().chain(others).collect()
        });
        let sets = sets.collect();
        Self { prompt, blocks, indexes, sets }
    }

    /// Microseconds to hash the prompt, to look it up in the indexes and in the sets, and to enter
    /// it.
    fn time(&mut self) -> Result<[f64; 4]> {
        let (hashing, blocks) = micros(|| hashed(&self.prompt));
        ensure!(blocks == self.blocks && blocks.hashes().len() == PROMPT_BYTES / BLOCK_BYTES);
        let hashes = blocks.hashes();
        let (lookup, held) = micros(|| {
            self.indexes.iter().map(|index| index.held_of(hashes)).collect::<Vec<usize>>()
        });
        let (in_sets, in_set) = micros(|| {
            let held = |set: &HashSet<u64>| hashes.partition_point(|hash| set.contains(hash));
            self.sets.iter().map(held).collect::<Vec<usize>>()
        });
        ensure!(held == in_set, "{held:?} is not {in_set:?}");
        let mut entered = self.indexes[0].clone();
        let (entry, ()) = micros(|| entered.enter(hashes));
        Ok([hashing, lookup, in_sets, entry])
    }
}

fn hashed(prompt: &[u8]) -> PromptBlocks {
    let mut hasher = BlockHasher::new(1);
    hasher.add(prompt);
    hasher.finish()
}
