//! `/flows`: the live queue by flow.

use flow::{BANDS, FlowView, Settings};
use serde::Serialize;

use super::bands::BandCounts;
use super::busiest;
use crate::state::State;

/// The page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowsPage {
    /// The busiest flows, sorted.
    flows: Vec<FlowEntry>,
    /// The number of flows that are left out.
    truncated: usize,
}

#[derive(Clone, Debug, Serialize)]
struct FlowEntry {
    name: String,
    class: u32,
    /// How many of its requests may wait.
    capacity: u32,
    weight: f64,
    /// Waiting requests, in total and by band.
    queue_depth: u32,
    waiting: BandCounts,
    in_flight: u32,
    /// Requests that were refused, or that left the queue without a backend.
    refused: u32,
}

pub(super) fn page(state: &State) -> FlowsPage {
    state.scheduler.with(|core, _| {
        let mut flows: Vec<FlowView<'_>> = core.flows().collect();
        let truncated = busiest(&mut flows, |flow| depth(flow) + flow.in_flight);
        let entry = |flow: &FlowView<'_>| FlowEntry::new(flow, core.settings());
        FlowsPage { flows: flows.iter().map(entry).collect(), truncated }
    })
}

pub(super) fn depth(flow: &FlowView<'_>) -> u32 {
    let waiting: &[u32; BANDS] = &flow.waiting;
    waiting.iter().sum()
}

/// The weight and the capacity of a flow.
pub(super) fn weight_of(flow: &FlowView<'_>, settings: &Settings) -> (f64, u32) {
    let class = (flow.class as usize).checked_sub(1).and_then(|at| settings.classes.get(at));
    let class = class.unwrap_or(&settings.default_class);
    (tidy(class.weight.value()), class.capacity)
}

/// The weight as configured: the core's fixed-point form is slightly off.
fn tidy(weight: f64) -> f64 {
    (weight * 1e4).round() / 1e4
}

// === impl FlowEntry ===

impl FlowEntry {
    fn new(flow: &FlowView<'_>, settings: &Settings) -> Self {
        let (weight, capacity) = weight_of(flow, settings);
        Self {
            name: flow.name.to_owned(),
            class: flow.class,
            capacity,
            weight,
            queue_depth: depth(flow),
            waiting: flow.waiting.into(),
            in_flight: flow.in_flight,
            refused: flow.refused,
        }
    }
}
