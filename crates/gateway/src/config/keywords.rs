//! The words that a configuration chooses between, and what each stands for.
//!
//! The first spelling of a value is the one that is shown.

use flow::{Admission, Band, Order, StockUnit};

use super::resolved::dispatch::{Says, Unit};
use super::resolved::{BackendKind, Bus, Cost, LogFormat};

/// Spellings and their values.
pub(super) type Keywords<T> = &'static [(&'static str, T)];

/// The bands, with the names that the sources give them.
pub(super) const BANDS: Keywords<Band> = &[
    ("critical", Band::Critical),
    ("high", Band::High),
    ("normal", Band::Normal),
    ("best-effort", Band::BestEffort),
    ("default", Band::Normal),
    ("standard", Band::Normal),
    ("sheddable", Band::BestEffort),
    ("low", Band::BestEffort),
    ("realtime", Band::Critical),
];

pub(super) const ORDERS: Keywords<Order> =
    &[("fifo", Order::Fifo), ("deadline", Order::Deadline), ("workload", Order::Workload)];

pub(super) const COSTS: Keywords<Cost> =
    &[("requests", Cost::Requests), ("tokens", Cost::Tokens), ("bytes", Cost::Bytes)];

pub(super) const UNITS: Keywords<Unit> =
    &[("requests", Unit::Requests), ("tokens", Unit::Tokens), ("bytes", Unit::Bytes)];

pub(super) const SAYS: Keywords<Says> =
    &[("saturation", Says::Saturation), ("budget", Says::Budget), ("count", Says::Count)];

pub(super) const ADMISSIONS: Keywords<Admission> =
    &[("all", Admission::All), ("critical-only", Admission::CriticalOnly)];

pub(super) const STOCKS: Keywords<StockUnit> =
    &[("requests", StockUnit::Requests), ("tokens", StockUnit::Tokens)];

pub(super) const KINDS: Keywords<BackendKind> = &[
    ("vllm", BackendKind::Vllm),
    ("sglang", BackendKind::Sglang),
    ("ollama", BackendKind::Ollama),
    ("llamacpp", BackendKind::LlamaCpp),
    ("openai", BackendKind::OpenAi),
    ("generic", BackendKind::Generic),
    ("llama.cpp", BackendKind::LlamaCpp),
];

pub(super) const LOG_FORMATS: Keywords<LogFormat> =
    &[("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(super) const BUSES: Keywords<Bus> = &[("session", Bus::Session), ("system", Bus::System)];

/// What a word stands for. Case, `-` and `_` make no difference.
pub(super) fn find<T: Copy>(words: Keywords<T>, text: &str) -> Option<T> {
    words.iter().find(|(word, _)| alike(word, text)).map(|&(_, value)| value)
}

fn alike(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

fn letters(word: &str) -> impl Iterator<Item = u8> {
    let letters = word.bytes().filter(|letter| !matches!(letter, b'-' | b'_'));
    letters.map(|letter| letter.to_ascii_lowercase())
}

/// The word for a value.
pub(super) fn name<T: Copy + PartialEq>(words: Keywords<T>, value: T) -> &'static str {
    words.iter().find(|&&(_, known)| known == value).map_or("", |&(word, _)| word)
}

/// All words, for the reader.
pub(super) fn list<T>(words: Keywords<T>) -> String {
    let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

/// The band that a number stands for, as the Gateway API counts priorities: what is below 0 may be
/// shed, 0 is what nobody asked to be different.
pub(crate) fn numbered_band(priority: i64) -> Band {
    match priority {
        ..0 => Band::BestEffort,
        0 => Band::Normal,
        1..10 => Band::High,
        10.. => Band::Critical,
    }
}

/// The band that a name stands for, whoever uses it: a header, an objective, a model.
pub(crate) fn band(name: &str) -> Option<Band> {
    find(BANDS, name)
}

// === impl Bus ===

impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(name(BUSES, *self))
    }
}
