//! `/status`: the diagnosis, and the state of the queue, the flows, the backends and the batches.
//!
//! The core is read once, under its lock; names and texts are added after.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flow::{
    AskView, BANDS, BackendId, BackendView, Band, Bounds, Controller, Counters, FlowView, ModelId,
    Settings, Span, Stage, StockUnit, Time,
};

use super::backend_conditions::conditions;
use super::client_mistakes::client_mistakes;
use super::configured::{certificates, connections, keys, reload, tenants};
use super::flows::{depth, weight_of};
use super::{busiest_of, id_names};
use crate::clock;
use crate::diagnosis::situation::{
    BackendCondition, BandState, FlowState, ModelState, QueueState, StockState, StoreTrouble,
};
use crate::diagnosis::{History, Sample, Situation, StatusPage};
use crate::observe::{BAND_NAMES, IdNames};
use crate::state::State;

/// How often the state is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most entries of each list.
const FLOWS_MAX: usize = 100;
const MODELS_MAX: usize = 50;
const BACKENDS_MAX: usize = 200;

/// A copy of the core.
struct CoreCopy {
    now: Time,
    counters: Counters,
    queue: QueueState,
    stock: StockState,
    bands: Vec<BandState>,
    flows: Vec<FlowState>,
    flows_left_out: usize,
    models: BTreeMap<ModelId, ([u32; BANDS], u32)>,
    backends: BTreeMap<BackendId, BackendView>,
    bounds: Bounds,
}

/// What one pass over all asks shows.
#[derive(Default)]
struct AskSums {
    late: [u32; BANDS],
    in_flight: [u32; BANDS],
    oldest: [Option<Time>; BANDS],
    /// By the number of the flow.
    oldest_of_flow: Vec<Option<Time>>,
    unserved_of_flow: Vec<u32>,
    models: BTreeMap<ModelId, ([u32; BANDS], u32)>,
}

/// The page.
pub(crate) fn page(state: &State) -> StatusPage {
    let (situation, sample) = look(state);
    let mut trends = state.trends.lock().unwrap_or_else(PoisonError::into_inner);
    trends.judge(situation, sample)
}

/// Looks at the state each second, so that the page knows rates and since when a finding holds.
/// Never returns.
pub(crate) async fn watch(state: Arc<State>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let page = page(&state);
        if state.status_feed.receiver_count() > 0 {
            state.status_feed.send_replace(as_event(&page));
        }
    }
}

/// The present status, as an event of a stream.
pub(crate) fn event(state: &State) -> Bytes {
    as_event(&page(state))
}

fn as_event(page: &StatusPage) -> Bytes {
    // Plain data with texts as keys can always be written.
    let json = serde_json::to_string(page).unwrap_or_default();
    format!("data: {json}\n\n").into()
}

/// The last hour.
pub(crate) fn history(state: &State) -> History {
    state.trends.lock().unwrap_or_else(PoisonError::into_inner).history().clone()
}

fn look(state: &State) -> (Situation, Sample) {
    let roster = state.fleet.roster();
    let named = id_names(&roster);
    let statuses = state.fleet.statuses();
    let serving = statuses.iter().filter(|status| status.has_places());
    let served = roster.served_by(&serving.map(|status| status.backend).collect());
    let core = state.scheduler.with(|core, now| CoreCopy::of(core, now, &named, &served));
    let config = state.config.load();
    let standing = state.standing();
    let (unknown_priority, unknown_count) = state.observer.unknown_priorities();
    let sample = Sample {
        endings: state.observer.endings(),
        unknown_priorities: unknown_count,
        left_unanswered: state.observer.left_unanswered(),
        attempts: state.observer.attempt_ends(),
        ..core.sample()
    };
    let fleet = &config.fleet;
    let watched = fleet.discover || fleet.endpoints_file.is_some() || fleet.kubernetes.is_some();
    let has_backends = !statuses.is_empty() || watched || state.batch_work.get().is_none();
    let backends_total = statuses.len();
    let backends_ready = statuses.iter().filter(|status| status.is_sound()).count();
    let (backends, backends_left_out) =
        conditions(state, statuses, (&core.backends, core.bounds), BACKENDS_MAX);
    let (models, models_left_out) = models(&core, &named, &backends);
    let (tenants, tenants_left_out) = tenants(state);
    let mut queue = core.queue;
    queue.flows_by_client = config.identity.tells_clients_apart();
    queue.held = state.hold_places.usage(config.hold.capacity).taken;
    let discovery = state.cluster.problems();
    let mut situation = Situation {
        time: clock::since_epoch().as_secs_f64(),
        version: env!("CARGO_PKG_VERSION"),
        instance: standing.instance.to_owned(),
        uptime_seconds: core.now.since(Time::ZERO).secs_f64(),
        shutting_down: standing.shutting_down,
        has_backends,
        queue,
        stock: core.stock,
        bands: core.bands,
        flows: core.flows,
        flows_left_out: core.flows_left_out,
        models,
        models_left_out,
        tenants,
        tenants_left_out,
        backends,
        backends_left_out,
        backends_ready,
        backends_total,
        discovery: discovery.failing,
        discovery_left_out: discovery.incomplete,
        discovery_empty: discovery.empty,
        client_mistakes: client_mistakes(state, core.now, &named, &config),
        unknown_priority,
        keys: keys(state),
        certificates: certificates(state),
        reload: reload(state),
        connections: connections(state),
        workload_contexts_unused: state.observer.workloads.unused(core.now),
        ..Situation::default()
    };
    let unwritten = state.observer.accounts().and_then(|accounts| accounts.error());
    situation.stores.extend(unwritten.map(|error| {
        let file = config.usage_file.as_deref().unwrap_or(Path::new("-"));
        StoreTrouble::new("usage.file", error).at(file)
    }));
    if let Some(batch_work) = state.batch_work.get() {
        batch_work.describe(&mut situation);
    }
    (situation, sample)
}

