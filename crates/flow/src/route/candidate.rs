//! The input of routing: the ask's preference, and the state of each candidate backend.
//!
//! Measurements come from outside and may be missing, stale or wrong. They are read through
//! functions that always return a finite number, so a broken metric costs at most a worse choice.

use crate::ask::{BANDS, BackendId, Band, COST_MAX};
use crate::range::{Checked, check};
use crate::time::Span;

/// Larger latencies count as this: nearly three hours.
const LATENCY_MAX_MS: f32 = 1e7;
/// The largest weight of one request, at a backend that takes few of them.
const REQUEST_WEIGHT_MAX: f32 = 100.0;
/// Larger powers count as this: the hall of a large data centre.
const POWER_MAX_WATTS: f32 = 1e6;
/// The tokens of a prompt that a backend computes in a second, until its first tokens show it: one
/// common GPU with a small model.
pub(crate) const PREFILL_RATE_UNKNOWN: f64 = 8000.0;
const PREFILL_RATE_MAX: f32 = 1e6;
/// A smaller limit counts as this, so that latencies over it can be compared.
const LIMIT_MIN_MS: f64 = 1e-3;

/// The largest handicap, as large as any other term.
const HANDICAP_MAX: f32 = 1e4;

/// The configured properties of a backend. Configure them for all backends or for none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendTraits {
    /// The power that it draws under load.
    pub power_watts: f32,
    /// Its time to first token when it is idle.
    pub latency_ms: f32,
}

/// What an ask prefers in its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoutePreference {
    /// Its priority.
    pub band: Band,
    /// The latency limit. It is soft: if no backend is within it, the fastest is chosen. It counts
    /// for whole responses where no first token was measured.
    pub latency_max: Option<Span>,
    /// The limit for the time to the first token, which is as soft.
    pub start_max: Option<Span>,
    /// Whether speed counts as for a critical ask, whatever the band.
    pub latency_critical: bool,
    /// The power limit, in watts. It is soft: if no backend is within it, the most economical is
    /// chosen.
    pub power_max: Option<f32>,
    /// Whether power counts as for a best-effort ask, whatever the band. Speed goes before it.
    pub power_efficient: bool,
    /// A hash of the conversation it belongs to.
    pub session: Option<u64>,
    /// The adapter (LoRA) it needs; [`Candidate::has_adapter`] refers to it.
    pub adapter: Option<u32>,
}

/// A backend that may take the ask: ready, with room, and within the limits of the ask's flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's number for it, returned in the choice.
    pub at: u32,
    /// Its permanent number, from which the home of a session is computed.
    pub backend: BackendId,
    /// Its configured properties.
    pub traits: BackendTraits,
    /// Points that it loses for every ask; an invalid number counts as 0.
    pub handicap: f32,
    /// Its measured time to first token. The caller drops old values: a backend that is avoided is
    /// no longer measured, and would be avoided for ever.
    pub measured_latency_ms: Option<f32>,
    /// Its measured time of responses that came in one piece. It depends on their length, so that
    /// it counts for a limit alone.
    pub whole_latency_ms: Option<f32>,
    /// Asks in flight there, from best-effort to critical.
    pub pending: [u32; BANDS],
    /// The weight of one ask in flight: smaller at a larger backend.
    pub request_weight: f32,
    /// Requests waiting inside the engine.
    pub engine_waiting: Option<u32>,
    /// The share of its KV cache in use, 0 to 1.
    pub kv_used: Option<f32>,
    /// Asks in flight over its bound, 0 to 1; 0 if the bound is unknown.
    pub fill: f32,
    /// The tokens of the prompt that are believed to be in its prefix cache.
    pub cached_tokens: u64,
    /// The tokens of other prompts that it has to compute first; 0 if no candidate has a part of
    /// the prompt in its cache.
    pub uncomputed_tokens: u64,
    /// The fewest asks in flight at any candidate: to compute the prompt again delays at least as
    /// many others.
    pub delayed: u32,
    /// How many tokens of a prompt it computes in a second, once that is known.
    pub prefill_rate: Option<f32>,
    /// Whether it has loaded the adapter that the ask needs.
    pub has_adapter: bool,
    /// The milliseconds until it has loaded the model that the ask needs.
    pub load_ms: f32,
    /// The number of its last grant: equal candidates take turns.
    pub last_granted: u64,
}

/// A finite number from 0 to `most`, or `None`.
fn sound(value: f32, most: f32) -> Option<f64> {
    let good = (0.0..=f32::MAX).contains(&value);
    good.then(|| f64::from(if value < most { value } else { most }))
}

/// A share from 0 to 1; an invalid number counts as 0.
fn share(value: f32) -> f64 {
    sound(value, 1.0).unwrap_or(0.0)
}

// === impl BackendTraits ===

