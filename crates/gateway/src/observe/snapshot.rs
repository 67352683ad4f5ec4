//! A copy of the core's state, made under its lock, so that formatting needs no lock.
//!
//! The cost is bounded by the live requests and by what the core remembers: about ten nanoseconds
//! for each ask, flow and workload.

use std::collections::BTreeMap;

use flow::{
    AskView, BANDS, BackendId, BackendView, Band, Controller, Counters, Demand, ModelId, Span,
    Stage, Time,
};

use super::IdNames;
use super::labels::NAMES_MAX;
use super::ticket_labels::TicketLabels;
use crate::gates::Fullness;

/// See the module documentation. All gauges of one scrape come from one snapshot, so they are
/// consistent.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(super) counters: Counters,
    /// By band, from best-effort to critical.
    pub(super) waiting: [u32; BANDS],
    /// Of those, the ones that can no longer make their objective.
    pub(super) late: [u32; BANDS],
    pub(super) headroom: [u32; BANDS],
    pub(super) capacity: u32,
    pub(super) in_flight: u32,
    /// The age of the oldest waiting request of each band.
    pub(super) oldest: [Span; BANDS],
    pub(super) backends: Vec<BackendView>,
    pub(super) asks: Vec<LiveAsk>,
    /// Lower bound, watermark and upper bound of each model.
    pub(super) model_bounds: Vec<(ModelId, [f64; 3])>,
    /// The cost per second that is completed, for the models for which requests wait.
    pub(super) drain_rates: Vec<(ModelId, f64)>,
    /// The demand for the backends of each model.
    pub(super) demands: Vec<(ModelId, Demand)>,
    /// Flows with live requests, and all remembered flows.
    pub(super) flows: [u64; 2],
    pub(super) workloads: [u64; 2],
    /// The load of the ready backends.
    pub(super) fullness: Fullness,
}

/// One live ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveAsk {
    /// The label index of its ticket.
    pub(super) label_index: Option<u32>,
    pub(super) model: ModelId,
    pub(super) band: Band,
    pub(super) stage: Stage,
    pub(super) stock: u64,
    pub(super) tokens: u64,
    /// The size of its body.
    pub(super) bytes: u64,
    /// Its backend, while it is in flight.
    pub(super) backend: Option<BackendId>,
}

// === impl Snapshot ===

impl Snapshot {
    pub(super) fn copy(
        core: &mut Controller,
        now: Time,
        named: &IdNames<'_>,
        ticket_labels: &TicketLabels,
    ) -> Self {
        let mut oldest = [Span::ZERO; BANDS];
        let mut asks = Vec::with_capacity((core.depth() + core.in_flight()) as usize);
        let mut late = [0; BANDS];
        for ask in core.asks() {
            late[ask.band as usize] += u32::from(ask.late);
            if ask.stage == Stage::Waiting {
                let oldest = &mut oldest[ask.band as usize];
                *oldest = now.since(ask.arrival).max(*oldest);
            }
            asks.push(LiveAsk::of(&ask, named, ticket_labels));
        }
        let busy = core.flows().filter(|flow| flow.in_flight > 0 || flow.waiting != [0; BANDS]);
        let flows = [busy.count() as u64, core.flows().count() as u64];
        let workloads = core.workloads(now);
        let active = workloads.iter().filter(|workload| workload.active > 0).count();
        let workloads = [active as u64, workloads.len() as u64];
        let mut headroom = [0; BANDS];
        for band in Band::DESCENDING {
            headroom[band as usize] = core.headroom(band);
        }
        let models = || named.models.keys().take(NAMES_MAX);
        let drained = |&model: &ModelId| core.drain_rate(model).map(|rate| (model, rate));
        let drain_rates = models().filter_map(drained).collect();
        let demands = models().filter_map(|&model| Some((model, core.demand(model, now)?)));
        let demands = demands.collect();
        Self {
            counters: *core.counters(),
            waiting: core.waiting(),
            late,
            headroom,
            capacity: core.capacity(),
            in_flight: core.in_flight(),
            oldest,
            backends: core.backends().collect(),
            asks,
            model_bounds: models().map(|&model| (model, core.bounds(model))).collect(),
            drain_rates,
            demands,
            flows,
            workloads,
            fullness: Fullness::of(core, 1.0),
        }
    }

    /// The same with waiting requests among those at the backends.
    pub(crate) fn with_waiting(mut self, waiting: &BTreeMap<BackendId, [u32; BANDS]>) -> Self {
        for backend in &mut self.backends {
            let more = waiting.get(&backend.id).copied().unwrap_or_default();
            backend.in_flight.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        self
    }

    /// The number of waiting requests.
    pub(super) fn depth(&self) -> u32 {
        self.waiting.iter().sum()
    }
}

// === impl LiveAsk ===

impl LiveAsk {
    fn of(ask: &AskView, named: &IdNames<'_>, ticket_labels: &TicketLabels) -> Self {
        let &AskView { ticket, model, band, stage, stock, tokens, backend, .. } = ask;
        let model = named.subsets.get(&model).copied().unwrap_or(model);
        let (label_index, bytes) = ticket_labels.get(ticket.index()).unzip();
        let bytes = bytes.unwrap_or(0);
        Self { label_index, model, band, stage, stock, tokens, bytes, backend }
    }
}
