//! Parser for the metrics that an engine exposes.
//!
//! The text is long, it is read often, and few of its lines matter. So the parser looks at the
//! first byte of a line and then at the name, and parses the rest only of known names. Several
//! engines behind one server (data-parallel ranks) write one line each: counts are summed, ratios
//! are averaged. A value that is not a finite number invalidates the whole reading.

use flow::EngineReading;

use crate::prometheus_parser::{self, label};

/// Further adapters are ignored.
const ADAPTERS_MAX: usize = 256;

/// A reading, and the loaded adapters (LoRA).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EngineMetrics {
    pub(super) reading: EngineReading,
    /// Whether the engine reports its KV cache. If not, the reading has 0.
    pub(super) kv_reported: bool,
    pub(super) adapters: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    Running,
    /// The most requests that run at once.
    RunningMax,
    Waiting,
    KvUsed,
    Preemptions,
    /// A gauge that rises with preemptions, for engines without a counter.
    PreemptionsNow,
    KvTokens,
    /// The labels that give the number of cache blocks and the tokens of a block.
    KvBlocks(&'static str, &'static str),
    Adapters,
}

/// The metric names of vLLM (0.6 and later), SGLang and llama.cpp.
const NAMES: &[(&str, MetricKind)] = &[
    ("vllm:num_requests_running", MetricKind::Running),
    ("vllm:max_num_seqs", MetricKind::RunningMax),
    ("vllm:num_requests_waiting", MetricKind::Waiting),
    ("vllm:kv_cache_usage_perc", MetricKind::KvUsed),
    ("vllm:gpu_cache_usage_perc", MetricKind::KvUsed),
    ("vllm:num_preemptions_total", MetricKind::Preemptions),
    ("vllm:cache_config_info", MetricKind::KvBlocks("num_gpu_blocks", "block_size")),
    ("vllm:lora_requests_info", MetricKind::Adapters),
    ("sglang:num_running_reqs", MetricKind::Running),
    ("sglang:max_running_requests", MetricKind::RunningMax),
    ("sglang:num_queue_reqs", MetricKind::Waiting),
    ("sglang:token_usage", MetricKind::KvUsed),
    ("sglang:num_retracted_requests_total", MetricKind::Preemptions),
    ("sglang:num_retracted_reqs_total", MetricKind::Preemptions),
    ("sglang:num_retracted_reqs", MetricKind::PreemptionsNow),
    ("sglang:max_total_num_tokens", MetricKind::KvTokens),
    ("sglang:cache_config_info", MetricKind::KvBlocks("num_pages", "page_size")),
    ("llamacpp:requests_processing", MetricKind::Running),
    ("llamacpp:requests_deferred", MetricKind::Waiting),
    ("llamacpp:kv_cache_usage_ratio", MetricKind::KvUsed),
];

/// Sums over the lines with known names.
#[derive(Debug, Default)]
struct Sums {
    running: Option<f64>,
    /// Each rank writes one line.
    ranks: u32,
    running_max: Option<f64>,
    waiting: Option<f64>,
    kv_used: f64,
    kv_used_lines: f64,
    preemptions: Option<f64>,
    preemptions_now: f64,
    kv_tokens: Option<f64>,
    kv_block_tokens: Option<f64>,
    /// The time of the newest line and its adapters.
    adapters: Option<(f64, Vec<String>)>,
}

/// A parsed line.
#[derive(Clone, Copy, Debug)]
struct Sample<'a> {
    kind: MetricKind,
    labels: &'a str,
    value: f64,
}

/// Parses an engine's metrics; `None` if no known engine wrote them or a value is invalid.
pub(super) fn read(text: &[u8]) -> Option<EngineMetrics> {
    let mut sums = Sums::default();
    for line in prometheus_parser::lines(text) {
        if matches!(line.first(), Some(b'v' | b's' | b'l'))
            && let Some(sample) = sample(line)
        {
            sums.add(sample)?;
        }
    }
    sums.metrics()
}

fn sample(line: &[u8]) -> Option<Sample<'_>> {
    let (name, rest) = prometheus_parser::name(line)?;
    let &(_, kind) = NAMES.iter().find(|(known, _)| known.as_bytes() == name)?;
    let (labels, value) = prometheus_parser::sample(rest)?;
    Some(Sample { kind, labels, value })
}

fn sound(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

// === impl Sums ===

impl Sums {
    /// Adds a line; `None` if its value invalidates the reading.
    fn add(&mut self, sample: Sample<'_>) -> Option<()> {
        let Sample { kind, labels, value } = sample;
        match kind {
            MetricKind::Running => {
                add(&mut self.running, sound(value)?);
                self.ranks = self.ranks.saturating_add(1);
            }
            MetricKind::RunningMax => add(&mut self.running_max, sound(value)?),
            MetricKind::Waiting => add(&mut self.waiting, sound(value)?),
            MetricKind::KvUsed => {
                self.kv_used += sound(value)?;
                self.kv_used_lines += 1.0;
            }
            MetricKind::Preemptions => add(&mut self.preemptions, sound(value)?),
            MetricKind::PreemptionsNow => self.preemptions_now += sound(value)?,
            MetricKind::KvTokens => add(&mut self.kv_tokens, sound(value)?),
            MetricKind::KvBlocks(count, size) => {
                let number = |name| label(labels, name)?.parse::<f64>().ok().and_then(sound);
                if let Some(tokens) = number(count).zip(number(size)).map(|(a, b)| a * b) {
                    add(&mut self.kv_block_tokens, tokens);
                }
            }
            MetricKind::Adapters => self.add_adapters(labels, value),
        }
        Some(())
    }

    /// The engine keeps old lines; the line with the latest time is the valid one.
    fn add_adapters(&mut self, labels: &str, at: f64) {
        let newest = self.adapters.as_ref().is_none_or(|(latest, _)| at >= *latest);
        if let Some(names) = label(labels, "running_lora_adapters").filter(|_| newest) {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            self.adapters = Some((at, names.take(ADAPTERS_MAX).map(str::to_owned).collect()));
        }
    }

    fn metrics(self) -> Option<EngineMetrics> {
        let kv_tokens = self.kv_tokens.or(self.kv_block_tokens).filter(|&tokens| tokens >= 1.0);
        let reading = EngineReading {
            running: self.running? as u32,
            waiting: self.waiting.unwrap_or(0.0) as u32,
            kv_used: (self.kv_used / self.kv_used_lines.max(1.0)).min(1.0),
            preemptions: self.preemptions.unwrap_or(self.preemptions_now) as u64,
            kv_tokens: kv_tokens.map(|tokens| tokens as u64),
            running_max: self.running_max.map(|most| most as u32).filter(|&most| most > 0),
            ranks: self.ranks,
        };
        let adapters = self.adapters.map(|(_, names)| names).unwrap_or_default();
        Some(EngineMetrics { reading, kv_reported: self.kv_used_lines > 0.0, adapters })
    }
}

fn add(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or(0.0) + value);
}
