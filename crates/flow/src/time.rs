//! Time as an argument.
//!
//! The core never reads a clock: every verb takes `now`, and deadlines are return values. Integer
//! nanoseconds make simulation and production exactly the same.

/// A moment, in nanoseconds since an origin that the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SEC: u64 = 1_000_000_000;

// === impl Time ===

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The end of time: a deadline that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// Nanoseconds since the origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// This moment plus `span`, stopping at [`Time::NEVER`].
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This moment less `span`, stopping at [`Time::ZERO`].
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

// === impl Span ===

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Without an end.
    pub const FOREVER: Self = Self(u64::MAX);

    /// A span of nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// A span of seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// A span of fractional seconds; NaN and negative values give zero, huge ones the longest span.
    pub fn from_secs_f64(secs: f64) -> Self {
        // `as` saturates and maps NaN to zero, as documented.
        Self((secs * NANOS_PER_SEC as f64) as u64)
    }

    /// Its length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Its length in seconds.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
}
