//! How soon a place comes free at a backend, learned from the asks that are served there.
//!
//! By Little's law the asks in flight, summed over the time between two ends, are on average the
//! time that an ask stays. So no ask needs a clock of its own, and asks that have not ended count
//! with the time that they have been there. An ask that leaves without being served ends no stay:
//! a backend that fails its asks at once would look like one with places that come free soon.

use crate::time::{Span, Time};

/// The mean is that of the latest ends, about so many.
const ENDS: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turnover {
    /// How many asks have been served, as far as the mean needs to know.
    ends: u32,
    /// The mean time of an ask at the backend, in nanoseconds.
    stay: u64,
    /// The asks in flight since the last end, summed over the time, in nanoseconds.
    since_end: u64,
    /// Until when they are summed.
    at: Time,
}

// === impl Turnover ===

impl Turnover {
    /// The number of asks in flight is about to change.
    pub(crate) fn pass(&mut self, in_flight: u32, now: Time) {
        let passed = now.since(self.at).nanos().saturating_mul(u64::from(in_flight));
        self.since_end = self.since_end.saturating_add(passed);
        self.at = now;
    }

    /// One of the asks in flight has been served.
    pub(crate) fn ended(&mut self, in_flight: u32, now: Time) {
        self.pass(in_flight, now);
        self.ends = (self.ends + 1).min(ENDS);
        let part = |time: u64| time / u64::from(self.ends);
        self.stay = self.stay - part(self.stay) + part(self.since_end);
        self.since_end = 0;
    }

    /// Until when a place is expected to come free within this time; `None` if it is not, or if no
    /// ask has ended yet. If none ends for longer than usual, that time counts.
    pub(crate) fn expected_until(&self, in_flight: u32, within: Span) -> Option<Time> {
        let places = u64::from(in_flight.max(1));
        let is_soon = self.ends > 0 && self.stay / places < within.nanos();
        let passed = Span::from_nanos(self.since_end / places);
        is_soon.then(|| self.at.after(within).before(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn k02_a_place_comes_free_once_in_the_mean_stay_over_the_asks_in_flight() {
        let mut turnover = Turnover::default();
        turnover.pass(0, at(0));
        assert_eq!(turnover.expected_until(1, Span::from_secs(100)), None, "nothing has ended");
        for second in 1..=100 {
            // Four at a time, of which each stays for four seconds.
            turnover.ended(4, at(1000 * second));
            turnover.pass(3, at(1000 * second));
        }
        let expected = |in_flight, millis| {
            turnover.expected_until(in_flight, Span::from_millis(millis)).is_some()
        };
        assert_eq!([expected(4, 999), expected(4, 1001)], [false, true]);
        assert_eq!([expected(8, 499), expected(8, 501)], [false, true]);
    }

    #[test]
    fn k02_the_first_ends_count_alike() {
        let mut turnover = Turnover::default();
        turnover.pass(0, at(0));
        turnover.ended(3, at(1000));
        turnover.ended(2, at(1000));
        turnover.ended(1, at(1000));
        assert!(turnover.expected_until(1, Span::from_millis(1001)).is_some(), "one second each");
        assert!(turnover.expected_until(1, Span::from_millis(999)).is_none());
    }

    #[test]
    fn k02_if_no_ask_ends_for_long_no_place_is_expected() {
        let mut turnover = Turnover::default();
        turnover.pass(0, at(0));
        turnover.ended(1, at(100));
        turnover.pass(0, at(5000));
        let within = Span::from_millis(800);
        assert_eq!(turnover.expected_until(1, within), Some(at(5800)));
        // One ask has been there for half a second when another one comes.
        turnover.pass(1, at(5500));
        assert_eq!(turnover.expected_until(1, within), Some(at(5800)));
        assert_eq!(turnover.expected_until(2, within), Some(at(6050)));
    }

    #[test]
    fn k02_the_longest_times_do_no_harm() {
        let mut turnover = Turnover::default();
        turnover.ended(u32::MAX, Time::NEVER);
        turnover.ended(u32::MAX, Time::NEVER);
        assert_eq!(turnover.expected_until(0, Span::from_secs(1)), None);
        assert_eq!(turnover.expected_until(1, Span::FOREVER), Some(Time::NEVER));
    }
}
