//! The maximum of a value over a recent window.

use crate::time::{Span, Time};

/// A maximum over a window that is kept in two halves: values older than the window are dropped,
/// values younger than half of it are always included.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowedMax {
    half: Span,
    since: Time,
    current: u32,
    previous: u32,
}

// === impl WindowedMax ===

impl WindowedMax {
    pub(super) const fn over(half: Span) -> Self {
        Self { half, since: Time::ZERO, current: 0, previous: 0 }
    }

    pub(super) fn push(&mut self, value: u32, now: Time) {
        self.roll(now);
        self.current = self.current.max(value);
    }

    pub(super) fn at(&mut self, now: Time) -> u32 {
        self.roll(now);
        self.current.max(self.previous)
    }

    fn roll(&mut self, now: Time) {
        let age = now.since(self.since);
        if age < self.half {
            return;
        }
        let adjacent = age.nanos() - self.half.nanos() < self.half.nanos();
        self.previous = if adjacent { self.current } else { 0 };
        self.current = 0;
        self.since = now;
    }
}
