//! The estimated cost of a request. The usage in the response corrects it later.

use super::json_body::BodyFields;
use super::path::RequestKind;
use crate::config::settings::Cost;

/// Estimates of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CostEstimate {
    /// In the queue's unit.
    pub(super) cost: u64,
    pub(super) prompt: u64,
    /// Prompt and output, of all choices.
    pub(super) tokens: u64,
    /// The number of responses to the prompt.
    pub(super) choices: u64,
}

/// The output length of a request without a limit.
const OUTPUT_TOKENS: u64 = 256;
/// More choices per prompt than any server supports.
const CHOICES_MAX: u64 = 128;

// === impl CostEstimate ===

impl CostEstimate {
    pub(super) fn of(kind: RequestKind, fields: &BodyFields<'_>, bytes: usize, unit: Cost) -> Self {
        let prompt = fields.prompt_size.tokens().max(1);
        let choices = fields.choices.unwrap_or(1).clamp(1, CHOICES_MAX);
        let output = match kind {
            RequestKind::Embedding => 0,
            _ if kind.generates() => fields.output.unwrap_or(OUTPUT_TOKENS),
            _ => fields.output.unwrap_or(0),
        };
        let tokens = prompt.saturating_add(output.saturating_mul(choices));
        let cost = match unit {
            Cost::Requests => 1,
            Cost::Tokens => tokens,
            Cost::Bytes => (bytes as u64).max(1),
        };
        Self { cost, prompt, tokens, choices }
    }
}
