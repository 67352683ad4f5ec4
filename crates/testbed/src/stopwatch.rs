//! The one place that reads the clock.
//!
//! Wall time, not processor time: the kernel accounts a thread's processor time only at its own
//! ticks, far coarser than a batch. Interference is dealt with by taking the least of many batches.

use std::time::Instant;

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

// === impl Stopwatch ===

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "measuring is what this type is for")]
    /// Starts to count.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn nanos(self) -> f64 {
        self.0.elapsed().as_nanos() as f64
    }
}
