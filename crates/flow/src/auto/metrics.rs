//! The law by the engine's own metrics.
//!
//! Tokens are fed forward from the size of the KV cache and corrected by what happens: cut when the
//! engine preempts, raised while they bind and the cache has room. Slots move only by a *standing*
//! queue in the engine: a backlog of prefills waits too, but then the batch still grows.

use super::blocked_time::Binding;
use super::{AutoBound, Caps, EngineReading, TOKENS_CUT, TOKENS_HOLD};
use crate::time::{Span, Time};

/// Metrics are fresh for this long, or for three of their intervals.
const FRESH: Span = Span::from_secs(2);
const FRESH_MAX: Span = Span::from_secs(30);
/// How long a queue must stand, at least and in times that an ask usually takes to start.
const STANDS: Span = Span::from_millis(800);
const STANDS_STARTS: f64 = 1.5;
/// The share of the KV cache that is filled by estimate.
const KV_SHARE: f64 = 0.9;
/// Use of the KV cache that is too high, and use that leaves room to grow.
const KV_HIGH: f64 = 0.96;
const KV_ROOMY: f64 = 0.82;
/// From this use on, a queue in the engine stands for want of memory.
const KV_FULL: f64 = 0.9;
/// Tokens in flight never exceed this many times the KV cache: prefixes that are shared count anew.
const KV_MULTIPLE: f64 = 3.0;
/// Estimates are never so wrong that less than this share of the cache would be right.
const KV_FLOOR: f64 = 0.2;
/// Use of the KV cache from which the way back is long, and may be gone in longer steps.
const KV_EMPTY: f64 = 0.5;
const GROWTH_FAR: f64 = 1.1;
const GROWTH: f64 = 1.01;
const GROW_EVERY: Span = Span::from_secs(1);
/// Slots grow again this long after a standing queue, and later and later if that was in vain.
const SLOTS_HOLD: Span = Span::from_secs(5);
const SLOTS_HOLD_MAX: Span = Span::from_secs(80);

#[derive(Clone, Debug)]
pub(super) struct MetricsTuner {
    read: Option<Time>,
    interval: Span,
    preemptions: Option<u64>,
    kv: Option<f64>,
    tokens_hold: Time,
    tokens_grown: Time,
    queue: Option<EngineQueue>,
    slots_step: f64,
    slots_hold: Span,
    /// Whether slots have grown since they were last cut.
    growing: bool,
    slots_grown: Time,
}

/// A reading beside our own count of what is in flight, and what bound it since the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) reading: EngineReading,
    pub(super) in_flight: u32,
    pub(super) unstarted: u32,
    pub(super) tokens: u64,
    pub(super) binding: Binding,
    /// How long an ask usually takes to start.
    pub(super) usual_start: Span,
    pub(super) now: Time,
}

/// A queue inside the engine while its batch does not grow.
#[derive(Clone, Copy, Debug)]
struct EngineQueue {
    since: Time,
    /// The batch when it was first seen.
    running: u32,
    /// The shortest it was.
    waiting: u32,
}

// === impl MetricsLaw ===

impl Default for MetricsTuner {
    fn default() -> Self {
        Self {
            read: None,
            interval: Span::ZERO,
            preemptions: None,
            kv: None,
            tokens_hold: Time::ZERO,
            tokens_grown: Time::ZERO,
            queue: None,
            slots_step: 1.0,
            slots_hold: SLOTS_HOLD,
            growing: false,
            slots_grown: Time::ZERO,
        }
    }
}

