//! `/backends`: the requests, the health and the limits of every backend.

use std::collections::BTreeMap;

use flow::{AutoBound, BANDS, BackendId, BackendTraits, BackendView, Bounds, EngineReading, Span};
use serde::Serialize;

use super::bands::BandCounts;
use super::health::QueueStatus;
use crate::backend::{BackendStatus, Endpoint, StateWord};
use crate::config::settings::BackendKind;
use crate::state::State;

/// One backend.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BackendEntry {
    pub(crate) id: String,
    url: String,
    pub(crate) kind: &'static str,
    state: StateWord,
    reason: Option<String>,
    /// How long it stays ejected or full.
    returns_in_ms: Option<f64>,
    pub(crate) ready: bool,
    pub(crate) models: Vec<String>,
    /// Requests at it.
    pub(crate) queue_depth: u32,
    pub(crate) priority_counts: BandCounts,
    stock: u64,
    /// The recent mean time of requests at it, without waits and attempts elsewhere.
    pub(crate) avg_latency_ms: Option<f64>,
    first_byte_ms: Option<f64>,
    /// As configured.
    pub(crate) power_watts: f32,
    latency_ms: f32,
    limits: Option<LimitsShown>,
    /// The places that are kept free for requests that must not wait.
    kept_places: u32,
    failures: u32,
    last_check: Option<LastCheck>,
    last_reading: Option<LastReading>,
    metrics_error: Option<String>,
}

/// The limits of the stock at the backend.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
enum LimitsShown {
    /// The configured bounds.
    Fixed { lower: f64, watermark: f64, upper: f64 },
    /// The bounds that `auto` has found: the present value and the limit, `None` while there is
    /// none.
    Auto {
        unstarted: Usage,
        tokens: Usage,
        slots: Usage,
        pace: Pace,
        binding: Option<&'static str>,
        watermark: u32,
        by_metrics: bool,
    },
}

/// The use of a limit.
#[derive(Clone, Copy, Debug, Serialize)]
struct Usage {
    now: f64,
    most: Option<f64>,
}

/// The last measured time from token to token, and the number of requests that it allows.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pace {
    token_ms: Option<f64>,
    most: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct LastCheck {
    ago_ms: f64,
    result: String,
}

/// The last reading of the engine's metrics.
#[derive(Clone, Copy, Debug, Serialize)]
struct LastReading {
    ago_ms: f64,
    running: u32,
    waiting: u32,
    /// `None` if the engine does not report it.
    kv_used: Option<f64>,
    preemptions: u64,
}

pub(super) fn page(state: &State) -> Vec<BackendEntry> {
    status(state).1
}

/// The queue and all backends at one moment.
pub(super) fn status(state: &State) -> (QueueStatus, Vec<BackendEntry>) {
    join(state, state.fleet.statuses())
}

/// Merges the fleet's and the core's view of the backends. A backend that has left the fleet is
/// listed while it still has requests.
pub(super) fn join(state: &State, listed: Vec<BackendStatus>) -> (QueueStatus, Vec<BackendEntry>) {
    let counts_waiting = state.config.load().conventions.waiting_is_pending;
    let (queue, bounds, mut views, waiting) = state.scheduler.with(|core, _| {
        let views: BTreeMap<BackendId, BackendView> =
            core.backends().map(|view| (view.id, view)).collect();
        let waiting = if counts_waiting { core.waiting_by_backend() } else { BTreeMap::default() };
        (QueueStatus::of(core), core.settings().bounds, views, waiting)
    });
    let listed: Vec<_> = listed
        .into_iter()
        .map(|status| {
            let view = views.remove(&status.backend);
            (status, view)
        })
        .collect();
    // The core keeps a removed backend until the next supply; without requests there is nothing to
    // show.
    let holds = |view: &BackendView| view.in_flight.iter().any(|&count| count > 0);
    let roster = state.fleet.roster();
    let leaving = |view: BackendView| {
        let known = roster.endpoint(view.id).map(|endpoint| &**endpoint);
        (leaving(view.id, known), Some(view))
    };
    let leaving = views.into_values().filter(holds).map(leaving);
    let entry = |(status, view): (BackendStatus, Option<BackendView>)| {
        let latency = state.observer.latency_ms(&status.id);
        let limits = view.map(|view| LimitsShown::new(bounds, &view));
        let also = waiting.get(&status.backend).copied().unwrap_or_default();
        let entry = BackendEntry::new(status, view, also);
        BackendEntry { avg_latency_ms: latency, limits, ..entry }
    };
    (queue, listed.into_iter().chain(leaving).map(entry).collect())
}

