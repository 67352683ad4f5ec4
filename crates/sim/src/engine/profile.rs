//! Named engine configurations, checked before anything is built from them.
//!
//! Measured constants and the recorded runs of vLLM 0.19 they were checked on come from
//! casys-kaist/LLMServingSim (MIT). Where a constant was fitted or estimated, it says so.

use std::fmt;

use super::blocks::BLOCK_TOKENS;
use super::cost::StepCost;

/// A checked engine configuration with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    name: String,
    shape: Shape,
}

/// How an engine works, and its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Like vLLM.
    Batch(BatchShape),
    /// Like vLLM with data-parallel ranks.
    Ranks(RanksShape),
    /// Like Ollama.
    Slots(SlotsShape),
}

/// The figures of an engine that works like vLLM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchShape {
    /// Tokens that the KV cache holds, as the engine tells; one block of it is never given out.
    pub kv_tokens: u64,
    /// The most sequences in one step.
    pub max_seqs: u32,
    /// The most tokens in one step.
    pub max_batched_tokens: u32,
    /// The most tokens that prompt and output may have together.
    pub max_len: u32,
    /// Who goes first, and who is thrown back last.
    pub policy: Policy,
    /// What a step costs.
    pub step: StepCost,
}

/// The figures of an engine with data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RanksShape {
    /// How many ranks there are.
    pub ranks: u32,
    /// The figures of each of them.
    pub each: BatchShape,
}

/// The figures of an engine that works like Ollama.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotsShape {
    /// Jobs served at once; further ones wait in line.
    pub slots: u32,
    /// Prompt tokens per second and slot.
    pub prefill_rate: f64,
    /// Output tokens per second and slot.
    pub decode_rate: f64,
    /// The most tokens that prompt and output may have together.
    pub max_len: u32,
}

/// The order of service inside a batching engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; the last one is thrown back first.
    Arrival,
    /// By priority, then by arrival; the least urgent one is thrown back first.
    Priority,
}

/// The problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProfile {
    /// The profile's name.
    pub profile: String,
    /// The figure that is wrong.
    pub key: &'static str,
    /// What it must be.
    pub must: &'static str,
}

/// Llama 3.1: in bf16 15 GiB of weights and 128 KiB of KV per token.
const LLAMA_8B_MAX_LEN: u32 = 131_072;

/// Measured kernels; only `overhead` fitted, on a recorded run whose limits these are.
const RTX4090_8B: BatchShape = BatchShape {
    kv_tokens: 41_408,
    max_seqs: 256,
    max_batched_tokens: 2048,
    max_len: 32_768,
    policy: Policy::Arrival,
    step: StepCost {
        base: 16.6,
        token: 0.033,
        compute: 0.0880,
        context: 141.5e-6,
        sequence: 0.0064,
        attention: 4.56e-6,
        overhead: 1.6,
    },
};

/// Measured kernels; `compute` and `overhead` fitted on a recorded run, whose limits these are.
const PRO6000_8B: BatchShape = BatchShape {
    kv_tokens: 585_248,
    max_seqs: 128,
    max_batched_tokens: 2048,
    max_len: LLAMA_8B_MAX_LEN,
    policy: Policy::Arrival,
    step: StepCost {
        base: 10.9,
        token: 0.0125,
        compute: 0.043,
        context: 91.4e-6,
        sequence: 0.0036,
        attention: 2.59e-6,
        overhead: 2.9,
    },
};

/// Qwen3-32B on two cards. KV: 2 x 95.6 GiB x 0.9, less 61 GiB of weights and 3 GiB of working
/// memory, leaves 108 GiB at 256 KiB per token.
const PRO6000X2_32B: BatchShape = BatchShape {
    kv_tokens: 442_368,
    max_seqs: 128,
    max_batched_tokens: 2048,
    max_len: 40_960,
    policy: Policy::Arrival,
    step: StepCost {
        base: 24.4,
        token: 0.09,
        compute: 0.18,
        context: 95e-6,
        sequence: 0.0033,
        attention: 5.25e-6,
        overhead: 8.0,
    },
};

/// An estimate, not a measurement. KV: 79.6 GiB x 0.9, less 15 GiB of weights and 2.6 GiB of
/// working memory at these limits, leaves 54 GiB at 128 KiB per token. `base`, `compute` and
/// `context` follow from bandwidth and arithmetic; the others are those of the PRO 6000, scaled
/// like `compute` (`token`, `attention`) or kept where the host sets them.
const H100_8B: BatchShape = BatchShape {
    kv_tokens: 442_368,
    max_seqs: 1024,
    max_batched_tokens: 8192,
    max_len: LLAMA_8B_MAX_LEN,
    policy: Policy::Arrival,
    step: StepCost {
        base: 5.8,
        token: 0.0065,
        compute: 0.0225,
        context: 45e-6,
        sequence: 0.0036,
        attention: 1.36e-6,
        overhead: 2.9,
    },
};

/// An estimate: Qwen3-30B-A3B in bf16 (3.3 of 30.5 billion parameters a token, 96 KiB of KV per
/// token) on four H100 with as many data-parallel ranks and its experts spread over them. A card
/// has a quarter of the experts and all of the rest, 16.2 GiB. KV: 79.6 GiB x 0.9, less those and
/// 3 GiB of working memory, leaves 52 GiB. With dozens of tokens a step needs every expert, so
/// `base` reads them all, at 0.8 of the bandwidth. `compute` takes 0.4 of the peak. `token` is that
/// of the H100, scaled like `compute`, and 3 MB a token over NVLink to the experts and back.
/// `context` and `attention` follow from those of the 8B model by the size of keys and heads,
/// `overhead` has 96 exchanges of 15 us on top.
const H100X4_30B_MOE: RanksShape = RanksShape {
    ranks: 4,
    each: BatchShape {
        kv_tokens: 567_968,
        max_seqs: 256,
        max_batched_tokens: 8192,
        max_len: 40_960,
        policy: Policy::Arrival,
        step: StepCost {
            base: 6.5,
            token: 0.012,
            compute: 0.0167,
            context: 34e-6,
            sequence: 0.0036,
            attention: 2.04e-6,
            overhead: 4.3,
        },
    },
};

