//! What a request will cost, before anybody knows: the answer's usage puts it right afterwards.

use super::body::Peek;
use super::path::Kind;
use crate::config::resolved::Cost;

/// Estimates of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// In the queue's unit.
    pub(super) cost: u64,
    pub(super) prompt: u64,
    /// Prompt and output.
    pub(super) tokens: u64,
}

/// The length of an answer that is given no limit.
const OUTPUT_TOKENS: u64 = 256;
/// More answers to one prompt than any server gives.
const ANSWERS_MAX: u64 = 128;

// === impl Estimate ===

impl Estimate {
    pub(super) fn of(kind: Kind, peek: &Peek<'_>, bytes: usize, unit: Cost) -> Self {
        let prompt = peek.weight.tokens().max(1);
        let answers = peek.n.unwrap_or(1).clamp(1, ANSWERS_MAX);
        let output = match kind {
            Kind::Embedding => 0,
            _ if kind.generates() => peek.output.unwrap_or(OUTPUT_TOKENS),
            _ => peek.output.unwrap_or(0),
        };
        let tokens = prompt.saturating_add(output.saturating_mul(answers));
        let cost = match unit {
            Cost::Requests => 1,
            Cost::Tokens => tokens,
            Cost::Bytes => (bytes as u64).max(1),
        };
        Self { cost, prompt, tokens }
    }
}
