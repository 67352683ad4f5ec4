//! The index beside a naive one, and its bounds.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// The hash of a block with this path from the first block: a tree of prompts.
fn chain(path: &[u8]) -> Vec<u64> {
    let step = |state: u64, &branch: &u8| {
        let next = (state ^ u64::from(branch) ^ 0xA5).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        next ^ (next >> 29)
    };
    path.iter()
        .scan(1, |state, branch| {
            *state = step(*state, branch);
            Some(*state)
        })
        .collect()
}

/// The naive index: a list from the block used longest ago to the one used last.
#[derive(Debug, Default)]
struct Naive {
    order: VecDeque<u64>,
    limit: usize,
}

impl Naive {
    fn enter(&mut self, prompt: &[u64]) {
        for hash in prompt[..prompt.len().min(self.limit)].iter().rev() {
            self.order.retain(|held| held != hash);
            self.order.push_back(*hash);
        }
        self.cut();
    }

    fn cut(&mut self) {
        self.order.drain(..self.order.len().saturating_sub(self.limit));
    }

    fn held_of(&self, prompt: &[u64]) -> usize {
        prompt.iter().take_while(|hash| self.order.contains(hash)).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn k01_the_index_holds_what_a_list_of_blocks_would(
        capacity in 0u32..200,
        steps in prop::collection::vec((prop::collection::vec(0u8..3, 1..40), 0u8..8), 1..120),
    ) {
        let mut index = PrefixIndex::new(capacity);
        let mut naive = Naive { limit: capacity as usize, ..Naive::default() };
        for (path, action) in steps {
            let prompt = chain(&path);
            prop_assert_eq!(index.held_of(&prompt), naive.held_of(&prompt));
            match action {
                0 => index.correct(path.len(), (path.len() - 1) / 2),
                1 => index.correct(path.len(), path.len()),
                2 => index.resize(capacity / 2 + u32::from(path[0]) * 50),
                _ => {}
            }
            naive.limit = index.limit() as usize;
            naive.cut();
            index.enter(&prompt);
            naive.enter(&prompt);
            prop_assert_eq!(index.len(), naive.order.len());
            for hash in &naive.order {
                prop_assert!(index.holds(*hash));
            }
        }
    }
}

#[test]
fn k01_the_end_of_a_prompt_is_evicted_before_its_beginning() {
    let mut index = PrefixIndex::new(10);
    let (old, new) = (chain(&[1; 8]), chain(&[2; 5]));
    index.enter(&old);
    index.enter(&new);
    assert_eq!((index.held_of(&old), index.held_of(&new)), (5, 5));
    // Using a prompt again keeps it.
    index.enter(&old[..5]);
    index.enter(&chain(&[3; 3]));
    assert_eq!((index.held_of(&old), index.held_of(&new)), (5, 2));
}

/// A number that stands for the hash of a block.
fn odd(number: u64) -> u64 {
    (2 * number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn k01_a_block_takes_at_most_32_bytes() {
    let mut index = PrefixIndex::new(200_000);
    let mut worst: f64 = 0.0;
    for prompt in 0..2_000u64 {
        index.enter(&(0..64).map(|at| odd(prompt * 64 + at)).collect::<Vec<_>>());
        if index.len() >= 10_000 {
            worst = worst.max(index.bytes() as f64 / index.len() as f64);
        }
    }
    assert!(worst <= 32.0, "{worst} bytes a block");
    // An index that is full reuses what it has.
    let mut full = PrefixIndex::new(10_000);
    for prompt in 0..1_000u64 {
        full.enter(&(0..64).map(|at| odd(prompt * 64 + at)).collect::<Vec<_>>());
    }
    assert_eq!(full.len(), 10_000);
    assert!(full.bytes() as f64 <= 32.0 * 10_000.0, "{} bytes", full.bytes());
}

#[test]
fn k01_an_index_that_shrinks_gives_its_memory_back_and_keeps_the_last_prompts() {
    let prompt = |number: u64| (0..64).map(|at| odd(number * 64 + at)).collect::<Vec<_>>();
    let mut index = PrefixIndex::new(100_000);
    for number in 0..2_000 {
        index.enter(&prompt(number));
    }
    let before = index.bytes();
    index.resize(1_000);
    assert!(index.bytes() <= before / 50, "{} of {before} bytes", index.bytes());
    assert_eq!(index.len(), 1_000);
    for number in 2_000 - 15..2_000 {
        assert_eq!(index.held_of(&prompt(number)), 64, "{number}");
    }
    assert_eq!(index.held_of(&prompt(2_000 - 16)), 1_000 - 15 * 64);
    // It goes on as before.
    index.enter(&prompt(1));
    assert_eq!((index.len(), index.held_of(&prompt(1))), (1_000, 64));
    index.resize(0);
    assert_eq!(index.len(), 0);
}

#[test]
fn k01_responses_correct_how_much_a_backend_is_believed_to_hold() {
    let mut index = PrefixIndex::new(1000);
    let prompt = chain(&[1; 100]);
    // An engine without a prefix cache is soon expected to hold next to nothing.
    for _ in 0..100 {
        index.enter(&prompt);
        index.correct(index.held_of(&prompt), 0);
    }
    let low = index.limit();
    assert!(low < 10 && index.held_of(&prompt) < 10, "{low}");
    // Few blocks were expected, and none was found: this says nothing.
    for expected in 0..8 {
        index.correct(expected, 0);
    }
    assert_eq!(index.limit(), low);
    // An engine that holds more than expected is believed to hold more, up to its capacity.
    for _ in 0..1000 {
        index.enter(&prompt);
        index.correct(index.held_of(&prompt), 100);
    }
    assert_eq!((index.limit(), index.held_of(&prompt)), (1000, 100));
}

#[test]
fn k01_a_prompt_that_was_not_computed_is_taken_back() {
    let mut index = PrefixIndex::new(1000);
    let (known, more) = (chain(&[1; 8]), chain(&[1; 20]));
    index.enter(&known);
    index.enter(&more);
    index.withdraw(&more, 8);
    assert_eq!((index.held_of(&more), index.len()), (8, 8));
    index.withdraw(&more, 99);
    index.withdraw(&known, 0);
    assert!(index.is_empty());
}

#[test]
fn k01_a_restarted_engine_holds_nothing() {
    let mut index = PrefixIndex::new(1000);
    index.enter(&chain(&[1; 100]));
    index.clear();
    assert_eq!((index.held_of(&chain(&[1; 100])), index.len(), index.limit()), (0, 0, 1000));
}
