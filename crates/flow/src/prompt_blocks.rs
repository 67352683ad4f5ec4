//! A prompt as the chained hashes of its blocks of bytes: two prompts with the same hash at the
//! same place have the same text up to there.
//!
//! Blocks are counted in bytes, because the core has no tokenizer. A block is about as long as 64
//! tokens. The hash is keyed by a number that clients do not know, so that no client can make the
//! prompt of another one look like its own. It must never be used where a collision does harm: here
//! it costs at most a worse choice of a backend.

use std::sync::Arc;

/// The bytes of a block: 64 tokens of four bytes.
pub const BLOCK_BYTES: usize = 256;

/// The most blocks of one prompt that are hashed: 256 K tokens. The rest counts as never cached.
pub const PROMPT_BLOCKS_MAX: usize = 4096;

const LANES: usize = 4;
/// The bytes of a word, and those that one round takes: two words for each lane.
const WORD: usize = 8;
const ROUND: usize = 2 * WORD * LANES;

/// The hashes of a prompt's blocks, in order. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptBlocks {
    hashes: Option<Arc<[u64]>>,
    /// The bytes of the whole prompt, hashed or not.
    bytes: u64,
}

/// Makes the hashes of one prompt from its parts.
#[derive(Clone, Debug)]
pub struct BlockHasher {
    keys: [u64; LANES],
    /// Depends on every byte so far.
    state: u64,
    hashes: Vec<u64>,
    bytes: u64,
}

/// A number whose bits all depend on all bits of the seed (the finaliser of SplitMix64).
const fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Both halves of the product, which every bit of both factors reaches.
const fn folded(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<WORD>().map_or(0, |word| u64::from_le_bytes(*word))
}

// === impl PromptBlocks ===

impl PromptBlocks {
    /// The prompt of which nothing is known.
    pub const UNKNOWN: Self = Self { hashes: None, bytes: 0 };

    /// The hashes, in the order of the blocks.
    pub fn hashes(&self) -> &[u64] {
        self.hashes.as_deref().unwrap_or_default()
    }

    /// Whether there is nothing to look up: the prompt is unknown, or shorter than a block.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_none()
    }

    /// The part of the prompt's tokens that its first blocks hold, of `tokens` in all. Few enough
    /// blocks are hashed for the product to fit.
    pub fn tokens_of(&self, blocks: usize, tokens: u64) -> u64 {
        let held = (blocks as u64).saturating_mul(BLOCK_BYTES as u64).min(self.bytes);
        held.saturating_mul(tokens).checked_div(self.bytes).unwrap_or(0)
    }

    /// The hash of the first block with which the prompt's first blocks hold more than `part` of
    /// its tokens, of `tokens` in all.
    pub fn block_beyond(&self, part: u64, tokens: u64) -> Option<u64> {
        let bytes = part.checked_add(1)?.checked_mul(self.bytes)?.checked_sub(1)?;
        let at = bytes.checked_div(tokens.checked_mul(BLOCK_BYTES as u64)?)?;
        self.hashes().get(usize::try_from(at).ok()?).copied().filter(|_| part < tokens)
    }

    /// The blocks that so many of the prompt's tokens fill, of `tokens` in all.
    pub fn blocks_of(&self, part: u64, tokens: u64) -> usize {
        let bytes = u128::from(self.bytes) * u128::from(part.min(tokens));
        let bytes = bytes.checked_div(u128::from(tokens)).unwrap_or(0) as u64;
        (bytes / BLOCK_BYTES as u64).min(self.hashes().len() as u64) as usize
    }
}

// === impl BlockHasher ===

impl BlockHasher {
    /// A hasher for one prompt. Prompts with different keys have no block in common: the key stands
    /// for the secret of the process, the model, and the tenant if tenants are kept apart.
    pub fn new(key: u64) -> Self {
        let mut state = mixed(key);
        let keys = std::array::from_fn(|_| {
            state = mixed(state);
            state
        });
        Self { keys, state: mixed(state), hashes: Vec::new(), bytes: 0 }
    }

    /// Adds the next part of the prompt. Where a part ends counts: the rest of a part that fills no
    /// block changes every later hash, and has none of its own.
    pub fn add(&mut self, part: &[u8]) {
        self.bytes = self.bytes.saturating_add(part.len() as u64);
        self.hashes.reserve_exact((part.len() / BLOCK_BYTES).min(self.left()));
        let mut blocks = part.chunks_exact(BLOCK_BYTES);
        for block in blocks.by_ref().take(self.left()) {
            self.state = self.absorbed(block);
            self.hashes.push(self.state);
        }
        let rest = blocks.remainder();
        if self.left() > 0 && !rest.is_empty() {
            let mut padded = [0; BLOCK_BYTES];
            padded[..rest.len()].copy_from_slice(rest);
            self.state = mixed(self.absorbed(&padded) ^ rest.len() as u64);
        }
    }

    /// The hashes of all parts.
    pub fn finish(self) -> PromptBlocks {
        let hashes = (!self.hashes.is_empty()).then(|| self.hashes.into());
        PromptBlocks { hashes, bytes: self.bytes }
    }

    fn left(&self) -> usize {
        PROMPT_BLOCKS_MAX - self.hashes.len()
    }

    /// The state after a block. Lanes that do not wait for each other keep the multiplier busy.
    fn absorbed(&self, block: &[u8]) -> u64 {
        let mut lanes = self.keys.map(|key| key ^ self.state);
        for round in block.chunks_exact(ROUND) {
            let pairs = round.chunks_exact(2 * WORD);
            for ((lane, key), pair) in lanes.iter_mut().zip(self.keys).zip(pairs) {
                *lane = folded(word(pair) ^ key, word(&pair[WORD..]) ^ *lane);
            }
        }
        let [a, b, c, d] = lanes;
        mixed(folded(a ^ self.state, b ^ self.keys[0]) ^ folded(c ^ self.keys[1], d ^ self.keys[2]))
    }
}

#[cfg(test)]
mod tests;
