//! The largest value of the last while.

use crate::time::{Span, Time};

/// A maximum over a window, kept as two halves of it: what is older than the window is forgotten,
/// what is younger than half of it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowedMax {
    half: Span,
    since: Time,
    current: u32,
    previous: u32,
}

// === impl Peak ===

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

    /// The largest value of the last two halves that were noted in, whenever that was.
    pub(super) fn last(&self) -> u32 {
        self.current.max(self.previous)
    }

    fn roll(&mut self, now: Time) {
        let age = now.since(self.since).nanos() / self.half.nanos();
        if age == 0 {
            return;
        }
        self.previous = if age == 1 { self.current } else { 0 };
        self.current = 0;
        self.since = now;
    }
}
