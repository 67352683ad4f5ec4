//! The clocks. No other module reads them.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use flow::{Span, Time};
use store::Moment;

use crate::steady_date::{Clocks, SteadyDate};

/// When the process read the clocks first, and the date since then.
static DATE: LazyLock<(Instant, SteadyDate)> = LazyLock::new(|| {
    let began = now();
    (began, SteadyDate::new(clocks(began)))
});

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
    let (began, date) = &*DATE;
    date.secs(clocks(*began))
}

fn clocks(began: Instant) -> Clocks {
    Clocks { monotonic: began.elapsed().as_secs(), system: since_epoch().as_secs() }
}

/// The time since 1970 for deadlines that outlive the process, such as those of batches.
pub(crate) fn moment() -> Moment {
    Moment::from_millis(u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn now() -> Instant {
    Instant::now()
}
