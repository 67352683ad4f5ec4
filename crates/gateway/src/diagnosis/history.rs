//! The last hour in a few numbers, so that a page that is opened during an incident shows how it
//! began.

use std::collections::VecDeque;

use flow::{Span, Time};
use serde::Serialize;

use super::situation::Situation;

/// The time between two points, and how many make an hour.
const POINT_EVERY: Span = Span::from_millis(4900);
const POINTS_MAX: usize = 720;

/// See the module documentation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct History {
    samples: VecDeque<HistoryPoint>,
    #[serde(skip)]
    last: Option<Time>,
}

/// The state at one moment. The names are those of the page's charts.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct HistoryPoint {
    /// Seconds since 1970.
    t: f64,
    stock: f64,
    watermark: f64,
    arriving: f64,
    starting: f64,
    refused: f64,
    waiting_critical: u32,
    waiting_high: u32,
    waiting_normal: u32,
    waiting_best_effort: u32,
    oldest_critical: f64,
    oldest_high: f64,
    oldest_normal: f64,
    oldest_best_effort: f64,
}

// === impl History ===

impl History {
    /// Adds a point, if it is time for one.
    pub(super) fn add(&mut self, situation: &Situation, now: Time) {
        if self.last.is_some_and(|last| now.since(last) < POINT_EVERY) {
            return;
        }
        self.last = Some(now);
        self.samples.push_back(HistoryPoint::of(situation));
        if self.samples.len() > POINTS_MAX {
            self.samples.pop_front();
        }
    }
}

// === impl HistoryPoint ===

impl HistoryPoint {
    fn of(situation: &Situation) -> Self {
        let band = |name: &str| situation.bands.iter().find(|band| band.name == name);
        let waiting = |name: &str| band(name).map_or(0, |band| band.waiting);
        let oldest = |name: &str| band(name).and_then(|band| band.oldest_seconds).unwrap_or(0.0);
        Self {
            t: situation.time,
            stock: situation.stock.now,
            watermark: situation.stock.watermark,
            arriving: situation.queue.arriving_per_second,
            starting: situation.queue.starting_per_second,
            refused: situation.bands.iter().map(|band| band.refused_per_second).sum(),
            waiting_critical: waiting("critical"),
            waiting_high: waiting("high"),
            waiting_normal: waiting("normal"),
            waiting_best_effort: waiting("best_effort"),
            oldest_critical: oldest("critical"),
            oldest_high: oldest("high"),
            oldest_normal: oldest("normal"),
            oldest_best_effort: oldest("best_effort"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_an_hour_is_kept_in_points_of_five_seconds() {
        let mut history = History::default();
        for second in 0..4000 {
            let situation = Situation { time: second as f64, ..Situation::default() };
            history.add(&situation, Time::from_millis(second * 1000));
        }
        assert_eq!(history.samples.len(), POINTS_MAX);
        assert_eq!(history.samples[0].t, 400.0);
        assert_eq!(history.samples[719].t, 3995.0);
    }
}
