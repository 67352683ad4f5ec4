//! An autoscaler as KEDA and the HorizontalPodAutoscaler of Kubernetes work together.
//!
//! It looks at a signal every 15 s or so. From it follows a number of engines: the value over the
//! target of one engine, rounded up. A change of at most a tenth is ignored. Engines are added at
//! once, at most as many again as there are, or four. They are removed only when no look of the
//! cool-down asked for more: the highest of these numbers counts.

use std::collections::VecDeque;

use flow::{Span, Time};

/// A change of the number by this share at most is none.
const TOLERANCE: f64 = 0.1;
/// Engines that may be added at once, where there are few.
const ADDED_MAX: u32 = 4;

/// How engines come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// The fewest engines, and the number at the start.
    pub min: u32,
    /// The most engines.
    pub max: u32,
    /// How long an engine takes to start.
    pub start_up: Span,
    /// How often the signal is looked at.
    pub poll: Span,
    /// How long fewer engines must have been enough before some are removed.
    pub cool_down: Span,
}

/// What an autoscaler goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleSignal {
    /// The number of engines that the core wants.
    Wanted,
    /// Requests that wait, with a target for each engine.
    QueueSize(f64),
    /// How full the engines are, by their batches and caches, with a target.
    Utilization(f64),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Autoscaler {
    pub(crate) scaling: Scaling,
    pub(crate) signal: ScaleSignal,
    /// What each look of the cool-down asked for, the oldest first.
    looks: VecDeque<(Time, u32)>,
}

// === impl Autoscaler ===

impl Autoscaler {
    pub(crate) fn new(scaling: Scaling, signal: ScaleSignal) -> Self {
        Self { scaling, signal, looks: VecDeque::new() }
    }

    /// The number of engines that there should be, of the value of the signal and the present
    /// number. The value of a utilisation is the mean over the engines.
    pub(crate) fn look(&mut self, value: f64, present: u32, now: Time) -> u32 {
        let Scaling { min, max, cool_down, .. } = self.scaling;
        let asked = self.asked(value, present).clamp(min, max);
        while self.looks.front().is_some_and(|&(at, _)| now.since(at) > cool_down) {
            self.looks.pop_front();
        }
        self.looks.push_back((now, asked));
        if asked > present {
            return asked.min(present + present.max(ADDED_MAX));
        }
        let highest = self.looks.iter().map(|&(_, asked)| asked).max().unwrap_or(asked);
        highest.min(present)
    }

    fn asked(&self, value: f64, present: u32) -> u32 {
        let now = f64::from(present);
        let (exact, target_now) = match self.signal {
            ScaleSignal::Wanted => (value, now),
            ScaleSignal::QueueSize(target) => (value / target, now),
            ScaleSignal::Utilization(target) => (now * value / target, now),
        };
        let steady = target_now > 0.0 && (exact / target_now - 1.0).abs() <= TOLERANCE;
        if steady { present } else { exact.ceil().min(f64::from(u32::MAX)) as u32 }
    }
}

#[cfg(test)]
mod tests;