/// An estimate: an 8B model in 4 bits (4.9 GB) on a 12 GB desktop card (360 GB/s, 51 TFLOPS).
/// Reading the weights takes 15.7 ms, so 60 tokens a second; arithmetic at 0.55 of the peak takes
/// 0.57 ms a prompt token, so 1,700 a second.
const OLLAMA_4: SlotsShape =
    SlotsShape { slots: 4, prefill_rate: 1700.0, decode_rate: 60.0, max_len: 8192 };

const NAMED: [(&str, Shape); 6] = [
    ("rtx4090-8b", Shape::Batch(RTX4090_8B)),
    ("pro6000-8b", Shape::Batch(PRO6000_8B)),
    ("pro6000x2-32b", Shape::Batch(PRO6000X2_32B)),
    ("h100-8b", Shape::Batch(H100_8B)),
    ("h100x4-30b-moe", Shape::Ranks(H100X4_30B_MOE)),
    ("ollama-4", Shape::Slots(OLLAMA_4)),
];

/// A prompt and an answer.
const LEN_MIN: u32 = 2;
const LEN_MUST: &str = "at least 2, a prompt and an answer";

/// More than any machine has. The simulator keeps 32 bytes for each block of 16: so many take
/// 200 MB.
const KV_TOKENS_MAX: u64 = 100_000_000;

/// More ranks than this are several servers.
const RANKS_MAX: u32 = 64;

/// No constant of a step is anywhere near a minute.
const COST_MAX_MS: f64 = 60_000.0;

// === impl Profile ===

impl Profile {
    /// The names that [`Profile::named`] knows.
    pub const NAMES: [&str; NAMED.len()] =
        [NAMED[0].0, NAMED[1].0, NAMED[2].0, NAMED[3].0, NAMED[4].0, NAMED[5].0];

    /// A configuration of one's own; the error names the figure that makes no sense.
    pub fn new(name: &str, shape: Shape) -> Result<Self, BadProfile> {
        let wrong = match &shape {
            Shape::Batch(batch) => batch.wrong(),
            Shape::Ranks(ranks) => ranks.wrong(),
            Shape::Slots(slots) => slots.wrong(),
        };
        match wrong {
            Some((key, must)) => Err(BadProfile { profile: name.to_owned(), key, must }),
            None => Ok(Self { name: name.to_owned(), shape }),
        }
    }

    /// A configuration that comes with the simulator.
    pub fn named(name: &str) -> Option<Self> {
        let (name, shape) = NAMED.iter().find(|(known, _)| *known == name)?;
        Self::new(name, *shape).ok()
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its figures.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

// === impl BatchShape ===

impl BatchShape {
    /// Blocks to give out. vLLM sets one aside as the target of padding.
    pub(super) fn blocks(&self) -> u32 {
        let blocks = self.kv_tokens / u64::from(BLOCK_TOKENS);
        u32::try_from(blocks).unwrap_or(u32::MAX).saturating_sub(1)
    }

    fn wrong(&self) -> Option<(&'static str, &'static str)> {
        if self.blocks() == 0 {
            return Some(("kv_tokens", "at least 32: two blocks of 16, one is set aside"));
        }
        if self.kv_tokens > KV_TOKENS_MAX {
            return Some(("kv_tokens", "at most 100,000,000"));
        }
        let counts = [("max_seqs", self.max_seqs), ("max_batched_tokens", self.max_batched_tokens)];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Some((key, "at least 1"));
        }
        if self.max_len < LEN_MIN {
            return Some(("max_len", LEN_MUST));
        }
        let constants = self.step.named();
        if let Some((key, _)) = constants.into_iter().find(|(_, value)| !is_cost(*value)) {
            return Some((key, "milliseconds from 0 to 60,000"));
        }
        let free = self.step.base.max(self.step.compute) + self.step.overhead == 0.0;
        free.then_some(("step.base", "above 0, or a step would take no time"))
    }
}

// === impl RanksShape ===

impl RanksShape {
    fn wrong(&self) -> Option<(&'static str, &'static str)> {
        match self.ranks {
            1..=RANKS_MAX => self.each.wrong(),
            _ => Some(("ranks", "1 to 64")),
        }
    }
}

fn is_cost(value: f64) -> bool {
    (0.0..=COST_MAX_MS).contains(&value)
}

// === impl SlotsShape ===

impl SlotsShape {
    fn wrong(&self) -> Option<(&'static str, &'static str)> {
        if self.slots == 0 {
            return Some(("slots", "at least 1"));
        }
        if self.max_len < LEN_MIN {
            return Some(("max_len", LEN_MUST));
        }
        let rates = [("prefill_rate", self.prefill_rate), ("decode_rate", self.decode_rate)];
        let (key, _) = rates.into_iter().find(|(_, rate)| !is_rate(*rate))?;
        Some((key, "tokens per second, from 0.001 to 1,000,000"))
    }
}

fn is_rate(value: f64) -> bool {
    (0.001..=1e6).contains(&value)
}

// === impl BadProfile ===

impl fmt::Display for BadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine profile {:?}: {} must be {}", self.profile, self.key, self.must)
    }
}

impl std::error::Error for BadProfile {}
