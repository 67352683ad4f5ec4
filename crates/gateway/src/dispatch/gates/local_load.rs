//! How full this process's own backends are: no scrape, no lag.
//!
//! What counts as full is what keeps the gateway's queue from letting more go. With a watermark
//! that is the stock of the ready backends against it. Under `auto` it is, at each backend, the
//! bound that leaves the least room: slots, pace and tokens as far as they are known, and the
//! requests that have not begun to answer. A backend that tells nothing of itself has no known
//! slots, only those that were tried: it is filled a few at a time, and cannot be kept partly free.
//!
//! Whoever waits is in front of what would come now. Those of the lowest band always count, since
//! they may be ours: not to count them would mean to send ever more. Those of other bands count
//! while some backend is full; while none is, they wait for limits of their own, not for room.
//!
//! Under `auto` it is also known who waits for a first token, and the start_limiter looks at that.

use std::fmt;
use std::sync::Arc;

use flow::start_limiter::StartLoad;
use flow::{AutoLimits, BackendView, Bounds, Controller, Hysteresis, Span, StockUnit};

use super::reading::{Reading, size};
use crate::config::resolved::dispatch::System;
use crate::state::State;

/// A look into this process.
#[derive(Clone, Debug)]
pub(super) struct LocalLoad {
    pub(super) state: Arc<State>,
    pub(super) system: System,
    /// The share of the system that is left to others.
    pub(super) baseline: f64,
}

/// Requests at the ready backends and before them, and how many there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fullness {
    pub(super) used: f64,
    pub(super) places: f64,
    pub(super) waiting: u32,
    pub(super) ready: u32,
    /// At how many backends those count alone that wait for a first token.
    pub(super) starting: u32,
}

// === impl LocalLoad ===

impl LocalLoad {
    pub(super) fn read(&self) -> Result<Reading, String> {
        let ours = 1.0 - self.baseline;
        let (fullness, at) = self.state.scheduler.with(|core, now| (Fullness::of(core, ours), now));
        let Fullness { used, places, waiting, ready, .. } = fullness;
        // Without a backend nothing is free, however little there is.
        let free = if places > 0.0 { 1.0 - (used + f64::from(waiting)) / places } else { 0.0 };
        let system = size(&self.system, Some(f64::from(ready)), Some(places))?;
        Ok(Reading { free, system, at, lag: Span::ZERO, by: fullness.to_string() })
    }

    pub(super) fn start_load(&self) -> Option<StartLoad> {
        self.state.scheduler.with(|core, _| start_load(core))
    }
}

/// Who is about to begin at the ready backends; under a watermark that is not known.
pub(super) fn start_load(core: &Controller) -> Option<StartLoad> {
    if core.settings().bounds != Bounds::Auto {
        return None;
    }
    let ready: Vec<BackendView> = core.backends().filter(|backend| backend.ready).collect();
    let calm = ready.iter().filter(|backend| backend.limits.unstarted.0 == 0).count();
    let [_, above @ ..] = core.waiting();
    let there = |backend: &BackendView| backend.in_flight[1..].iter().any(|&count| count > 0);
    Some(StartLoad {
        ready: ready.len() as u32,
        calm: calm as u32,
        start: mean_start(&ready),
        others: above.iter().any(|&count| count > 0) || ready.iter().any(there),
    })
}

/// The mean of those backends that have shown a first token.
fn mean_start(backends: &[BackendView]) -> Option<(Span, u64)> {
    let known: Vec<(Span, u64)> = backends.iter().filter_map(|at| at.limits.start).collect();
    let count = known.len() as f64;
    let (took, prompt) = known.iter().fold((0.0, 0.0), |(took, prompt), start| {
        (took + start.0.secs_f64(), prompt + start.1 as f64)
    });
    let mean = (Span::from_secs_f64(took / count), (prompt / count) as u64);
    (!known.is_empty()).then_some(mean)
}

// === impl Fullness ===

impl Fullness {
    /// The gateway as it is for those who may have this share of it.
    pub(super) fn of(core: &Controller, ours: f64) -> Self {
        let (mut fullness, full) = match core.settings().bounds {
            Bounds::Fixed(marks) => Self::by_marks(core, marks),
            Bounds::Auto => Self::by_limits(core, ours),
        };
        let [lowest, others @ ..] = core.waiting();
        fullness.waiting = lowest + if full { others.iter().sum() } else { 0 };
        fullness
    }

    /// By what is configured; says also whether some backend is full.
    fn by_marks(core: &Controller, marks: Hysteresis) -> (Self, bool) {
        let [lower, watermark, _] = marks.scaled(1);
        let (mut stock, mut requests, mut ready, mut full) = (0, 0, 0, false);
        for backend in core.backends().filter(|backend| backend.ready) {
            stock += backend.stock;
            requests += backend.in_flight.iter().sum::<u32>();
            ready += 1;
            full |= backend.stock as f64 >= lower;
        }
        let marks = watermark * f64::from(ready);
        let places = match core.settings().stock {
            StockUnit::Requests => marks,
            // Requests as large as those that are there; the first ones show how large that is.
            StockUnit::Tokens if stock > 0 => marks / stock as f64 * f64::from(requests),
            StockUnit::Tokens => f64::from(ready),
        };
        let used = f64::from(requests);
        (Self { used, places, ready, waiting: 0, starting: 0 }, full)
    }

    /// By what was found; says also whether some backend is full.
    fn by_limits(core: &Controller, ours: f64) -> (Self, bool) {
        let (mut sum, mut full) = (Self::default(), false);
        for backend in core.backends().filter(|backend| backend.ready) {
            let ((used, places), starting) = tightest(&backend.limits, ours);
            sum.used += used;
            sum.places += places;
            sum.ready += 1;
            sum.starting += u32::from(starting);
            full |= backend.limits.binding.is_some();
        }
        (sum, full)
    }
}

impl fmt::Display for Fullness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, places, waiting, ready, starting } = *self;
        let (there, may) = match starting {
            0 => ("taken", "places"),
            all if all == ready => ("without a first token", "that may be so"),
            _ => ("taken or without a first token", "places"),
        };
        let noun = if ready == 1 { "backend" } else { "backends" };
        write!(f, "{used:.0} {there} and {waiting} waiting, of {places:.0} {may} at {ready} {noun}")
    }
}

/// What is there and what may be, by the bound of a backend that leaves the least room to those who
/// may have this share of it; and whether that is the one on those without a first token.
fn tightest(limits: &AutoLimits, ours: f64) -> ((f64, f64), bool) {
    let AutoLimits { unstarted, tokens, slots, pace, binding, by_metrics, .. } = *limits;
    let there = f64::from(slots.0);
    let waiting = f64::from(unstarted.0);
    if binding.is_some() {
        return ((there, there), false);
    }
    // Many short prompts may be unstarted at once: while it is open, one more may.
    let may_wait = unstarted.1.max(waiting + 1.0);
    // In requests as large as those that are there.
    let by_tokens = tokens.1 / (tokens.0 as f64 / there);
    let by_slots = if by_metrics { slots.1 } else { f64::INFINITY };
    let bounds = [(there, by_slots), (there, pace.1), (there, by_tokens)];
    let room = |&(used, most): &(f64, f64)| most * ours - used;
    let known = bounds.into_iter().filter(|(_, most)| most.is_finite());
    let tightest = known.min_by(|a, b| room(a).total_cmp(&room(b)));
    let starts = (waiting, may_wait);
    match tightest.filter(|bound| room(bound) <= room(&starts)) {
        Some(bound) => (bound, false),
        None => (starts, true),
    }
}
