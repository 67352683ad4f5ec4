//! A small fuzzer for parsers on stable Rust: mutated inputs from a corpus, no instrumentation.
//!
//! Each target has seeds in its test and may have files in `tests/corpus/NAME`. The target returns
//! a short outcome of each input. An input with a new outcome joins the corpus of the run, so that
//! mutations reach further than one step. An input that makes the target panic is written to
//! `tests/corpus/NAME`, where each later run tries it first.
//!
//! With the other tests each target gets some thousand inputs from a fixed seed. `make fuzz` sets
//! `FUZZ_SECONDS` for each target and draws a seed; `TIDEGATE_SEED` repeats a run.
//!
//! The tests of `crates/gateway` and `crates/store` use this file, too.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const INPUTS_IN_CI: u64 = 600;
const SEED_IN_CI: u64 = 0x7469_6465;
const MUTATIONS_MAX: u64 = 6;
const INPUT_MAX: usize = 16 << 10;
/// Inputs that a run keeps because their outcome was new.
const KEPT_MAX: usize = 2000;
/// A text of an outcome is cut here, so that quoted input does not make each outcome new.
const OUTCOME_MAX: usize = 24;

/// Bytes and numbers at which parsers go wrong.
const EDGES: [&[u8]; 20] = [
    b"\0",
    b"\xff",
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b":",
    b",",
    b"-1",
    b"0",
    b"9223372036854775808",
    b"1e999",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
];

/// Random numbers (xorshift64*).
#[derive(Debug)]
pub(crate) struct Dice(u64);

/// A run of one target.
#[derive(Debug)]
struct Run<'words> {
    corpus: Vec<Vec<u8>>,
    words: &'words [&'words [u8]],
    dice: Dice,
    outcomes: HashSet<String>,
}

/// Tries `target` with mutations of `seeds`. The target panics if a property does not hold.
pub(crate) fn fuzz<O: Into<String>>(
    name: &str,
    seeds: &[&[u8]],
    words: &[&[u8]],
    target: impl Fn(&[u8], &mut Dice) -> O,
) {
    fuzz_inputs(INPUTS_IN_CI, name, seeds, words, target);
}

/// The same with another number of inputs among the other tests.
pub(crate) fn fuzz_inputs<O: Into<String>>(
    in_ci: u64,
    name: &str,
    seeds: &[&[u8]],
    words: &[&[u8]],
    target: impl Fn(&[u8], &mut Dice) -> O,
) {
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seconds = number("FUZZ_SECONDS").map(Duration::from_secs);
    let drawn = seconds.map_or(SEED_IN_CI, |_| RandomState::new().hash_one(name) >> 16);
    let seed = number("TIDEGATE_SEED").unwrap_or(drawn).max(1);
    let folder = corpus_folder(name);
    let mut corpus: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    corpus.extend(kept(&folder));
    let mut run = Run { corpus, words, dice: Dice(seed), outcomes: HashSet::new() };
    for at in 0..run.corpus.len() {
        run.attempt(&folder, run.corpus[at].clone(), &target);
    }
    let (began, mut inputs) = (now(), 0);
    while seconds.map_or(inputs < in_ci, |seconds| began.elapsed() < seconds) {
        let input = run.mutated();
        run.attempt(&folder, input, &target);
        inputs += 1;
    }
    let outcomes = run.outcomes.len();
    eprintln!("fuzz {name}: {inputs} inputs, {outcomes} outcomes, TIDEGATE_SEED={seed}");
}

/// The folder of a target, seen from any crate of the workspace.
fn corpus_folder(name: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_root = package.join("crates").is_dir();
    let root = if in_root { package.to_owned() } else { package.join("../..") };
    root.join("tests/corpus").join(name)
}

#[expect(clippy::disallowed_methods, reason = "a run is bounded in time")]
fn now() -> Instant {
    Instant::now()
}

/// The files of a target's corpus, in the order of their names.
fn kept(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

// === impl Dice ===

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8;
        (drawn % bound.max(1) as u64) as usize
    }

    /// Cuts an input into pieces of random sizes.
    pub(crate) fn pieces<'a>(&mut self, mut input: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !input.is_empty() {
            let (piece, rest) = input.split_at((1 + self.below(40)).min(input.len()));
            pieces.push(piece);
            input = rest;
        }
        pieces
    }
}

// === impl Run ===

impl Run<'_> {
    fn attempt<O: Into<String>>(
        &mut self,
        folder: &Path,
        input: Vec<u8>,
        target: &impl Fn(&[u8], &mut Dice) -> O,
    ) {
        let dice = &mut self.dice;
        let outcome = match catch_unwind(AssertUnwindSafe(|| target(&input, dice).into())) {
            Ok(outcome) => outcome,
            Err(panic) => {
                let name = format!("crash-{:08x}", digest(&input));
                fs::create_dir_all(folder).unwrap();
                fs::write(folder.join(&name), &input).unwrap();
                eprintln!("the input is kept as {name}: {:?}", String::from_utf8_lossy(&input));
                resume_unwind(panic);
            }
        };
        let outcome: String = outcome.chars().take(OUTCOME_MAX).collect();
        if self.corpus.len() < KEPT_MAX && self.outcomes.insert(outcome) {
            self.corpus.push(input);
        }
    }

    fn mutated(&mut self) -> Vec<u8> {
        let at = self.dice.below(self.corpus.len());
        let mut input = self.corpus[at].clone();
        for _ in 0..=self.dice.below(MUTATIONS_MAX as usize) {
            self.mutate(&mut input);
        }
        input.truncate(INPUT_MAX);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let (one, other) = (self.dice.below(input.len() + 1), self.dice.below(input.len() + 1));
        let (from, to) = (one.min(other), one.max(other));
        let near = to.min(from + 1 + self.dice.below(16));
        match self.dice.below(8) {
            0 if from < input.len() => input[from] ^= 1 << self.dice.below(8),
            1 if from < input.len() => input[from] = self.dice.below(256) as u8,
            2 => drop(input.drain(from..near)),
            3 => input.truncate(to),
            4 => {
                let copy = input[from..to].to_vec();
                input.splice(to..to, copy);
            }
            5 => {
                // A splice: the rest of another input.
                let donor = self.dice.below(self.corpus.len());
                let donor = &self.corpus[donor];
                let tail = donor[self.dice.below(donor.len() + 1)..].to_vec();
                input.splice(from.., tail);
            }
            6 if !self.words.is_empty() => {
                let word = self.words[self.dice.below(self.words.len())];
                input.splice(from..near, word.iter().copied());
            }
            _ => {
                let edge = EDGES[self.dice.below(EDGES.len())];
                input.splice(from..from, edge.iter().copied());
            }
        }
    }
}

/// FNV-1a, for the name of a kept input.
fn digest(input: &[u8]) -> u32 {
    input.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
