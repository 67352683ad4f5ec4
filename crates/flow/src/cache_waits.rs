//! What waiting for the cache of a backend has won and lost lately, and whether asks wait for it.
//!
//! Whether a place comes free in time, and whether the prompt is still cached then, is a guess. So
//! each wait is measured when it is over. Where waits lose more than they win no ask waits, and
//! after a pause it is tried again. Each trial that loses doubles the pause.

use crate::time::{Span, Time};

/// The part of the balance that each wait takes away: about so many waits are remembered.
const REMEMBERED: i64 = 8;
const PAUSE_MIN: Span = Span::from_secs(10);
const PAUSE_MAX: Span = Span::from_secs(640);

#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheWaits {
    /// What the latest waits have won, less what they have lost, in nanoseconds.
    balance: i64,
    /// The length of the next pause.
    pause: Span,
    paused_until: Time,
}

// === impl CacheWaits ===

impl Default for CacheWaits {
    fn default() -> Self {
        Self { balance: 0, pause: PAUSE_MIN, paused_until: Time::ZERO }
    }
}

impl CacheWaits {
    /// Whether an ask may wait.
    pub(crate) fn are_worth_it(&self, now: Time) -> bool {
        now >= self.paused_until
    }

    /// A wait is over, which saved so much. Returns whether a pause begins.
    pub(crate) fn ended(&mut self, waited: Span, saved: Span, now: Time) -> bool {
        let [waited, saved] =
            [waited, saved].map(|span| i64::try_from(span.nanos()).unwrap_or(i64::MAX));
        let won = saved.saturating_sub(waited);
        if won > 0 {
            self.pause = PAUSE_MIN;
        }
        self.balance = (self.balance - self.balance / REMEMBERED).saturating_add(won);
        let loses = self.balance < 0;
        if loses {
            self.balance = 0;
            self.paused_until = now.after(self.pause);
            self.pause = Span::from_nanos(2 * self.pause.nanos()).min(PAUSE_MAX);
        }
        loses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Span = Span::ZERO;

    fn secs(secs: u64) -> Span {
        Span::from_secs(secs)
    }

    #[test]
    fn k02_waits_that_lose_stop_and_are_tried_again_ever_more_rarely() {
        let mut waits = CacheWaits::default();
        let (mut now, mut lost) = (Time::ZERO, 0);
        for pause in [10, 20, 40, 80, 160, 320, 640, 640, 640] {
            assert!(waits.are_worth_it(now));
            assert!(waits.ended(secs(1), NONE, now));
            lost += 1;
            let end = now.after(secs(pause));
            assert!(!waits.are_worth_it(end.before(Span::from_nanos(1))), "after {lost} s lost");
            assert!(waits.are_worth_it(end));
            now = end;
        }
        // A trial that wins makes the next pause short again.
        assert!(!waits.ended(NONE, secs(1), now));
        assert!(waits.ended(secs(5), NONE, now));
        assert!(waits.are_worth_it(now.after(secs(10))));
    }

    #[test]
    fn k02_waits_that_win_more_than_they_lose_go_on() {
        let mut waits = CacheWaits::default();
        for _ in 0..1000 {
            assert!(!waits.ended(Span::from_millis(500), secs(3), Time::ZERO));
            assert!(!waits.ended(secs(2), NONE, Time::ZERO));
        }
        let mut losses = 1;
        while !waits.ended(secs(3), NONE, Time::ZERO) {
            losses += 1;
        }
        assert!(losses <= 8, "{losses}: what was won long ago does not count");
    }
}
