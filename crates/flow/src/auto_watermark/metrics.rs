//! Moves the bounds by the engine's own metrics.
//!
//! The bound on tokens starts from the size of the KV cache. It is cut when the engine preempts or
//! its cache is full, and grows while it binds and the cache has room. The bound on slots follows
//! only a *standing* queue inside the engine. A backlog of prefills waits inside the engine too,
//! but then the batch still grows. [`super::growth`] has the steps.

use super::blocked_time::Binding;
use super::growth::{SlotGrowth, TokenGrowth};
use super::{AutoBound, Caps, EngineReading, TOKENS_CUT, TOKENS_HOLD};
use crate::time::{Span, Time};

/// Metrics are fresh for this long, or for three of their intervals if that is longer.
const FRESH: Span = Span::from_secs(2);
const FRESH_MAX: Span = Span::from_secs(30);
/// A queue stands once it has lasted this long, and for this many usual times to first token.
const STANDS: Span = Span::from_millis(800);
const STANDS_STARTS: f64 = 1.5;
/// The share of the KV cache that the first bound on tokens fills.
const KV_SHARE: f64 = 0.9;
/// Above this use of the KV cache the bound on tokens is cut.
const KV_HIGH: f64 = 0.96;
/// Above this use of the KV cache, a queue in the engine waits for memory.
const KV_FULL: f64 = 0.9;
/// The bound on tokens is never cut below this share of the KV cache: estimates of an ask's tokens
/// are not wrong by more.
const KV_FLOOR: f64 = 0.2;

#[derive(Clone, Debug, Default)]
pub(super) struct MetricsTuner {
    read: Option<Time>,
    interval: Span,
    preemptions: Option<u64>,
    kv: Option<f64>,
    tokens_hold: Time,
    token_growth: TokenGrowth,
    queue: Option<EngineQueue>,
    slot_growth: SlotGrowth,
}

/// A reading, the controller's own count of asks in flight, and the bounds that were binding since
/// the last reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) reading: EngineReading,
    pub(super) in_flight: u32,
    /// The asks in flight of which no token was seen.
    pub(super) unseen: u32,
    pub(super) tokens: u64,
    /// The most requests that were seen to run at once.
    pub(super) most_running: u32,
    pub(super) binding: Binding,
    /// The usual time to first token.
    pub(super) usual_start: Span,
    pub(super) now: Time,
}

/// A queue inside the engine while its batch does not grow.
#[derive(Clone, Copy, Debug)]
struct EngineQueue {
    since: Time,
    /// The size of the batch when the queue was first seen.
    running: u32,
    /// The shortest length of the queue so far.
    waiting: u32,
}

// === impl MetricsTuner ===

impl MetricsTuner {
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        let three = Span::from_nanos(self.interval.nanos().saturating_mul(3));
        let lasts = three.clamp(FRESH, FRESH_MAX);
        self.read.is_some_and(|read| now.since(read) <= lasts)
    }

    /// Notes when a reading comes.
    pub(super) fn came(&mut self, now: Time) {
        self.interval = self.read.map_or(Span::ZERO, |read| now.since(read));
        self.read = Some(now);
    }

    pub(super) fn take(&mut self, observation: Observation, caps: &mut Caps) {
        self.came(observation.now);
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
        // A counter that fell belongs to an engine that was restarted.
        let preempted = known.is_some_and(|known| reading.preemptions > known);
        if preempted || reading.kv_used > KV_HIGH {
            let floor = kv.map_or(0.0, |kv| KV_FLOOR * kv);
            // A cut moves only our own requests, and one ask must always be allowed.
            if now >= self.tokens_hold && observation.in_flight > 1 {
                caps.tokens = (TOKENS_CUT * caps.tokens.min(observation.tokens as f64)).max(floor);
                self.tokens_hold = now.after(TOKENS_HOLD);
                self.token_growth.was_cut(now);
            }
        } else if binding.on(AutoBound::Tokens) {
            self.token_growth.grow(&mut caps.tokens, reading.kv_used, kv, now);
        }
    }

    fn move_slots(&mut self, observation: Observation, caps: &mut Caps) {
        let Observation { reading, binding, now, .. } = observation;
        let told = reading.running_max.filter(|&most| most > 0).map_or(f64::INFINITY, f64::from);
        self.queue = EngineQueue::seen(self.queue, reading, now);
        if self.queue.is_some() {
            self.slot_growth.saw_queue();
        }
        let starts = STANDS_STARTS * observation.usual_start.secs_f64();
        let enough = STANDS.max(Span::from_secs_f64(starts));
        let standing = self.queue.filter(|queue| now.since(queue.since) >= enough);
        if let Some(queue) = standing {
            // Requests of other clients in the engine's queue do not lower our bound.
            let ours = queue.waiting.min(observation.unseen);
            let fits = f64::from(observation.in_flight.saturating_sub(ours)).max(1.0);
            if fits < caps.slots {
                caps.slots = fits;
                self.slot_growth.was_cut(now);
            }
            self.queue = None;
        } else if caps.slots.is_finite() && binding.on(AutoBound::Slots) && reading.waiting == 0 {
            let before = caps.slots;
            self.slot_growth.grow(&mut caps.slots, now);
            if f64::from(observation.in_flight) + 1.0 <= before {
                // Asks wait because places are kept free, so the growth would not be tried.
                caps.slots = caps.slots.min(f64::from(observation.most_running).max(before));
            }
        }
        caps.slots = caps.slots.min(told);
    }
}

// === impl EngineQueue ===

impl EngineQueue {
    /// The queue after a reading. A batch that grows has room, and a batch that shrinks will have
    /// it: a queue stands only while the batch stays as it is, or waits for memory.
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
