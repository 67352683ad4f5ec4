//! One backend: what the caller says of it, what is kept, what is shown.

use std::collections::BTreeSet;

use crate::ask::{BANDS, BackendId, ModelId};
use crate::auto::{AutoLimits, AutoState};
use crate::route::BackendTraits;
use crate::time::Time;

/// What the caller says of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSupply {
    /// Its number.
    pub id: BackendId,
    /// The models it serves.
    pub models: Vec<ModelId>,
    /// Whether it takes requests now.
    pub ready: bool,
    /// Whether it has asked for a pause: it takes nothing, and is the same engine afterwards.
    pub paused: bool,
    /// Points that it loses in every choice, for one that has just come back and is cold.
    pub handicap: f32,
    /// What the operator says of its speed and power.
    pub traits: BackendTraits,
    /// The adapters (LoRA) that it has loaded.
    pub adapters: Vec<u32>,
}

/// What is known of one backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendView {
    /// Its number.
    pub id: BackendId,
    /// Whether it takes requests now.
    pub ready: bool,
    /// Asks in flight there, from best-effort to critical.
    pub in_flight: [u32; BANDS],
    /// Stock there, in the configured unit.
    pub stock: u64,
    /// Its own bounds, which count under `auto`.
    pub limits: AutoLimits,
}

#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) id: BackendId,
    pub(crate) ready: bool,
    pub(crate) domain: u32,
    pub(crate) in_flight: [u32; BANDS],
    pub(crate) stock: u64,
    /// When it was last granted something, as a count of grants; spreads ties.
    pub(crate) granted_at: u64,
    /// What bounds it under `auto`, and whether that lets it take one more.
    pub(crate) auto: AutoState,
    pub(crate) traits: BackendTraits,
    pub(crate) handicap: f32,
    pub(crate) adapters: BTreeSet<u32>,
    /// Whether it was said to be ready, paused or not.
    pub(super) up: bool,
    pub(super) open: bool,
    pub(super) listed: bool,
    pub(super) models: BTreeSet<ModelId>,
    /// The pools it belongs to.
    pub(super) pools: Vec<u32>,
}

// === impl BackendSupply ===

impl BackendSupply {
    /// A ready backend of which nothing more is said.
    pub fn new(id: BackendId, models: Vec<ModelId>) -> Self {
        Self {
            id,
            models,
            ready: true,
            paused: false,
            handicap: 0.0,
            traits: BackendTraits::default(),
            adapters: Vec::new(),
        }
    }
}

// === impl Backend ===

impl Backend {
    pub(super) fn new(id: BackendId) -> Self {
        Self {
            id,
            ready: false,
            domain: 0,
            in_flight: [0; BANDS],
            stock: 0,
            granted_at: 0,
            auto: AutoState::default(),
            open: false,
            traits: BackendTraits::default(),
            handicap: 0.0,
            adapters: BTreeSet::new(),
            up: false,
            listed: false,
            models: BTreeSet::new(),
            pools: Vec::new(),
        }
    }

    pub(crate) fn view(&self, now: Time) -> BackendView {
        let Self { id, ready, in_flight, stock, .. } = *self;
        BackendView { id, ready, in_flight, stock, limits: self.auto.limits(now) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ready && self.auto.closed_by().is_none()
    }

    pub(crate) fn in_flight_total(&self) -> u32 {
        self.in_flight.iter().sum()
    }
}
