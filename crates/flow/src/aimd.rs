//! A window that the answers themselves set, for a gateway that shows no metrics.
//!
//! Additive increase, multiplicative decrease: one more request may be under way for each window of
//! good answers, and half as many when an answer says that it was too much. Before the first such
//! answer nothing is known of the gateway, so until then each good answer counts as a window, and
//! the window doubles each time around.
//!
//! A crowd of refusals is one piece of news. After a cut the window holds for a while, and refusals
//! of what was sent before the cut say nothing new. Good answers count only while at least half of
//! the window is in use: a trickle proves nothing about a flood.

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// What is left of the window after a cut.
const DECREASE: f64 = 0.5;

/// Between which numbers a window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AimdSettings {
    min: u32,
    max: u32,
    hold: Span,
}

/// How many requests may be under way.
#[derive(Clone, Debug)]
pub struct Aimd {
    settings: AimdSettings,
    window: f64,
    /// When it was cut last.
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
    /// Begins with the least.
    pub fn new(settings: AimdSettings) -> Self {
        Self { settings, window: f64::from(settings.min), cut_at: None }
    }

    /// How many may be under way.
    pub fn window(&self) -> u32 {
        // The window lies between two numbers of that type.
        self.window as u32
    }

    /// One of so many that were under way was answered well.
    pub fn good(&mut self, in_flight: u64) {
        if in_flight as f64 * 2.0 < self.window {
            return;
        }
        let step = if self.cut_at.is_none() { 1.0 } else { self.window.recip() };
        self.window = (self.window + step).min(f64::from(self.settings.max));
    }

    /// One that was sent at `sent` was refused for want of room. Says whether that cut the window.
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
