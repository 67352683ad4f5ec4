//! What routing looks at: the ask's wishes, and what is known of each backend.
//!
//! Measurements come from outside and may be missing, stale or nonsense. They are read through
//! functions that always give a finite number, so a broken gauge costs at most a worse choice.

use crate::ask::{BANDS, BackendId, Band};
use crate::range::{Checked, check};
use crate::time::Span;

/// Beyond this a latency says no more: nearly three hours.
const LATENCY_MAX_MS: f32 = 1e7;
/// A backend that takes one request at a time is full with it.
const REQUEST_WEIGHT_MAX: f32 = 100.0;
/// Beyond this a power says no more: a large data centre's hall.
const POWER_MAX_WATTS: f32 = 1e6;
/// As much as any other term can cost.
const HANDICAP_MAX: f32 = 1e4;

/// What the operator says of a backend. Given for all backends or for none it is fair to each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendTraits {
    /// What it draws while it works.
    pub power_watts: f32,
    /// How long it takes to begin an answer when it is idle.
    pub latency_ms: f32,
}

/// What an ask wants of its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutePreference {
    /// Its priority.
    pub band: Band,
    /// The latency it would like not to exceed. Soft: if nobody keeps it, the fastest is taken.
    pub latency_max: Option<Span>,
    /// Whether speed counts as it does for a critical ask, whatever the band.
    pub latency_critical: bool,
    /// A hash of the conversation it belongs to.
    pub session: Option<u64>,
    /// The adapter (LoRA) it needs; [`Candidate::has_adapter`] speaks of this one.
    pub adapter: Option<u32>,
}

/// A backend that may take the ask: ready, with room, and within the limits of the ask's flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's number for it, handed back in the choice.
    pub at: u32,
    /// Its lasting name, which a session's home is computed from.
    pub backend: BackendId,
    /// What the operator says of it.
    pub traits: BackendTraits,
    /// Points that it loses whatever the ask; nonsense counts as none.
    pub handicap: f32,
    /// Its measured latency. The caller drops a value that is old: a backend that is avoided is
    /// measured no more, and would be avoided for ever.
    pub measured_latency_ms: Option<f32>,
    /// Asks in flight there, from best-effort to critical.
    pub pending: [u32; BANDS],
    /// What one of them counts for: less at a backend that can hold many.
    pub request_weight: f32,
    /// Requests that wait inside the engine, by its own account.
    pub engine_waiting: Option<u32>,
    /// The part of its KV cache in use, 0 to 1.
    pub kv_used: Option<f32>,
    /// How near it is to its own bound, 0 to 1; 0 when unknown.
    pub fill: f32,
    /// The part of the prompt it is believed to have cached, 0 to 1.
    pub prefix_share: f32,
    /// Whether the adapter that the ask needs is loaded there.
    pub has_adapter: bool,
    /// The count of grants at its last one: equals are taken in turn.
    pub last_granted: u64,
}

/// A finite number from 0 to `most`, or nothing.
fn sound(value: f32, most: f32) -> Option<f64> {
    let good = (0.0..=f32::MAX).contains(&value);
    good.then(|| f64::from(if value < most { value } else { most }))
}

/// A share from 0 to 1; nonsense counts as 0.
fn share(value: f32) -> f64 {
    sound(value, 1.0).unwrap_or(0.0)
}

// === impl Traits ===

impl BackendTraits {
    /// Refuses traits that no backend has.
    pub fn new(power_watts: f32, latency_ms: f32) -> Checked<Self> {
        let power_good = (0.0..=POWER_MAX_WATTS).contains(&power_watts);
        check(power_good, "power_watts", power_watts.into(), "0 to 1e6")?;
        let latency_good = (0.0..=LATENCY_MAX_MS).contains(&latency_ms);
        check(latency_good, "latency_ms", latency_ms.into(), "0 to 1e7")?;
        Ok(Self { power_watts, latency_ms })
    }
}

impl Default for BackendTraits {
    /// What nobody has described: no claim about power, and a latency in the middle of the field.
    fn default() -> Self {
        Self { power_watts: 0.0, latency_ms: 500.0 }
    }
}

// === impl Wish ===

impl RoutePreference {
    pub(super) fn limit_ms(&self) -> Option<f64> {
        self.latency_max.map(|limit| limit.secs_f64() * 1000.0)
    }
}

// === impl Candidate ===

impl Candidate {
    /// An idle backend of which nothing is known.
    pub fn new(at: u32, backend: BackendId) -> Self {
        Self {
            at,
            backend,
            traits: BackendTraits::default(),
            handicap: 0.0,
            measured_latency_ms: None,
            pending: [0; BANDS],
            request_weight: 1.0,
            engine_waiting: None,
            kv_used: None,
            fill: 0.0,
            prefix_share: 0.0,
            has_adapter: false,
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

    /// What a limit is held against: the truth where it is known.
    pub(super) fn latency(&self) -> f64 {
        self.measured_latency().unwrap_or_else(|| self.stated_latency())
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

    pub(super) fn prefix_share(&self) -> f64 {
        share(self.prefix_share)
    }
}
