//! A window of requests in flight that adapts to the responses, for a gateway without metrics.
//!
//! Additive increase, multiplicative decrease (AIMD): the window grows by one for each window of
//! successful responses, and is halved by a response that says "too many". Before the first such
//! response the capacity of the gateway is unknown, so the window grows by one for each successful
//! response, which doubles it in each round trip.
//!
//! Many refusals at once carry one piece of information. So after a cut the window holds for a
//! while, and refusals of requests that were sent before the cut are ignored. Successful responses
//! count only while at least half of the window is in use: low load does not prove that high load
//! fits.

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The share of the window that is left after a cut.
const DECREASE: f64 = 0.5;

/// The range of a window, and the time between cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AimdSettings {
    min: u32,
    max: u32,
    hold: Span,
}

/// The number of requests that may be in flight.
#[derive(Clone, Debug)]
pub struct Aimd {
    settings: AimdSettings,
    window: f64,
    /// When the window was last cut.
    cut_at: Option<Time>,
}

// === impl AimdSettings ===

impl AimdSettings {
    /// A window between `min` and `max` that is cut at most once in each `hold`.
    pub fn new(min: u32, max: u32, hold: Span) -> Checked<Self> {
        check(min > 0, "min", f64::from(min), "1 or more")?;
        check(max >= min, "max", f64::from(max), "no less than min")?;
        Ok(Self { min, max, hold })
    }
}

// === impl Aimd ===

impl Aimd {
    /// A window at its minimum.
    pub fn new(settings: AimdSettings) -> Self {
        Self { settings, window: f64::from(settings.min), cut_at: None }
    }

    /// The number of requests that may be in flight.
    pub fn window(&self) -> u32 {
        // The window lies between `min` and `max`, which are of this type.
        self.window as u32
    }

    /// A request succeeded while this many were in flight.
    pub fn good(&mut self, in_flight: u64) {
        if in_flight as f64 * 2.0 < self.window {
            return;
        }
        let step = if self.cut_at.is_none() { 1.0 } else { self.window.recip() };
        self.window = (self.window + step).min(f64::from(self.settings.max));
    }

    /// A request that was sent at `sent` was refused for lack of room. Returns whether that cut the
    /// window.
    pub fn congested(&mut self, sent: Time, now: Time) -> bool {
        let known = |cut: Time| sent < cut || now < cut.after(self.settings.hold);
        if self.cut_at.is_some_and(known) {
            return false;
        }
        self.window = (self.window * DECREASE).max(f64::from(self.settings.min));
        self.cut_at = Some(now);
        true
    }
}
