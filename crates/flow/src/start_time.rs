//! The time from the grant of an ask to its first token, over the backends of a domain.
//!
//! In a lasting overload asks are granted at the last moment, and must still make their objective.
//! So an objective leaves room for a time that nearly all asks keep: the mean and three mean
//! deviations.

use crate::time::Span;

/// The weight of one first token in the moving means.
const STEP: f64 = 0.05;
/// Few starts take longer than the mean and so many mean deviations.
const DEVIATIONS: f64 = 3.0;

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
    /// 1024 ns. Before the first token it is a quarter of the objective. Later it is the time that
    /// nearly all starts keep, up to that quarter. More would cost the time that asks may wait, so
    /// beyond a quarter one deviation must do. It is never more than three quarters: where starts
    /// are slow, order still counts.
    pub(crate) fn kept(&self, objective: Span) -> u32 {
        let quarter = objective.nanos() / 4;
        let start = match self.count {
            0 => quarter,
            _ => self.within(DEVIATIONS).min(quarter).max(self.within(1.0)),
        };
        let kept = start.min(objective.nanos() - quarter) >> 10;
        kept.min(u64::from(u32::MAX)) as u32
    }

    /// The mean and so many deviations, in nanoseconds.
    fn within(&self, deviations: f64) -> u64 {
        Span::from_secs_f64(self.mean + deviations * self.deviation).nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::StartTime;
    use crate::time::Span;

    const OBJECTIVE: Span = Span::from_millis(2000);

    /// The milliseconds that are kept of the objective if starts take one of these times in turn.
    fn kept(times: [u64; 2]) -> u64 {
        let mut start_time = StartTime::default();
        for _ in 0..100 {
            times.iter().for_each(|&millis| start_time.learn(Span::from_millis(millis)));
        }
        (u64::from(start_time.kept(OBJECTIVE)) << 10) / 1_000_000
    }

    #[test]
    fn o03_an_objective_leaves_room_for_nearly_all_starts() {
        assert_eq!(StartTime::default().kept(OBJECTIVE) >> 10, 476, "a quarter, before any start");
        assert_eq!(kept([100, 100]), 100);
        assert!(
            (245..265).contains(&kept([50, 150])),
            "mean 100, deviation about 50: three of them"
        );
        assert!((498..=500).contains(&kept([200, 400])), "no more than a quarter of the objective");
        assert!((1000..1250).contains(&kept([600, 1000])), "one deviation beyond a quarter");
        assert_eq!(kept([5000, 5000]), 1499, "never more than three quarters");
    }
}
