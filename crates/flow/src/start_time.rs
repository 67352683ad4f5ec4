//! The time from the grant of an ask to its first token, over the backends of a domain.
//!
//! In a lasting overload asks are granted at the last moment, and must still make their objective.
//! So an objective leaves room for a time that most asks keep: the mean and the mean deviation.

use crate::time::Span;

/// The weight of one first token in the moving means.
const STEP: f64 = 0.05;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartTime {
    count: u32,
    /// In seconds, as the deviation.
    mean: f64,
    deviation: f64,
}

// === impl StartTime ===

impl StartTime {
    pub(crate) fn learn(&mut self, took: Span) {
        let took = took.secs_f64();
        self.count = self.count.saturating_add(1);
        // The first values count equally, so that the mean does not start from a single value.
        let step = (1.0 / f64::from(self.count)).max(STEP);
        self.deviation += ((took - self.mean).abs() - self.deviation) * step;
        self.mean += (took - self.mean) * step;
    }

    /// The mean; zero before the first token.
    pub(crate) fn mean(&self) -> Span {
        Span::from_secs_f64(self.mean)
    }

    /// The part of an objective that is kept for the time from grant to first token, in units of
    /// 1024 ns. Before the first token it is a quarter of the objective. It is never more than
    /// three quarters: where starts are slow, order still counts.
    pub(crate) fn kept(&self, objective: Span) -> u32 {
        let quarter = objective.nanos() / 4;
        let start = match self.count {
            0 => quarter,
            _ => Span::from_secs_f64(self.mean + self.deviation).nanos(),
        };
        let kept = start.min(objective.nanos() - quarter) >> 10;
        kept.min(u64::from(u32::MAX)) as u32
    }
}
