//! How the bounds of `auto` grow: in which steps, how often, and how far.
//!
//! A bound grows only while it *binds*: it closed the backend for more than half of the time since
//! the last sample while an ask waited for it. The tuners check that, and call these rules. So a
//! bound never grows without demand.
//!
//! A cut takes effect at once, and growth is slow: the engine pays more for one preemption than for
//! a second with a few requests less.

use crate::time::{Span, Time};

/// Bounds that are moved by the engine's metrics grow at most once in this time.
const GROW_EVERY: Span = Span::from_secs(1);

/// Above this use of the KV cache, tokens do not grow.
const KV_ROOMY: f64 = 0.82;
/// Below this use of the KV cache the bound is far too low, and grows in larger steps.
const KV_EMPTY: f64 = 0.5;
const TOKENS_STEP: f64 = 1.01;
const TOKENS_STEP_LARGE: f64 = 1.1;
/// The bound on tokens is at most this many times the KV cache. It may exceed the cache, because a
/// prefix that several requests share is stored once and counted for each.
const KV_MULTIPLE: f64 = 3.0;

/// Slots begin to grow this long after they were cut. The time doubles after growth in vain.
const SLOTS_HOLD: Span = Span::from_secs(5);
const SLOTS_HOLD_MAX: Span = Span::from_secs(80);
/// One step adds at most this share of the slots.
const SLOTS_STEP_SHARE: f64 = 0.25;

/// Without metrics, tokens grow by this share, which doubles while no stream stalls.
const STREAM_SHARE: f64 = 0.01;
const STREAM_SHARE_MAX: f64 = 0.16;
const STREAM_GROW_EVERY: Span = Span::from_secs(10);

/// The share by which the bound of the pace grows in one measurement; at least by one ask.
const PACE_SHARE: f64 = 0.02;

/// Growth of the bound on tokens where the engine reports the use of its KV cache.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenGrowth {
    changed: Time,
}

/// Growth of the bound on tokens where the engine reports nothing.
#[derive(Clone, Debug)]
pub(super) struct StreamTokenGrowth {
    changed: Time,
    share: f64,
}

/// Growth of the bound on slots: by 1 after a pause, then every second by 2, 4 and so on.
#[derive(Clone, Debug)]
pub(super) struct SlotGrowth {
    changed: Time,
    step: f64,
    hold: Span,
    /// Whether slots have grown since they were last cut.
    growing: bool,
}

/// The bound on asks in flight after a measurement of the pace that left slack.
pub(super) fn pace(bound: f64) -> f64 {
    bound + (bound * PACE_SHARE).max(1.0)
}

// === impl TokenGrowth ===

impl TokenGrowth {
    /// Notes that the bound was cut: the next growth waits for a full interval.
    pub(super) fn was_cut(&mut self, now: Time) {
        self.changed = now;
    }

    /// Raises the bound if the cache has room. `kv` is the size of the cache, where it is known.
    pub(super) fn grow(&mut self, tokens: &mut f64, kv_used: f64, kv: Option<f64>, now: Time) {
        let roomy = kv_used < KV_ROOMY;
        if !roomy || now < self.changed.after(GROW_EVERY) {
            return;
        }
        let most = kv.map_or(f64::INFINITY, |kv| KV_MULTIPLE * kv);
        let step = if kv_used < KV_EMPTY { TOKENS_STEP_LARGE } else { TOKENS_STEP };
        *tokens = (*tokens * step).min(most);
        self.changed = now;
    }
}

// === impl StreamTokenGrowth ===

impl Default for StreamTokenGrowth {
    fn default() -> Self {
        Self { changed: Time::ZERO, share: STREAM_SHARE }
    }
}

impl StreamTokenGrowth {
    /// Notes that the bound was cut: growth starts again with the smallest share.
    pub(super) fn was_cut(&mut self, now: Time) {
        self.changed = now;
        self.share = STREAM_SHARE;
    }

    pub(super) fn grow(&mut self, tokens: &mut f64, now: Time) {
        if now < self.changed.after(STREAM_GROW_EVERY) {
            return;
        }
        *tokens *= 1.0 + self.share;
        self.share = (self.share * 2.0).min(STREAM_SHARE_MAX);
        self.changed = now;
    }
}

// === impl SlotGrowth ===

impl Default for SlotGrowth {
    fn default() -> Self {
        Self { changed: Time::ZERO, step: 1.0, hold: SLOTS_HOLD, growing: false }
    }
}

impl SlotGrowth {
    /// Notes that the engine has a queue: the next step is the smallest again.
    pub(super) fn saw_queue(&mut self) {
        self.step = 1.0;
    }

    /// Notes that the bound was cut. If it had grown before, that was in vain, and the next try
    /// waits twice as long.
    pub(super) fn was_cut(&mut self, now: Time) {
        let in_vain = std::mem::take(&mut self.growing);
        let doubled = Span::from_nanos(self.hold.nanos() * 2).min(SLOTS_HOLD_MAX);
        self.hold = if in_vain { doubled } else { SLOTS_HOLD };
        self.step = 1.0;
        self.changed = now;
    }

    pub(super) fn grow(&mut self, slots: &mut f64, now: Time) {
        let pause = if self.step == 1.0 { self.hold } else { GROW_EVERY };
        if now < self.changed.after(pause) {
            return;
        }
        self.growing = true;
        *slots += self.step;
        self.step = (self.step * 2.0).clamp(1.0, (*slots * SLOTS_STEP_SHARE).max(1.0));
        self.changed = now;
    }
}