fn models(
    core: &CoreCopy,
    named: &IdNames<'_>,
    backends: &[BackendCondition],
) -> (Vec<ModelState>, usize) {
    let mut models: Vec<ModelState> = named
        .models
        .iter()
        .map(|(id, name)| {
            let (waiting, in_flight) = core.models.get(id).copied().unwrap_or_default();
            let serves = |model: &String| model == name || model == "*";
            let ready = backends.iter().filter(|one| one.ready && one.models.iter().any(serves));
            ModelState {
                name: (*name).to_owned(),
                queue_depth: waiting.iter().sum(),
                waiting: waiting.into(),
                in_flight,
                backends_ready: ready.count(),
            }
        })
        .collect();
    let busy = |model: &ModelState| (model.queue_depth, model.in_flight);
    let left_out = busiest_of(&mut models, MODELS_MAX, busy);
    (models, left_out)
}

// === impl CoreCopy ===

impl CoreCopy {
    fn of(
        core: &mut Controller,
        now: Time,
        named: &IdNames<'_>,
        served: &BTreeSet<ModelId>,
    ) -> Self {
        let sums = AskSums::of(core, named, served);
        let settings = core.settings();
        let age = |arrival: Time| now.since(arrival).secs_f64();
        let queue = QueueState {
            depth: core.depth(),
            capacity: core.capacity(),
            in_flight: core.in_flight(),
            oldest_seconds: sums.oldest.iter().flatten().min().copied().map(age),
            late: sums.late.iter().sum(),
            unserved: sums.unserved_of_flow.iter().sum(),
            ttl_seconds: settings.default_class.ttl.secs_f64(),
            objective_seconds: objective(settings),
            token_objective_seconds: settings.slo_tpot.map(Span::secs_f64),
            flows: core.flows().filter(is_busy).count(),
            ..QueueState::default()
        };
        let waiting = core.waiting();
        let band = |band: Band| {
            let at = band as usize;
            BandState {
                name: BAND_NAMES[at],
                waiting: waiting[at],
                late: sums.late[at],
                in_flight: sums.in_flight[at],
                headroom: core.headroom(band),
                oldest_seconds: sums.oldest[at].map(age),
                ..BandState::default()
            }
        };
        let (flows, flows_left_out) = flows(core, &sums, now);
        let backends: BTreeMap<BackendId, BackendView> =
            core.backends().map(|view| (view.id, view)).collect();
        Self {
            now,
            counters: *core.counters(),
            stock: stock(settings, &backends, core.depth()),
            bands: Band::DESCENDING.into_iter().map(band).collect(),
            queue,
            flows,
            flows_left_out,
            models: sums.models,
            backends,
            bounds: settings.bounds,
        }
    }
}

impl CoreCopy {
    /// Its counters, for rates.
    fn sample(&self) -> Sample {
        Sample {
            at: self.now,
            offered: self.counters.offered,
            granted: self.counters.granted,
            bypassed: self.counters.bypassed,
            requeued: self.counters.requeued,
            settled: self.counters.settled,
            depth: self.queue.depth,
            ..Sample::default()
        }
    }
}

/// The objective of normal requests.
fn objective(settings: &Settings) -> Option<f64> {
    let objective = settings.objectives[Band::Normal as usize];
    (objective != Span::FOREVER).then(|| objective.secs_f64())
}

fn is_busy(flow: &FlowView<'_>) -> bool {
    flow.in_flight > 0 || flow.waiting != [0; BANDS]
}

