//! One backend: the caller's input, the internal state, and the view.

use std::collections::BTreeSet;

use crate::ask::{BANDS, BackendId, ModelId};
use crate::auto_watermark::{AutoLimits, AutoState};
use crate::cache_waits::CacheWaits;
use crate::latency::Latency;
use crate::loaded_models::LoadedModels;
use crate::prefill_rate::PrefillRate;
use crate::prefix_index::PrefixIndex;
use crate::route::BackendTraits;
use crate::time::Time;
use crate::turnover::Turnover;

/// The caller's description of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSupply {
    /// Its number.
    pub id: BackendId,
    /// The models it serves.
    pub models: Vec<ModelId>,
    /// Whether it takes requests now.
    pub ready: bool,
    /// Whether it has asked for a pause: it takes no requests, and its engine stays the same.
    pub paused: bool,
    /// Whether it must prove first that it works again: it takes one request at a time.
    pub on_trial: bool,
    /// Points that it loses in every choice, for a backend that has just become ready and is cold.
    pub handicap: f32,
    /// Its configured latency and power.
    pub traits: BackendTraits,
    /// The adapters (LoRA) that it has loaded.
    pub adapters: Vec<u32>,
    /// How many requests it runs at once, if the operator says so. Automatic bounds use this where
    /// its metrics do not tell.
    pub places: Option<u32>,
}

/// The state of one backend.
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
    /// Its bounds under `auto`.
    pub limits: AutoLimits,
    /// The free places that are kept from some asks, in a pool of the backend.
    pub kept: u32,
    /// Whether no more places are free there, so that these asks wait.
    pub only_kept: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) id: BackendId,
    pub(crate) ready: bool,
    pub(crate) domain: u32,
    pub(crate) in_flight: [u32; BANDS],
    pub(crate) stock: u64,
    /// The number of its last grant, counted over all backends; ties go to the longest ago.
    pub(crate) granted_at: u64,
    /// Its bounds under `auto`.
    pub(crate) auto: AutoState,
    pub(crate) traits: BackendTraits,
    pub(crate) handicap: f32,
    pub(crate) adapters: BTreeSet<u32>,
    /// What is believed to be in its prefix cache, and the tokens that its engine says fit in it.
    pub(crate) prefixes: PrefixIndex,
    pub(crate) kv_tokens: Option<u64>,
    /// The tokens of prompts that it still has to compute, and how fast it does.
    pub(crate) uncomputed: u64,
    pub(crate) prefill_rate: PrefillRate,
    pub(crate) loaded: LoadedModels,
    pub(crate) latency: Latency,
    /// How soon a place comes free, and what waiting for one because of its cache has won.
    pub(crate) turnover: Turnover,
    pub(crate) cache_waits: CacheWaits,
    /// Whether the caller listed it as ready, paused or not; whether paused; and its trial.
    pub(super) up: bool,
    pub(super) paused: bool,
    pub(super) trial: Trial,
    pub(super) open: bool,
    pub(super) listed: bool,
    pub(super) models: BTreeSet<ModelId>,
    /// The pools it belongs to.
    pub(crate) pools: Vec<u32>,
}

/// Whether a backend must prove that it works again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trial {
    /// It works.
    #[default]
    Passed,
    /// It takes one ask.
    Free,
    /// It has taken one, and takes no other until an ask there ends.
    Taken,
}

// === impl BackendSupply ===

impl BackendSupply {
    /// A ready backend with default properties.
    pub fn new(id: BackendId, models: Vec<ModelId>) -> Self {
        Self {
            id,
            models,
            ready: true,
            paused: false,
            on_trial: false,
            handicap: 0.0,
            traits: BackendTraits::default(),
            adapters: Vec::new(),
            places: None,
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
            prefixes: PrefixIndex::default(),
            kv_tokens: None,
            uncomputed: 0,
            prefill_rate: PrefillRate::default(),
            loaded: LoadedModels::default(),
            latency: Latency::default(),
            turnover: Turnover::default(),
            cache_waits: CacheWaits::default(),
            up: false,
            paused: false,
            trial: Trial::Passed,
            listed: false,
            models: BTreeSet::new(),
            pools: Vec::new(),
        }
    }

    pub(crate) fn view(&self, now: Time) -> BackendView {
        let Self { id, ready, in_flight, stock, .. } = *self;
        let limits = self.auto.limits(now);
        BackendView { id, ready, in_flight, stock, limits, kept: 0, only_kept: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ready && self.auto.closed_by().is_none()
    }

    pub(crate) fn in_flight_total(&self) -> u32 {
        self.in_flight.iter().sum()
    }
}