/// A removed backend. Its endpoint is known while requests may still use it.
fn leaving(backend: BackendId, endpoint: Option<&Endpoint>) -> BackendStatus {
    BackendStatus {
        backend,
        id: endpoint.map_or_else(|| format!("#{}", backend.0), |known| known.name.clone()),
        url: endpoint.map(Endpoint::url).unwrap_or_default(),
        kind: endpoint.map_or_else(BackendKind::default, |known| known.kind),
        ready: false,
        state: StateWord::Leaving,
        reason: None,
        returns_in: None,
        list_failing: None,
        models: Vec::new(),
        last_check: None,
        last_reading: None,
        kv_reported: false,
        scrape_error: None,
        traits: BackendTraits::default(),
        places: None,
        full_again: false,
        failures: 0,
        last_error: None,
        quiet: Span::ZERO,
        watched: 0,
        latency: None,
        stream_latency: None,
        stream_latency_now: None,
        usual_latency: None,
        drain: None,
    }
}

/// The bound that keeps requests from a backend, if one does; places that are kept for other
/// requests keep only some of them away.
pub(super) fn binding(view: &BackendView) -> Option<&'static str> {
    view.limits.binding.map(bound_name).or_else(|| view.only_kept.then_some("reserve"))
}

fn bound_name(bound: AutoBound) -> &'static str {
    match bound {
        AutoBound::Unstarted => "unstarted",
        AutoBound::Tokens => "tokens",
        AutoBound::Slots => "slots",
        AutoBound::Pace => "pace",
    }
}

pub(super) fn millis(span: Span) -> f64 {
    (span.secs_f64() * 1e6).round() / 1e3
}

fn finite(bound: f64) -> Option<f64> {
    bound.is_finite().then_some(bound)
}

// === impl BackendEntry ===

impl BackendEntry {
    /// `waiting` are the requests that count as pending at it, although they wait.
    fn new(status: BackendStatus, view: Option<BackendView>, waiting: [u32; BANDS]) -> Self {
        let mut pending = view.map_or([0; BANDS], |view| view.in_flight);
        pending.iter_mut().zip(waiting).for_each(|(count, more)| *count += more);
        Self {
            id: status.id,
            url: status.url,
            kind: status.kind.name(),
            state: status.state,
            reason: status.reason,
            returns_in_ms: status.returns_in.map(millis),
            ready: view.map_or(status.ready, |view| view.ready),
            models: status.models,
            queue_depth: pending.iter().sum(),
            priority_counts: pending.into(),
            stock: view.map_or(0, |view| view.stock),
            avg_latency_ms: None,
            first_byte_ms: status.latency.map(millis),
            power_watts: status.traits.power_watts,
            latency_ms: status.traits.latency_ms,
            limits: None,
            kept_places: view.map_or(0, |view| view.kept),
            failures: status.failures,
            last_check: status.last_check.map(LastCheck::from),
            last_reading: status.last_reading.map(|one| LastReading::of(one, status.kv_reported)),
            metrics_error: status.scrape_error,
        }
    }
}

// === impl LimitsShown ===

impl LimitsShown {
    fn new(bounds: Bounds, view: &BackendView) -> Self {
        match bounds {
            Bounds::Fixed(hysteresis) => {
                let [lower, watermark, upper] = hysteresis.scaled(1);
                Self::Fixed { lower, watermark, upper }
            }
            Bounds::Auto => Self::auto(view),
        }
    }

    fn auto(view: &BackendView) -> Self {
        let limits = &view.limits;
        let (per_token, most) = limits.pace;
        Self::Auto {
            unstarted: Usage::of(limits.unstarted.0.into(), limits.unstarted.1),
            tokens: Usage::of(limits.tokens.0 as f64, limits.tokens.1),
            slots: Usage::of(limits.slots.0.into(), limits.slots.1),
            pace: Pace { token_ms: per_token.map(millis), most: finite(most) },
            binding: binding(view),
            watermark: limits.watermark,
            by_metrics: limits.by_metrics,
        }
    }
}

// === impl Usage ===

impl Usage {
    fn of(now: f64, most: f64) -> Self {
        Self { now, most: finite(most) }
    }
}

// === impl LastCheck ===

impl From<(Span, String)> for LastCheck {
    fn from((ago, result): (Span, String)) -> Self {
        Self { ago_ms: millis(ago), result }
    }
}

// === impl LastReading ===

impl LastReading {
    fn of((ago, reading): (Span, EngineReading), kv_reported: bool) -> Self {
        let EngineReading { running, waiting, kv_used, preemptions, .. } = reading;
        let kv_used = kv_reported.then_some(kv_used);
        Self { ago_ms: millis(ago), running, waiting, kv_used, preemptions }
    }
}
