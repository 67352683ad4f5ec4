//! The words of the configuration, and the values that they stand for.

use flow::{Admission, Band, Order, StockUnit};

use super::resolved::dispatch::{Says, Unit};
use super::resolved::{BackendKind, Bus, Cost, LogFormat};
use crate::schema::{Keyword, Keywords, find, spelling};

/// The band that a number stands for, as the Gateway API counts priorities: a request below 0 may
/// be shed, and 0 is the priority of a request that states none.
pub(crate) fn numbered_band(priority: i64) -> Band {
    match priority {
        ..0 => Band::BestEffort,
        0 => Band::Normal,
        1..10 => Band::High,
        10.. => Band::Critical,
    }
}

/// The band that a name stands for, in a header, an objective or a model.
pub(crate) fn band(name: &str) -> Option<Band> {
    find(name)
}

// === impl Keyword ===

impl Keyword for Band {
    /// With the names that other projects give to bands.
    const SPELLINGS: Keywords<Self> = &[
        ("critical", Self::Critical),
        ("high", Self::High),
        ("normal", Self::Normal),
        ("best-effort", Self::BestEffort),
        ("default", Self::Normal),
        ("standard", Self::Normal),
        ("sheddable", Self::BestEffort),
        ("low", Self::BestEffort),
        ("realtime", Self::Critical),
    ];
}

impl Keyword for Order {
    const SPELLINGS: Keywords<Self> =
        &[("fifo", Self::Fifo), ("deadline", Self::Deadline), ("workload", Self::Workload)];
}

impl Keyword for Cost {
    const SPELLINGS: Keywords<Self> =
        &[("requests", Self::Requests), ("tokens", Self::Tokens), ("bytes", Self::Bytes)];
}

impl Keyword for Unit {
    const SPELLINGS: Keywords<Self> =
        &[("requests", Self::Requests), ("tokens", Self::Tokens), ("bytes", Self::Bytes)];
}

impl Keyword for Says {
    const SPELLINGS: Keywords<Self> =
        &[("saturation", Self::Saturation), ("budget", Self::Budget), ("count", Self::Count)];
}

impl Keyword for Admission {
    const SPELLINGS: Keywords<Self> = &[("all", Self::All), ("critical-only", Self::CriticalOnly)];
}

impl Keyword for StockUnit {
    const SPELLINGS: Keywords<Self> = &[("requests", Self::Requests), ("tokens", Self::Tokens)];
}

impl Keyword for BackendKind {
    const SPELLINGS: Keywords<Self> = &[
        ("vllm", Self::Vllm),
        ("sglang", Self::Sglang),
        ("ollama", Self::Ollama),
        ("llamacpp", Self::LlamaCpp),
        ("openai", Self::OpenAi),
        ("generic", Self::Generic),
        ("llama.cpp", Self::LlamaCpp),
    ];
}

impl Keyword for LogFormat {
    const SPELLINGS: Keywords<Self> = &[("text", Self::Text), ("json", Self::Json)];
}

impl Keyword for Bus {
    const SPELLINGS: Keywords<Self> = &[("session", Self::Session), ("system", Self::System)];
}

// === impl Bus ===

impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(spelling(*self))
    }
}
