//! A moment that outlives the process.

use std::time::Duration;

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

// === impl Moment ===

impl Moment {
    /// A moment so many milliseconds after 1970 began.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A moment so many seconds after 1970 began.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since 1970 began.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970 began.
    pub const fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// So much later.
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// How long ago `earlier` was; nothing when it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
