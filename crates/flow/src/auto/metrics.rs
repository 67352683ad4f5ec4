//! The law by the engine's own metrics.
//!
//! Tokens are fed forward from the size of the KV cache and corrected by what happens: cut when the
//! engine preempts, raised while they bind and the cache has room. Slots move only by a *standing*
//! queue in the engine: a backlog of prefills waits too, but then the batch still grows.

use super::peak::Peak;
use super::pressure::Binding;
use super::{Bound, Caps, Reading};
use crate::time::{Span, Time};

/// Metrics are fresh for this long, or for three of their intervals.
const FRESH: Span = Span::from_secs(2);
/// How many readings make a queue a standing one.
const STANDING: usize = 5;
/// The share of the KV cache that is filled by estimate.
const KV_SHARE: f64 = 0.9;
/// Use of the KV cache that is too high, and use that leaves room to grow.
const KV_HIGH: f64 = 0.96;
const KV_ROOMY: f64 = 0.82;
/// From this use on, a queue in the engine stands for want of memory.
const KV_FULL: f64 = 0.9;
/// Tokens in flight never exceed this many times the KV cache: prefixes that are shared count anew.
const KV_MULTIPLE: f64 = 3.0;
const CUT: f64 = 0.95;
const GROWTH: f64 = 1.01;
/// After a cut its effect is awaited.
const HOLD: Span = Span::from_secs(2);
const GROW_EVERY: Span = Span::from_secs(1);
/// Slots grow again this long after a standing queue.
const SLOTS_HOLD: Span = Span::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct MetricsLaw {
    read: Option<Time>,
    interval: Span,
    preemptions: Option<u64>,
    tokens_hold: Time,
    tokens_grown: Time,
    running_peak: Peak,
    running: [u32; STANDING],
    queue: [u32; STANDING],
    readings: usize,
    slots_step: f64,
    slots_grown: Time,
}

/// A reading beside our own count of what is in flight, and what bound it since the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) reading: Reading,
    pub(super) in_flight: u32,
    pub(super) tokens: u64,
    pub(super) binding: Binding,
    pub(super) now: Time,
}

// === impl MetricsLaw ===

impl Default for MetricsLaw {
    fn default() -> Self {
        Self {
            read: None,
            interval: Span::ZERO,
            preemptions: None,
            tokens_hold: Time::ZERO,
            tokens_grown: Time::ZERO,
            running_peak: Peak::over(Span::from_secs(5)),
            running: [0; STANDING],
            queue: [0; STANDING],
            readings: 0,
            slots_step: 1.0,
            slots_grown: Time::ZERO,
        }
    }
}

impl MetricsLaw {
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        let lasts = Span::from_nanos(self.interval.nanos().saturating_mul(3)).max(FRESH);
        self.read.is_some_and(|read| now.since(read) <= lasts)
    }

    pub(super) fn take(&mut self, look: Look, caps: &mut Caps) {
        self.interval = self.read.map_or(Span::ZERO, |read| look.now.since(read));
        self.read = Some(look.now);
        self.move_tokens(look, caps);
        self.move_slots(look, caps);
    }

    fn move_tokens(&mut self, look: Look, caps: &mut Caps) {
        let Look { reading, binding, now, .. } = look;
        let kv = reading.kv_tokens.map(|tokens| tokens as f64).filter(|&tokens| tokens > 0.0);
        if let Some(kv) = kv
            && caps.tokens.is_infinite()
        {
            caps.tokens = KV_SHARE * kv;
        }
        let known = self.preemptions.replace(reading.preemptions);
        // A counter that fell belongs to an engine that began anew.
        let preempted = known.is_some_and(|known| reading.preemptions > known);
        if preempted || reading.kv_used > KV_HIGH {
            if now >= self.tokens_hold {
                caps.tokens = CUT * caps.tokens.min(look.tokens as f64);
                self.tokens_hold = now.after(HOLD);
                self.tokens_grown = now;
            }
        } else if binding.on(Bound::Tokens)
            && reading.kv_used < KV_ROOMY
            && now >= self.tokens_grown.after(GROW_EVERY)
        {
            let most = kv.map_or(f64::INFINITY, |kv| KV_MULTIPLE * kv);
            caps.tokens = (caps.tokens * GROWTH).min(most);
            self.tokens_grown = now;
        }
    }

    fn move_slots(&mut self, look: Look, caps: &mut Caps) {
        let Look { reading, binding, now, .. } = look;
        let at = self.readings % STANDING;
        self.running[at] = reading.running;
        self.running_peak.push(reading.running, now);
        let peak = self.running_peak.at(now);
        let stands = self.running.iter().all(|&running| running + 1 >= peak);
        let full = stands || reading.kv_used >= KV_FULL;
        self.queue[at] = if full { reading.waiting } else { 0 };
        self.readings += 1;
        let standing = self.queue.iter().copied().min().unwrap_or(0);
        if standing >= 1 && self.readings >= STANDING {
            let held = caps.slots.min(f64::from(look.in_flight));
            caps.slots = (held - f64::from(standing)).max(1.0);
            self.readings = 0;
            self.slots_step = 1.0;
            self.slots_grown = now;
        } else if caps.slots.is_finite() && binding.on(Bound::Slots) && reading.waiting == 0 {
            self.grow_slots(caps, now);
        }
    }

    fn grow_slots(&mut self, caps: &mut Caps, now: Time) {
        let pause = if self.slots_step == 1.0 { SLOTS_HOLD } else { GROW_EVERY };
        if now < self.slots_grown.after(pause) {
            return;
        }
        caps.slots += self.slots_step;
        self.slots_step = (self.slots_step * 2.0).clamp(1.0, (caps.slots / 4.0).max(1.0));
        self.slots_grown = now;
    }
}
