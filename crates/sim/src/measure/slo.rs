//! The latencies of a request, and the objective that a good response keeps.

use flow::Span;

use super::{Outcome, Record};

/// What an answer must keep to be a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The longest time to the first token.
    pub ttft: Span,
    /// The longest mean time from token to token after it.
    pub tpot: Span,
}

// === impl Slo ===

impl Default for Slo {
    fn default() -> Self {
        Self { ttft: Span::from_secs(2), tpot: Span::from_millis(100) }
    }
}

impl Slo {
    /// Whether a request was answered in full and in time.
    pub fn is_kept_by(&self, record: &Record) -> bool {
        let slow = record.tpot().is_some_and(|tpot| tpot > self.tpot);
        !slow && record.began_within(self.ttft)
    }
}

// === impl Record ===

impl Record {
    /// From arrival to the first token, if that came.
    pub fn ttft(&self) -> Option<Span> {
        (self.streamed > 0).then(|| self.first.since(self.arrival))
    }

    /// Whether it was answered in full, and its first token came within this time.
    pub fn began_within(&self, limit: Span) -> bool {
        self.outcome == Outcome::Served && self.ttft().is_some_and(|ttft| ttft <= limit)
    }

    /// The mean time from token to token after the first, where all of two or more came.
    pub fn tpot(&self) -> Option<Span> {
        let steps = u64::from(self.streamed.checked_sub(1)?);
        let served = self.outcome == Outcome::Served;
        let nanos = self.end.since(self.first).nanos().checked_div(steps)?;
        served.then(|| Span::from_nanos(nanos))
    }

    /// From arrival to the last token, where all came.
    pub fn latency(&self) -> Option<Span> {
        (self.outcome == Outcome::Served).then(|| self.end.since(self.arrival))
    }

    /// From arrival until it was last sent to an engine, if it was.
    pub fn wait(&self) -> Option<Span> {
        self.engine.map(|_| self.sent.since(self.arrival))
    }
}