impl MetricsTuner {
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        let three = Span::from_nanos(self.interval.nanos().saturating_mul(3));
        let lasts = three.clamp(FRESH, FRESH_MAX);
        self.read.is_some_and(|read| now.since(read) <= lasts)
    }

    pub(super) fn take(&mut self, observation: Observation, caps: &mut Caps) {
        self.interval = self.read.map_or(Span::ZERO, |read| observation.now.since(read));
        self.read = Some(observation.now);
        self.move_tokens(observation, caps);
        self.move_slots(observation, caps);
    }

    fn move_tokens(&mut self, observation: Observation, caps: &mut Caps) {
        let Observation { reading, binding, now, .. } = observation;
        let kv = reading.kv_tokens.map(|tokens| tokens as f64).filter(|&tokens| tokens > 0.0);
        if kv.is_some() && kv != self.kv {
            caps.tokens = kv.map_or(f64::INFINITY, |kv| KV_SHARE * kv);
            self.kv = kv;
        }
        let known = self.preemptions.replace(reading.preemptions);
        // A counter that fell belongs to an engine that began anew.
        let preempted = known.is_some_and(|known| reading.preemptions > known);
        if preempted || reading.kv_used > KV_HIGH {
            let floor = kv.map_or(0.0, |kv| KV_FLOOR * kv);
            // What is not ours cannot be cut, and a single ask must always go.
            if now >= self.tokens_hold && observation.in_flight > 1 {
                caps.tokens = (TOKENS_CUT * caps.tokens.min(observation.tokens as f64)).max(floor);
                self.tokens_hold = now.after(TOKENS_HOLD);
                self.tokens_grown = now;
            }
        } else if binding.on(AutoBound::Tokens)
            && reading.kv_used < KV_ROOMY
            && now >= self.tokens_grown.after(GROW_EVERY)
        {
            let most = kv.map_or(f64::INFINITY, |kv| KV_MULTIPLE * kv);
            let growth = if reading.kv_used < KV_EMPTY { GROWTH_FAR } else { GROWTH };
            caps.tokens = (caps.tokens * growth).min(most);
            self.tokens_grown = now;
        }
    }

    fn move_slots(&mut self, observation: Observation, caps: &mut Caps) {
        let Observation { reading, binding, now, .. } = observation;
        self.queue = EngineQueue::seen(self.queue, reading, now);
        if self.queue.is_some() {
            self.slots_step = 1.0;
        }
        let enough =
            STANDS.max(Span::from_secs_f64(STANDS_STARTS * observation.usual_start.secs_f64()));
        let standing = self.queue.filter(|queue| now.since(queue.since) >= enough);
        if let Some(queue) = standing {
            // What waits there and is not ours makes no difference to us.
            let ours = queue.waiting.min(observation.unstarted);
            let fits = f64::from(observation.in_flight.saturating_sub(ours)).max(1.0);
            if fits < caps.slots {
                self.cut_slots(fits, caps, now);
            }
            self.queue = None;
        } else if caps.slots.is_finite() && binding.on(AutoBound::Slots) && reading.waiting == 0 {
            self.grow_slots(caps, now);
        }
    }

    fn cut_slots(&mut self, fits: f64, caps: &mut Caps, now: Time) {
        let grown_in_vain = std::mem::take(&mut self.growing);
        let doubled = Span::from_nanos(self.slots_hold.nanos() * 2).min(SLOTS_HOLD_MAX);
        self.slots_hold = if grown_in_vain { doubled } else { SLOTS_HOLD };
        caps.slots = fits;
        self.slots_step = 1.0;
        self.slots_grown = now;
    }

    fn grow_slots(&mut self, caps: &mut Caps, now: Time) {
        let pause = if self.slots_step == 1.0 { self.slots_hold } else { GROW_EVERY };
        if now < self.slots_grown.after(pause) {
            return;
        }
        self.growing = true;
        caps.slots += self.slots_step;
        self.slots_step = (self.slots_step * 2.0).clamp(1.0, (caps.slots / 4.0).max(1.0));
        self.slots_grown = now;
    }
}

// === impl Queue ===

impl EngineQueue {
    /// What a reading makes of the queue seen so far. A batch that grows has room, and one that
    /// shrinks is about to: only what stays as it is, or waits for memory, stands.
    fn seen(known: Option<Self>, reading: EngineReading, now: Time) -> Option<Self> {
        let EngineReading { running, waiting, kv_used, .. } = reading;
        if waiting == 0 {
            return None;
        }
        let stands = |queue: &Self| {
            kv_used >= KV_FULL
                || (running <= queue.running && running.saturating_add(1) >= queue.running)
        };
        let new = Self { since: now, running, waiting };
        Some(
            known
                .filter(stands)
                .map_or(new, |queue| Self { waiting: queue.waiting.min(waiting), ..queue }),
        )
    }
}
