//! `/requests`: the requests that wait and run, and those that ended last.
//!
//! Only a hash of its id is kept of a live request, so those are listed without it.

use std::collections::BTreeMap;

use flow::{AskView, BackendId, Controller, ModelId, Stage, Time};
use serde::Serialize;

use super::requests::{RequestPage, ended_page, secs};
use super::{busiest_of, id_names};
use crate::observe::{BAND_NAMES, Record};
use crate::state::State;

/// The most entries of each list.
const REQUESTS_MAX: usize = 100;

/// The page. Those that have been here longest come first, and those that ended last.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RequestsPage {
    waiting: Vec<LiveRequest>,
    waiting_left_out: usize,
    in_flight: Vec<LiveRequest>,
    in_flight_left_out: usize,
    ended: Vec<RequestPage>,
}

/// A request that waits or is at a backend.
#[derive(Clone, Debug, Serialize)]
struct LiveRequest {
    band: &'static str,
    flow: String,
    target_model: Option<String>,
    backend: Option<String>,
    /// Since its arrival, or since its re-queue at the back of its flow.
    age_seconds: f64,
    /// Whether it can no longer make its objective.
    late: bool,
    #[serde(skip)]
    model: ModelId,
    #[serde(skip)]
    at: Option<BackendId>,
}

pub(super) fn page(state: &State) -> RequestsPage {
    let mut page = state.scheduler.with(|core, now| live(core, now));
    let roster = state.fleet.roster();
    let named = id_names(&roster);
    for request in page.waiting.iter_mut().chain(&mut page.in_flight) {
        let model = named.subsets.get(&request.model).copied().unwrap_or(request.model);
        request.target_model = named.models.get(&model).map(|name| (*name).to_owned());
        let name = request.at.and_then(|at| named.backends.get(&at));
        request.backend = name.map(|name| (*name).to_owned());
    }
    page.ended = ended(state);
    page
}

/// The requests that ended last.
fn ended(state: &State) -> Vec<RequestPage> {
    let now = state.clock.now();
    let ended = state.observer.last_ended(REQUESTS_MAX).into_iter();
    let entry = |(at, record): (Time, Record)| {
        let id = String::from_utf8_lossy(record.request_id.as_bytes());
        ended_page(&id, secs(now.since(at)), &record)
    };
    ended.map(entry).collect()
}

/// The oldest requests of both stages.
fn live(core: &Controller, now: Time) -> RequestsPage {
    let flows: BTreeMap<u32, &str> = core.flows().map(|flow| (flow.number, flow.name)).collect();
    let of = |stage: Stage| {
        let mut asks: Vec<AskView> = core.asks().filter(|ask| ask.stage == stage).collect();
        let left_out = busiest_of(&mut asks, REQUESTS_MAX, |ask| std::cmp::Reverse(ask.arrival));
        let flow_of = |ask: &AskView| flows.get(&ask.flow).copied().unwrap_or_default();
        let entry = |ask: &AskView| LiveRequest::new(ask, flow_of(ask), now);
        (asks.iter().map(entry).collect(), left_out)
    };
    let (waiting, waiting_left_out) = of(Stage::Waiting);
    let (in_flight, in_flight_left_out) = of(Stage::InFlight);
    RequestsPage { waiting, waiting_left_out, in_flight, in_flight_left_out, ended: Vec::new() }
}

// === impl LiveRequest ===

impl LiveRequest {
    /// An entry without the names of its model and its backend.
    fn new(ask: &AskView, flow: &str, now: Time) -> Self {
        Self {
            band: BAND_NAMES[ask.band as usize],
            flow: flow.to_owned(),
            target_model: None,
            backend: None,
            age_seconds: secs(now.since(ask.arrival)),
            late: ask.stage == Stage::Waiting && ask.late,
            model: ask.model,
            at: ask.backend,
        }
    }
}
