//! How long each bound has kept asks waiting.

use super::AutoBound;
use crate::time::Time;

/// The time for which each bound closed the backend while an ask waited, since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockedTime {
    blocking: Option<AutoBound>,
    noted: Time,
    sampled_at: Time,
    closed: [u64; 4],
}

/// The bounds that *bind*: they kept asks waiting for more than half of the time since the last
/// sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Binding([bool; 4]);

// === impl BlockedTime ===

impl BlockedTime {
    pub(super) fn note(&mut self, blocking: Option<AutoBound>, now: Time) {
        self.accumulate(now);
        self.blocking = blocking;
    }

    pub(super) const fn sampled_at(&self) -> Time {
        self.sampled_at
    }

    pub(super) fn since_last_sample(&mut self, now: Time) -> Binding {
        self.accumulate(now);
        let half = now.since(self.sampled_at).nanos() / 2;
        let binding = Binding(self.closed.map(|nanos| nanos > half));
        self.closed = [0; 4];
        self.sampled_at = now;
        binding
    }

    fn accumulate(&mut self, now: Time) {
        if let Some(bound) = self.blocking {
            self.closed[bound as usize] += now.since(self.noted).nanos();
        }
        self.noted = now;
    }
}

// === impl Binding ===

impl Binding {
    pub(super) const fn on(self, bound: AutoBound) -> bool {
        self.0[bound as usize]
    }
}
