//! What prompts have in common, and what keeps them apart.

use std::collections::BTreeSet;

use super::*;

fn text(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| mixed(seed ^ (at << 20)) as u8).collect()
}

fn blocks(key: u64, parts: &[&[u8]]) -> PromptBlocks {
    let mut hasher = BlockHasher::new(key);
    parts.iter().for_each(|part| hasher.add(part));
    hasher.finish()
}

fn in_common(a: &PromptBlocks, b: &PromptBlocks) -> usize {
    a.hashes().iter().zip(b.hashes()).take_while(|(a, b)| a == b).count()
}

#[test]
fn k01_prompts_share_the_blocks_of_their_common_beginning() {
    let one = text(1, 10 * BLOCK_BYTES);
    for same in [0, 1, 255, 256, 257, 1024, 2559] {
        let mut other = one.clone();
        other[same] ^= 1;
        let (one, other) = (blocks(7, &[&one]), blocks(7, &[&other]));
        assert_eq!(in_common(&one, &other), same / BLOCK_BYTES);
        // Once prompts differ, no later block is the same: the hashes are chained.
        let later = one.hashes().iter().zip(other.hashes()).skip(same / BLOCK_BYTES);
        assert!(later.into_iter().all(|(a, b)| a != b));
    }
}

#[test]
fn k01_prompts_with_other_keys_have_no_block_in_common() {
    let prompt = text(1, 4 * BLOCK_BYTES);
    let hashes = (0..100).flat_map(|key| blocks(key, &[&prompt]).hashes().to_vec());
    assert_eq!(hashes.collect::<BTreeSet<u64>>().len(), 400);
}

#[test]
fn k01_a_short_part_changes_what_follows_it() {
    let prompt = text(1, 2 * BLOCK_BYTES);
    let systems: [&[u8]; 4] = [b"", b"a", b"b", b"a\0"];
    let first = systems.map(|system| blocks(7, &[system, &prompt]).hashes()[0]);
    assert_eq!(first.into_iter().collect::<BTreeSet<u64>>().len(), 4);
}

#[test]
fn k01_every_byte_of_a_block_counts() {
    let plain = [0; BLOCK_BYTES];
    let mut seen = BTreeSet::from([blocks(7, &[&plain]).hashes()[0]]);
    for at in 0..BLOCK_BYTES {
        for bit in 0..8 {
            let mut block = plain;
            block[at] ^= 1 << bit;
            assert!(seen.insert(blocks(7, &[&block]).hashes()[0]), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn k01_the_hashes_of_one_prompt_are_bounded() {
    let long = vec![7; (PROMPT_BLOCKS_MAX + 9) * BLOCK_BYTES + 3];
    let blocks = blocks(7, &[&long, &long]);
    assert_eq!(blocks.hashes().len(), PROMPT_BLOCKS_MAX);
    assert_eq!(blocks.bytes, 2 * long.len() as u64);
}

#[test]
fn k01_blocks_are_counted_in_the_tokens_of_the_prompt() {
    let prompt = blocks(7, &[&text(1, 1000)]);
    assert_eq!(prompt.hashes().len(), 3);
    assert_eq!(prompt.tokens_of(0, 250), 0);
    assert_eq!(prompt.tokens_of(3, 250), 192);
    assert_eq!(prompt.blocks_of(192, 250), 3);
    assert_eq!(prompt.blocks_of(191, 250), 2);
    assert_eq!(prompt.blocks_of(9999, 250), 3);
    // Nothing is known of an empty prompt, or of one without tokens.
    assert_eq!(PromptBlocks::default().tokens_of(3, 250), 0);
    assert_eq!((prompt.tokens_of(3, 0), prompt.blocks_of(3, 0)), (0, 0));
    assert!(blocks(7, &[&text(1, 255)]).is_empty());
}

#[test]
fn k02_the_first_block_beyond_a_part_is_the_one_that_makes_it_more() {
    for (length, tokens) in [(700, 9), (2560, 640), (2559, 1000), (5000, 7), (300, 100_000)] {
        let prompt = blocks(7, &[&text(1, length)]);
        for part in 0..=tokens {
            let beyond = |&at: &usize| prompt.tokens_of(at + 1, tokens) > part;
            let first = (0..prompt.hashes().len()).find(beyond);
            let expected = first.map(|at| prompt.hashes()[at]);
            assert_eq!(prompt.block_beyond(part, tokens), expected, "{length} {tokens} {part}");
        }
    }
    assert_eq!(PromptBlocks::UNKNOWN.block_beyond(0, 10), None);
}
