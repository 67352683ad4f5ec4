//! The time to first token at one backend, as two moving means.
//!
//! The time depends on the prompt as much as on the engine. The quick mean tells the tuners how
//! long a start takes now. The steady mean tells routing whether this backend is slower than
//! others, and not whether its last prompt was long.

use crate::time::{Span, Time};

/// The assumed time before a first token was seen.
const UNKNOWN: Span = Span::from_millis(500);
const QUICK: f64 = 0.1;
const STEADY: f64 = 0.02;
/// The steady mean is dropped after this long without a first token. Otherwise routing would avoid
/// a backend for an old measurement, and never measure it again.
const MEMORY: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstTokenTimes {
    count: u32,
    quick: f64,
    steady: f64,
    /// The quick mean of the prompts' tokens.
    prompt: f64,
    seen: Time,
}

// === impl FirstTokenTimes ===

impl FirstTokenTimes {
    pub(super) fn learn(&mut self, took: Span, prompt: u64, now: Time) {
        let took = took.secs_f64();
        self.count = self.count.saturating_add(1);
        // The first values count equally, so that the mean does not start from a single value.
        let even = 1.0 / f64::from(self.count);
        self.quick += (took - self.quick) * even.max(QUICK);
        self.steady += (took - self.steady) * even.max(STEADY);
        self.prompt += (prompt as f64 - self.prompt) * even.max(QUICK);
        self.seen = now;
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

    pub(super) fn steady(&self, now: Time) -> Option<Span> {
        let known = self.count > 0 && now.since(self.seen) <= MEMORY;
        known.then(|| Span::from_secs_f64(self.steady))
    }
}