impl BackendTraits {
    /// Checks the properties; impossible values are refused.
    pub fn new(power_watts: f32, latency_ms: f32) -> Checked<Self> {
        let power_good = (0.0..=POWER_MAX_WATTS).contains(&power_watts);
        check(power_good, "power_watts", power_watts.into(), "0 to 1e6")?;
        let latency_good = (0.0..=LATENCY_MAX_MS).contains(&latency_ms);
        check(latency_good, "latency_ms", latency_ms.into(), "0 to 1e7")?;
        Ok(Self { power_watts, latency_ms })
    }
}

impl Default for BackendTraits {
    /// A backend without configured properties: no power, and a medium latency.
    fn default() -> Self {
        Self { power_watts: 0.0, latency_ms: 500.0 }
    }
}

// === impl RoutePreference ===

impl RoutePreference {
    pub(super) const fn has_limit(&self) -> bool {
        self.latency_max.is_some() || self.start_max.is_some()
    }

    /// The latency of a candidate over the limit, the larger one of both; at most 1 within them.
    pub(super) fn strain(&self, candidate: &Candidate) -> f64 {
        let over = |latency: f64, limit: Option<Span>| {
            limit.map_or(0.0, |limit| latency / (limit.secs_f64() * 1e3).max(LIMIT_MIN_MS))
        };
        let latency = over(candidate.latency(), self.latency_max);
        latency.max(over(candidate.start(), self.start_max))
    }
}

// === impl Candidate ===

impl Candidate {
    /// An idle backend without measurements.
    pub fn new(at: u32, backend: BackendId) -> Self {
        Self {
            at,
            backend,
            traits: BackendTraits::default(),
            handicap: 0.0,
            measured_latency_ms: None,
            whole_latency_ms: None,
            pending: [0; BANDS],
            request_weight: 1.0,
            engine_waiting: None,
            kv_used: None,
            fill: 0.0,
            cached_tokens: 0,
            uncomputed_tokens: 0,
            delayed: 0,
            prefill_rate: None,
            has_adapter: false,
            load_ms: 0.0,
            last_granted: 0,
        }
    }

    pub(super) fn handicap(&self) -> f64 {
        sound(self.handicap, HANDICAP_MAX).unwrap_or(0.0)
    }

    pub(super) fn power(&self) -> f64 {
        sound(self.traits.power_watts, POWER_MAX_WATTS).unwrap_or(0.0)
    }

    pub(super) fn stated_latency(&self) -> f64 {
        let stated = sound(self.traits.latency_ms, LATENCY_MAX_MS);
        stated.unwrap_or_else(|| f64::from(BackendTraits::default().latency_ms))
    }

    pub(super) fn measured_latency(&self) -> Option<f64> {
        self.measured_latency_ms.and_then(|measured| sound(measured, LATENCY_MAX_MS))
    }

    /// Whether its latency is neither stated nor measured.
    pub(crate) fn is_unknown(&self) -> bool {
        self.measured_latency_ms.is_none()
            && self.whole_latency_ms.is_none()
            && self.traits == BackendTraits::default()
    }

    /// Its time to first token: the measured one if it is known.
    fn start(&self) -> f64 {
        self.measured_latency().unwrap_or_else(|| self.stated_latency())
    }

    /// The latency that a limit is compared with. Where nothing streams, it is that of whole
    /// responses.
    fn latency(&self) -> f64 {
        let whole = self.whole_latency_ms.and_then(|whole| sound(whole, LATENCY_MAX_MS));
        self.measured_latency().or(whole).unwrap_or_else(|| self.stated_latency())
    }

    /// The latency that a client may expect, if the backend has configured properties.
    pub(super) fn expected_latency(&self) -> Option<f64> {
        (self.traits != BackendTraits::default()).then(|| self.latency())
    }

    pub(super) fn depth(&self) -> u32 {
        self.pending.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    pub(super) fn request_weight(&self) -> f64 {
        sound(self.request_weight, REQUEST_WEIGHT_MAX).unwrap_or(1.0)
    }

    pub(super) fn kv_used(&self) -> f64 {
        self.kv_used.map_or(0.0, share)
    }

    pub(super) fn fill(&self) -> f64 {
        share(self.fill)
    }

    pub(super) fn load_ms(&self) -> f64 {
        sound(self.load_ms, LATENCY_MAX_MS).unwrap_or(0.0)
    }

    /// The milliseconds that its cache saves, to the ask and to those that it would delay, less
    /// those for which it computes other prompts first.
    pub(super) fn saved_ms(&self) -> f64 {
        if (self.cached_tokens, self.uncomputed_tokens) == (0, 0) {
            return 0.0;
        }
        let rate = self.prefill_rate.and_then(|rate| sound(rate, PREFILL_RATE_MAX));
        let rate = rate.filter(|&rate| rate > 0.0).unwrap_or(PREFILL_RATE_UNKNOWN);
        let tokens = |tokens: u64| tokens.min(COST_MAX) as f64;
        let saved = tokens(self.cached_tokens) * (1.0 + f64::from(self.delayed));
        (saved - tokens(self.uncomputed_tokens)) / rate * 1000.0
    }
}
