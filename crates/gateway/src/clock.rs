//! The clocks. No other module reads them.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use flow::{Span, Time};
use rustix::time::{ClockId, clock_gettime};
use store::Moment;

use crate::steady_date::{Clocks, SteadyDate};

/// The date since the process read the clocks first.
static DATE: LazyLock<SteadyDate> = LazyLock::new(|| SteadyDate::new(clocks()));

/// The monotonic clock that goes on while the machine is suspended. On Linux `Instant` stands still
/// meanwhile, so each suspension would look like a jump of the system's clock.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// The time since the process started, for the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

// === impl Clock ===

impl Clock {
    pub(crate) fn start() -> Self {
        // A later jump of the system's clock is seen from here on.
        LazyLock::force(&DATE);
        Self { began: now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// A time of the core as the runtime's timers take it.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        let since = Duration::from_nanos(time.nanos());
        // A year is as good as never; the sum must not overflow.
        let far = Duration::from_secs(365 * 24 * 3600);
        tokio::time::Instant::from_std(self.began + since.min(far))
    }
}

/// A span of the core as the runtime's timers take it.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.nanos())
}

/// A duration of the runtime as the core takes it.
pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(nanos(duration))
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time since 1970 by the system's clock, which may jump: for logs, and for the
/// age of numbers that other machines have dated.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The seconds since 1970 for quotas and accounts: without jumps of the system's clock.
pub(crate) fn date_secs() -> u64 {
    DATE.secs(clocks())
}

fn clocks() -> Clocks {
    let monotonic = u64::try_from(clock_gettime(SINCE_BOOT).tv_sec).unwrap_or_default();
    Clocks { monotonic, system: since_epoch().as_secs() }
}

/// The time since 1970 for deadlines that outlive the process, such as those of batches.
pub(crate) fn moment() -> Moment {
    Moment::from_millis(u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel counts its uptime with the time in which the machine was suspended.
    #[test]
    #[cfg(target_os = "linux")]
    fn x05_the_clock_of_the_date_goes_on_while_the_machine_is_suspended() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split('.').next().unwrap().parse::<u64>().unwrap()
        };
        let (before, monotonic, after) = (uptime(), clocks().monotonic, uptime());
        assert!((before..=after).contains(&monotonic), "{before} to {after} s: {monotonic} s");
    }
}
