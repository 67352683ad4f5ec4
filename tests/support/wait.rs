//! Waiting for an observable state, and the clock of these tests.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait. It ends a test that hangs; no test passes or fails by it.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// A running stopwatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

/// Calls `look` until it succeeds, and returns its result.
pub(crate) fn eventually<T: Debug>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let watch = Stopwatch::start();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if watch.elapsed() > BOUND => panic!("never {what}; last seen: {seen}"),
            // Another process does not signal its changes, so look again soon.
            Err(_) => thread::park_timeout(Duration::from_millis(3)),
        }
    }
}

// === impl Stopwatch ===

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "processes on the other side live in real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
