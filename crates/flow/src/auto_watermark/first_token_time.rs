//! The time to first token at one backend, as a quick moving mean, which tells the tuners how long
//! a start takes now. Routing has a steadier one of its own.

use crate::time::Span;

/// The assumed time before a first token was seen.
const UNKNOWN: Span = Span::from_millis(500);
const QUICK: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstTokenTimes {
    count: u32,
    quick: f64,
    /// The quick mean of the prompts' tokens.
    prompt: f64,
}

// === impl FirstTokenTimes ===

impl FirstTokenTimes {
    pub(super) fn learn(&mut self, took: Span, prompt: u64) {
        let took = took.secs_f64();
        self.count = self.count.saturating_add(1);
        // The first values count equally, so that the mean does not start from a single value.
        let even = 1.0 / f64::from(self.count);
        self.quick += (took - self.quick) * even.max(QUICK);
        self.prompt += (prompt as f64 - self.prompt) * even.max(QUICK);
    }

    pub(super) const fn is_known(&self) -> bool {
        self.count > 0
    }

    pub(super) fn usual(&self) -> Span {
        if self.count == 0 { UNKNOWN } else { Span::from_secs_f64(self.quick) }
    }

    /// The quick means of the time and of the prompt's tokens; `None` before the first token.
    pub(super) fn seen(&self) -> Option<(Span, u64)> {
        self.is_known().then(|| (self.usual(), self.prompt.round() as u64))
    }
}
