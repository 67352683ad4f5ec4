//! How long a backend takes to respond, as routing compares backends.
//!
//! The time to the first token depends on the engine, and on the prompt. A response in one piece
//! shows no first token: its time depends on its length as much, so it takes no part in scores. But
//! a client's limit of latency means what clients have seen, and where nothing streams they have
//! seen whole responses.

use crate::time::{Span, Time};

/// The weight of one response in a mean. One long prompt should not make a backend slow.
const STEP: f64 = 0.02;
/// A mean is dropped after this long without a response. Otherwise routing would avoid a backend
/// for an old measurement, and never measure it again.
const MEMORY: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latency {
    /// The time to the first token of streams.
    pub(crate) first_token: MeanTime,
    /// The time to the end of responses in one piece.
    pub(crate) whole: MeanTime,
}

/// A moving mean of times at a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanTime {
    count: u32,
    secs: f64,
    seen: Time,
}

// === impl MeanTime ===

impl MeanTime {
    pub(crate) fn learn(&mut self, took: Span, now: Time) {
        self.count = self.count.saturating_add(1);
        // The first values count equally, so that the mean does not start from a single value.
        let even = 1.0 / f64::from(self.count);
        self.secs += (took.secs_f64() - self.secs) * even.max(STEP);
        self.seen = now;
    }

    /// In milliseconds; `None` if there is none, or the last one is too old.
    pub(crate) fn millis(&self, now: Time) -> Option<f32> {
        let known = self.count > 0 && now.since(self.seen) <= MEMORY;
        known.then_some((self.secs * 1e3) as f32)
    }
}
