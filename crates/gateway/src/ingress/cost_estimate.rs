//! The estimated cost of a request. The usage in the response corrects it later.

use http::Method;

use super::json_body::{self, BodyFields};
use super::path::{self, RequestKind, Route};
use super::prompt_size::BYTES_PER_TOKEN;
use crate::config::settings::Cost;

/// Estimates of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CostEstimate {
    /// In the queue's unit.
    pub(super) cost: u64,
    pub(super) prompt: u64,
    /// Prompt and output, of all choices.
    pub(super) tokens: u64,
    /// The number of responses to all prompts.
    pub(super) choices: u64,
}

/// The tokens that a request claims by its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenClaim {
    prompt: u64,
    choices: u64,
    /// The limit of its output, if it has one.
    output: Option<u64>,
    /// Whether the response is text of unknown length.
    generates: bool,
}

/// The output length of a request without a limit.
const OUTPUT_TOKENS: u64 = 256;
/// More choices per prompt than any server supports.
const CHOICES_MAX: u64 = 128;

/// The number of responses: so many choices for each prompt.
fn responses(kind: RequestKind, fields: &BodyFields<'_>) -> u64 {
    let prompts = if kind == RequestKind::Completion { fields.prompts.count() } else { 1 };
    fields.choices.unwrap_or(1).clamp(1, CHOICES_MAX).saturating_mul(prompts)
}

// === impl CostEstimate ===

impl CostEstimate {
    pub(super) fn of(kind: RequestKind, fields: &BodyFields<'_>, bytes: usize, unit: Cost) -> Self {
        let prompt = fields.prompts.tokens().max(1);
        let choices = responses(kind, fields);
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

// === impl TokenClaim ===

impl TokenClaim {
    /// The claim of a request for this path. A body that cannot be parsed is a prompt of text.
    pub(crate) fn of(path: &str, body: &[u8]) -> Self {
        let kind = match path::classify(&Method::POST, path) {
            Ok(Route::Proxied { kind, .. }) => kind,
            _ => RequestKind::Other,
        };
        let text = (body.len() as u64).div_ceil(BYTES_PER_TOKEN).max(1);
        let Ok(fields) = json_body::parse(body) else {
            return Self { prompt: text, choices: 1, output: None, generates: false };
        };
        let output = fields.output.filter(|_| kind != RequestKind::Embedding);
        Self {
            prompt: fields.prompts.tokens().max(1),
            choices: responses(kind, &fields),
            output,
            generates: kind.generates(),
        }
    }

    /// The tokens of the prompt and of the expected output. A limit counts as `most` at most, and
    /// an output without a limit as `usual`, as far as that is known.
    pub(crate) fn expected(self, most: u64, usual: Option<u64>) -> u64 {
        let unlimited = if self.generates { usual.unwrap_or(OUTPUT_TOKENS) } else { 0 };
        let output = self.output.map_or(unlimited, |output| output.min(most));
        self.prompt.saturating_add(output.saturating_mul(self.choices))
    }
}
