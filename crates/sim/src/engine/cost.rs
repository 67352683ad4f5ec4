//! How long one step of a batching engine takes.
//!
//! A step reads all weights once and computes every token in it, whichever takes longer; attention
//! comes on top. Seven constants per model and card reproduce recorded vLLM runs within 5 %.

use flow::Span;

/// The constants of one model on one card, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Reading the weights, whatever the batch.
    pub base: f64,
    /// Per token on top of `base` while the step is bound by memory.
    pub token: f64,
    /// Per token when the step is bound by arithmetic.
    pub compute: f64,
    /// Per context token of the sequences that decode: reading their KV cache.
    pub context: f64,
    /// Per sequence that decodes.
    pub sequence: f64,
    /// Per pair of tokens that attend to each other in a prefill.
    pub attention: f64,
    /// Scheduling, sampling and launching, once a step.
    pub overhead: f64,
}

/// What one step has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Tokens computed.
    pub(super) tokens: u32,
    decoding: u32,
    context: u64,
    /// Twice the pairs of tokens in prefill attention: whole numbers can be taken back exactly.
    double_pairs: u64,
}

// === impl Load ===

impl Load {
    /// Adds a chunk that follows `before` computed tokens of its sequence.
    pub(super) fn add(&mut self, before: u32, chunk: u32, decodes: bool) {
        self.tokens += chunk;
        if decodes {
            self.decoding += 1;
            self.context += u64::from(before);
        } else {
            self.double_pairs += double_pairs(before, chunk);
        }
    }

    /// Takes back what [`Load::add`] added.
    pub(super) fn remove(&mut self, before: u32, chunk: u32, decodes: bool) {
        self.tokens -= chunk;
        if decodes {
            self.decoding -= 1;
            self.context -= u64::from(before);
        } else {
            self.double_pairs -= double_pairs(before, chunk);
        }
    }
}

/// Each token of a chunk attends to all before the chunk and, on average, to half of the chunk.
fn double_pairs(before: u32, chunk: u32) -> u64 {
    u64::from(chunk) * (u64::from(chunk) + 2 * u64::from(before))
}

// === impl StepCost ===

impl StepCost {
    /// The constants with their names, for checking.
    pub(super) fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("step.base", self.base),
            ("step.token", self.token),
            ("step.compute", self.compute),
            ("step.context", self.context),
            ("step.sequence", self.sequence),
            ("step.attention", self.attention),
            ("step.overhead", self.overhead),
        ]
    }

    /// How long a step with this load takes on a machine `factor` times as slow.
    pub(super) fn span(&self, load: &Load, factor: f64) -> Span {
        let tokens = f64::from(load.tokens);
        let matrices = (self.base + self.token * tokens).max(self.compute * tokens);
        let decode = self.context * load.context as f64 + self.sequence * f64::from(load.decoding);
        let prefill = self.attention * load.double_pairs as f64 / 2.0;
        let millis = matrices + decode + prefill + self.overhead;
        Span::from_secs_f64(millis * factor / 1000.0)
    }
}
