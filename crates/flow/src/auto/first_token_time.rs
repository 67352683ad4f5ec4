//! How long asks take to their first token at one backend.
//!
//! It depends on the prompt as much as on the engine, so one mean must be quick and another steady:
//! laws want to know how long a start takes now, routing whether this backend is slower than its
//! neighbours and not whether its last prompt was long.

use crate::time::{Span, Time};

/// What a start is taken to last before one was seen.
const UNKNOWN: Span = Span::from_millis(500);
const QUICK: f64 = 0.1;
const STEADY: f64 = 0.02;
/// What was not seen for this long is not known any more: a backend that is avoided for it would be
/// avoided for ever.
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

// === impl Starts ===

impl FirstTokenTimes {
    pub(super) fn learn(&mut self, took: Span, prompt: u64, now: Time) {
        let took = took.secs_f64();
        self.count = self.count.saturating_add(1);
        // The first ones count alike: a mean must not begin with whatever came first.
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

    /// How long a start takes now, and after how long a prompt; nothing before one was seen.
    pub(super) fn seen(&self) -> Option<(Span, u64)> {
        self.is_known().then(|| (self.usual(), self.prompt.round() as u64))
    }

    pub(super) fn steady(&self, now: Time) -> Option<Span> {
        let known = self.count > 0 && now.since(self.seen) <= MEMORY;
        known.then(|| Span::from_secs_f64(self.steady))
    }
}
