//! What of ours is under way, now and of late.
//!
//! A reading is of a moment that has passed, so it must be known how much was there then. The past
//! is kept in stretches of time: as many as there are grains in the time that is remembered,
//! however much happens.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// Stretches in the time that is remembered.
const GRAINS: u64 = 1024;

#[derive(Clone, Debug)]
pub(super) struct InFlightHistory {
    count: u64,
    /// All sizes that were ever taken and that have ended; their difference is under way.
    taken: u128,
    ended: u128,
    /// Never empty.
    past: VecDeque<Interval>,
    memory: Span,
}

/// A time in which something changed, and the steady time after it up to the next one.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from: Time,
    /// The last change.
    until: Time,
    /// The most that was under way from just before it on.
    most: u64,
    /// Taken and ended by its end.
    taken: u128,
    ended: u128,
}

/// Between which two moments a reading was taken, and how long a request or the news of its end may
/// be on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingWindow {
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) transit: Span,
}

// === impl Flight ===

impl InFlightHistory {
    pub(super) fn remembering(memory: Span) -> Self {
        let begin = Interval { from: Time::ZERO, until: Time::ZERO, most: 0, taken: 0, ended: 0 };
        Self { count: 0, taken: 0, ended: 0, past: VecDeque::from([begin]), memory }
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
        // A size that no longer fits is as good as one that just does.
        self.taken += u128::from(size.min(u64::MAX - before));
        self.note(before, now);
    }

    pub(super) fn ended(&mut self, size: u64, now: Time) {
        let before = self.size();
        self.count = self.count.saturating_sub(1);
        // With nothing under way nothing is left, whatever was said of its size.
        self.ended += u128::from(if self.count == 0 { before } else { size.min(before) });
        self.note(before, now);
    }

    fn note(&mut self, before: u64, now: Time) {
        let most = before.max(self.size());
        let (taken, ended) = (self.taken, self.ended);
        let grain = Span::from_nanos(self.memory.nanos() / GRAINS);
        match self.past.back_mut() {
            // A clock that stands still or jumps back changes the same moment again.
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

    /// The least and the most of ours that can have been there, at any moment of a window: what had
    /// been sent long enough before and was not heard of soon after, and all that was under way.
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
        // Before all that is remembered there is no telling.
        if least > most { (0, most.max(self.size())) } else { (least, most) }
    }

    /// What was there all the time between two moments.
    fn sure(&self, from: Time, to: Time, transit: Span) -> u64 {
        let sent = Time::from_nanos(from.nanos().saturating_sub(transit.nanos()));
        let sent = self.past.partition_point(|interval| interval.until <= sent);
        let taken = sent.checked_sub(1).map_or(0, |at| self.past[at].taken);
        let heard = self.past.partition_point(|interval| interval.from <= to.after(transit));
        let ended = self.past[heard.saturating_sub(1)].ended;
        taken.saturating_sub(ended) as u64
    }
}

// === impl Stretch ===

impl Interval {
    /// Under way after it.
    fn held(&self) -> u64 {
        (self.taken - self.ended) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long and however busily it goes on, what is remembered stays small.
    #[test]
    fn d03_the_past_is_bounded() {
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
    fn d03_of_a_time_that_is_forgotten_nothing_is_sure() {
        let mut history = InFlightHistory::remembering(Span::from_secs(1));
        (1..100).for_each(|second| history.take(1, Time::from_millis(second * 1000)));
        let early = Time::from_millis(1500);
        let window = ReadingWindow { from: early, to: early, transit: Span::ZERO };
        assert_eq!(history.seen(window), (0, 99));
    }
}
