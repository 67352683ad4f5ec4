//! The date for quotas and accounts: the system's clock, without its jumps.
//!
//! A clock that jumps must neither give tenants a new quota nor keep an old one in force. So the
//! date goes on with the monotonic clock, and follows the system's clock as long as the two agree.
//! When the system's clock jumps, the date goes on as before; if the jump lasts for an hour, it is
//! a correction, and the date follows. Pure: both clocks are arguments.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A smaller difference is no jump: clocks are corrected by some seconds all the time.
const JUMP_SECS: u64 = 300;
/// A jump that lasts for this long is a correction.
const LASTING_SECS: u64 = 3600;

#[derive(Debug)]
pub(crate) struct SteadyDate {
    /// The system's clock less the monotonic clock, as far as it is believed.
    offset: AtomicI64,
    /// Whether there is a doubt, which is behind the lock.
    doubted: AtomicBool,
    doubt: Mutex<Option<Doubt>>,
}

/// Another offset, which was seen since then by the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    offset: i64,
    since: u64,
}

/// Both clocks, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) monotonic: u64,
    /// Since 1970.
    pub(crate) system: u64,
}

// === impl SteadyDate ===

impl SteadyDate {
    pub(crate) fn new(clocks: Clocks) -> Self {
        let offset = AtomicI64::new(clocks.offset());
        Self { offset, doubted: AtomicBool::default(), doubt: Mutex::default() }
    }

    /// The date in seconds since 1970.
    pub(crate) fn secs(&self, clocks: Clocks) -> u64 {
        let (offset, believed) = (clocks.offset(), self.offset.load(Ordering::Relaxed));
        if !differ(offset, believed) {
            if offset != believed {
                self.offset.store(offset, Ordering::Relaxed);
            }
            if self.doubted.load(Ordering::Relaxed) {
                self.doubt(None);
            }
            return clocks.system;
        }
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = doubt.filter(|doubt| !differ(offset, doubt.offset));
        let since = seen.map_or(clocks.monotonic, |doubt| doubt.since);
        if clocks.monotonic.saturating_sub(since) < LASTING_SECS {
            *doubt = Some(Doubt { offset, since });
            self.doubted.store(true, Ordering::Relaxed);
            return clocks.monotonic.saturating_add_signed(believed);
        }
        drop(doubt);
        self.offset.store(offset, Ordering::Relaxed);
        self.doubt(None);
        clocks.system
    }

    fn doubt(&self, doubt: Option<Doubt>) {
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = doubt;
        self.doubted.store(doubt.is_some(), Ordering::Relaxed);
    }
}

fn differ(one: i64, other: i64) -> bool {
    one.abs_diff(other) > JUMP_SECS
}

// === impl Clocks ===

impl Clocks {
    fn offset(self) -> i64 {
        let signed = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX);
        signed(self.system).saturating_sub(signed(self.monotonic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;
    const DAY: u64 = 86_400;

    /// The dates, as seconds after the start, of these monotonic times and jumps of the system.
    fn dates(seen: &[(u64, i64)]) -> Vec<i64> {
        let at = |monotonic: u64, jump: i64| Clocks {
            monotonic,
            system: (START + monotonic).saturating_add_signed(jump),
        };
        let date = SteadyDate::new(at(0, 0));
        let after = |secs: u64| secs as i64 - START as i64;
        seen.iter().map(|&(monotonic, jump)| after(date.secs(at(monotonic, jump)))).collect()
    }

    #[test]
    fn x05_the_date_follows_a_clock_that_does_not_jump() {
        assert_eq!(dates(&[(0, 0), (10, 0), (90_000, 0)]), [0, 10, 90_000]);
        // A clock that is corrected a little each day.
        assert_eq!(dates(&[(100, 200), (200, 400), (300, 150)]), [300, 600, 450]);
    }

    #[test]
    fn x05_a_jump_moves_the_date_only_if_it_lasts() {
        for jump in [DAY as i64, -(DAY as i64), 400 * DAY as i64, -(START as i64)] {
            let seen = dates(&[(10, jump), (3000, jump), (3609, jump), (3700, 0), (7200, 0)]);
            assert_eq!(seen, [10, 3000, 3609, 3700, 7200], "{jump}: it ended");
            let seen = dates(&[(10, jump), (3610, jump), (3620, jump)]);
            assert_eq!(seen[0], 10);
            assert_eq!(seen[1..], [3610 + jump, 3620 + jump].map(|secs| secs.max(-(START as i64))));
        }
    }

    #[test]
    fn x05_a_clock_that_jumps_again_and_again_is_not_believed() {
        let day = DAY as i64;
        let jumps: Vec<(u64, i64)> =
            (0..100).map(|hour| (hour * 1800, if hour % 2 == 0 { day } else { 2 * day })).collect();
        let steady: Vec<i64> = (0..100).map(|hour| hour * 1800).collect();
        assert_eq!(dates(&jumps), steady);
        // A jump that ended is forgotten.
        let seen = dates(&[(0, day), (3599, day), (3600, 0), (7000, day), (10_599, day)]);
        assert_eq!(seen, [0, 3599, 3600, 7000, 10_599]);
    }
}
