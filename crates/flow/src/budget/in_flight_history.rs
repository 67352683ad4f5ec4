//! The load of the dispatcher's own requests in flight, now and in the recent past.
//!
//! A reading describes a moment in the past, so the budget must know how much was in flight then.
//! The history is kept in intervals. Their number is bounded, however many requests there are.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// The number of intervals in the remembered time.
const GRAINS: u64 = 1024;

#[derive(Clone, Debug)]
pub(super) struct InFlightHistory {
    count: u64,
    /// The sums of all sizes ever taken and ever ended; their difference is in flight.
    taken: u128,
    ended: u128,
    /// Never empty.
    past: VecDeque<Interval>,
    memory: Span,
}

/// A time with changes, and the time without changes up to the next interval.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from: Time,
    /// The last change.
    until: Time,
    /// The maximum in flight, including the moment just before the interval.
    most: u64,
    /// The sums at the end of the interval.
    taken: u128,
    ended: u128,
}

/// The interval that a reading is from, and the longest time in transit of a request or of the news
/// of its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingWindow {
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) transit: Span,
}

// === impl InFlightHistory ===

impl InFlightHistory {
    pub(super) fn remembering(memory: Span) -> Self {
        let begin = Interval { from: Time::ZERO, until: Time::ZERO, most: 0, taken: 0, ended: 0 };
        Self { count: 0, taken: 0, ended: 0, past: VecDeque::from([begin]), memory }
    }

    /// Changes how long it remembers. What is forgotten already stays forgotten.
    pub(super) fn remember(&mut self, memory: Span) {
        self.memory = memory;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn size(&self) -> u64 {
        (self.taken - self.ended) as u64
    }

    pub(super) fn take(&mut self, size: u64, now: Time) {
        let before = self.size();
        self.count += 1;
        // The sum saturates: a size that no longer fits counts as the largest that does.
        self.taken += u128::from(size.min(u64::MAX - before));
        self.note(before, now);
    }

    pub(super) fn ended(&mut self, size: u64, now: Time) {
        let before = self.size();
        self.count = self.count.saturating_sub(1);
        // With no request in flight the load is zero, whatever sizes were reported.
        self.ended += u128::from(if self.count == 0 { before } else { size.min(before) });
        self.note(before, now);
    }

    fn note(&mut self, before: u64, now: Time) {
        let most = before.max(self.size());
        let (taken, ended) = (self.taken, self.ended);
        let grain = Span::from_nanos(self.memory.nanos() / GRAINS);
        match self.past.back_mut() {
            // A clock that stands still or jumps back changes the last interval.
            Some(last) if now <= last.until || now.since(last.from) < grain => {
                let (until, most) = (last.until.max(now), last.most.max(most));
                *last = Interval { from: last.from, until, most, taken, ended };
            }
            _ => {
                self.past.push_back(Interval { from: now, until: now, most, taken, ended });
                self.forget(now);
            }
        }
    }

    fn forget(&mut self, now: Time) {
        while self.past.get(1).is_some_and(|next| now.since(next.from) > self.memory) {
            self.past.pop_front();
        }
    }

    /// The least and the most of our own load that a reading from the window can show. The least
    /// was sent long enough before and did not end soon after; the most is all that was in flight.
    pub(super) fn seen(&self, window: ReadingWindow) -> (u64, u64) {
        let ReadingWindow { from, to, transit } = window;
        let (mut least, mut most) = (u64::MAX, 0);
        let mut end = to;
        for interval in self.past.iter().rev().filter(|interval| interval.from <= to) {
            let begin = interval.from.max(from);
            least = least.min(self.sure(begin, end, transit));
            most = most.max(if from > interval.until { interval.held() } else { interval.most });
            if interval.from <= from {
                break;
            }
            end = interval.from;
        }
        // Before the remembered time nothing is certain.
        if least > most { (0, most.max(self.size())) } else { (least, most) }
    }

    /// The load that was certainly there for the whole time between two moments.
    fn sure(&self, from: Time, to: Time, transit: Span) -> u64 {
        let sent = Time::from_nanos(from.nanos().saturating_sub(transit.nanos()));
        let sent = self.past.partition_point(|interval| interval.until <= sent);
        let taken = sent.checked_sub(1).map_or(0, |at| self.past[at].taken);
        let heard = self.past.partition_point(|interval| interval.from <= to.after(transit));
        let ended = self.past[heard.saturating_sub(1)].ended;
        taken.saturating_sub(ended) as u64
    }
}

// === impl Interval ===

impl Interval {
    /// In flight at the end of the interval.
    fn held(&self) -> u64 {
        (self.taken - self.ended) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The history stays small, however long it runs and however many requests there are.
    #[test]
    fn d03_the_history_is_bounded() {
        for pause in [1, 1_000, 1_000_000, 50_000_000] {
            let mut history = InFlightHistory::remembering(Span::from_secs(20));
            let mut now = Time::ZERO;
            for _ in 0..20_000 {
                now = now.after(Span::from_nanos(pause));
                history.take(1, now);
                history.ended(1, now);
            }
            assert!(history.past.len() <= GRAINS as usize + 2, "{}", history.past.len());
            let kept = now.since(history.past[0].from).min(Span::from_secs(20));
            assert!(kept >= Span::from_nanos(20_000 * pause).min(Span::from_secs(20)));
        }
    }

    #[test]
    fn d03_nothing_is_certain_before_the_remembered_time() {
        let mut history = InFlightHistory::remembering(Span::from_secs(1));
        (1..100).for_each(|second| history.take(1, Time::from_millis(second * 1000)));
        let early = Time::from_millis(1500);
        let window = ReadingWindow { from: early, to: early, transit: Span::ZERO };
        assert_eq!(history.seen(window), (0, 99));
    }
}