/// The flows with the most waiting requests, and the number of the others that have requests.
fn flows(core: &Controller, sums: &AskSums, now: Time) -> (Vec<FlowState>, usize) {
    let settings = core.settings();
    let mut busy: Vec<FlowView<'_>> =
        core.flows().filter(|flow| is_busy(flow) || flow.refused > 0).collect();
    let active = busy.iter().filter(|flow| is_busy(flow));
    let weights: f64 = active.map(|flow| weight_of(flow, settings).0).sum();
    let order = |flow: &FlowView<'_>| (depth(flow), flow.in_flight, flow.refused);
    let left_out = busiest_of(&mut busy, FLOWS_MAX, order);
    let part =
        |part: f64, whole: f64| if whole > 0.0 { (part / whole * 1e3).round() / 1e3 } else { 0.0 };
    let entry = |flow: &FlowView<'_>| {
        let (weight, capacity) = weight_of(flow, settings);
        let oldest = sums.oldest_of_flow.get(flow.number as usize).copied().flatten();
        FlowState {
            name: flow.name.to_owned(),
            weight,
            capacity,
            queue_depth: depth(flow),
            waiting: flow.waiting.into(),
            unserved: sums.unserved_of_flow.get(flow.number as usize).copied().unwrap_or(0),
            in_flight: flow.in_flight,
            oldest_seconds: oldest.map(|arrival| now.since(arrival).secs_f64()),
            refused: flow.refused,
            refused_last_minute: 0,
            share: part(flow.in_flight.into(), core.in_flight().into()),
            queue_share: part(depth(flow).into(), core.depth().into()),
            fair_share: if is_busy(flow) { part(weight, weights) } else { 0.0 },
            least_fair_share: None,
            flooded: false,
            flooded_lately: false,
        }
    };
    (busy.iter().map(entry).collect(), left_out)
}

/// The stock of the ready backends and its bounds.
fn stock(
    settings: &Settings,
    backends: &BTreeMap<BackendId, BackendView>,
    depth: u32,
) -> StockState {
    let ready = || backends.values().filter(|backend| backend.ready);
    match settings.bounds {
        Bounds::Fixed(hysteresis) => {
            let [lower, watermark, upper] = hysteresis.scaled(ready().count());
            let now = sum(ready().map(|backend| backend.stock as f64));
            let unit = match settings.stock {
                StockUnit::Requests => "requests",
                StockUnit::Tokens => "tokens",
            };
            let bound =
                if ready().any(|backend| backend.only_kept) { "reserve" } else { "watermark" };
            let binding = (depth > 0 && watermark > 0.0).then_some(bound);
            StockState { mode: "fixed", unit, now, lower, watermark, upper, binding }
        }
        Bounds::Auto => {
            let bound = sum(ready().map(|backend| f64::from(backend.limits.watermark)));
            let in_flight = |backend: &BackendView| backend.in_flight.iter().sum::<u32>();
            let now = sum(ready().map(in_flight).map(f64::from));
            let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
            for bound in ready().filter_map(super::backends::binding) {
                *counts.entry(bound).or_default() += 1;
            }
            let binding = counts.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name);
            let unit = "requests";
            let mode = "auto";
            StockState { mode, unit, now, lower: bound, watermark: bound, upper: bound, binding }
        }
    }
}

/// The sum of numbers; the standard library's sum of none is -0.
fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

// === impl AskSums ===

impl AskSums {
    fn of(core: &Controller, named: &IdNames<'_>, served: &BTreeSet<ModelId>) -> Self {
        let mut sums = Self::default();
        core.asks().for_each(|ask| sums.add(&ask, named, served));
        sums
    }

    fn add(&mut self, ask: &AskView, named: &IdNames<'_>, served: &BTreeSet<ModelId>) {
        let band = ask.band as usize;
        let model = named.subsets.get(&ask.model).copied().unwrap_or(ask.model);
        let (waiting, in_flight) = self.models.entry(model).or_default();
        if ask.stage == Stage::InFlight {
            self.in_flight[band] += 1;
            *in_flight += 1;
            return;
        }
        waiting[band] += 1;
        self.late[band] += u32::from(ask.late);
        self.note_oldest(ask);
        self.unserved_of_flow[ask.flow as usize] += u32::from(!served.contains(&ask.model));
    }

    /// Keeps the arrival of the oldest waiting request, of a band and of a flow.
    fn note_oldest(&mut self, ask: &AskView) {
        let older = |before: Option<Time>| {
            Some(before.map_or(ask.arrival, |before| before.min(ask.arrival)))
        };
        let (band, flow) = (ask.band as usize, ask.flow as usize);
        self.oldest[band] = older(self.oldest[band]);
        if flow >= self.oldest_of_flow.len() {
            self.oldest_of_flow.resize(flow + 1, None);
            self.unserved_of_flow.resize(flow + 1, 0);
        }
        self.oldest_of_flow[flow] = older(self.oldest_of_flow[flow]);
    }
}
