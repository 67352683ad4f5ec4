//! `/health` for operators and other gateways, `/ready` for load balancers.
//!
//! `/health` is 200 in every state, because a response proves that the process lives. `/ready` says
//! whether to send requests.

use flow::{Admission, Band, Controller, Time};
use serde::Serialize;

use super::Standing;
use super::bands::BandCounts;
use crate::state::State;

/// The page `/health`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HealthPage<'a> {
    status: &'static str,
    /// The instance id, by which a gateway recognises itself among its backends.
    tidegate: &'a str,
    version: &'static str,
    uptime_seconds: f64,
    queue: QueueStatus,
    backends: BackendCounts,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct QueueStatus {
    pub(crate) depth: u32,
    pub(crate) capacity: u32,
    /// The places of one flow, unless its class has others.
    flow_capacity: u32,
    pub(crate) waiting: BandCounts,
    headroom: BandCounts,
    pub(crate) in_flight: u32,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct BackendCounts {
    ready: usize,
    total: usize,
}

/// The page `/ready`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReadyPage {
    pub(super) ready: bool,
    reason: &'static str,
}

pub(super) fn page<'a>(state: &State, standing: Standing<'a>) -> HealthPage<'a> {
    let (now, queue, backends) =
        state.scheduler.with(|core, now| (now, QueueStatus::of(core), BackendCounts::of(core)));
    let status = match backends {
        _ if standing.shutting_down => "shutting_down",
        BackendCounts { ready: 0, .. } => "no_backend_ready",
        _ => "ok",
    };
    HealthPage {
        status,
        tidegate: standing.instance,
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: now.since(Time::ZERO).secs_f64(),
        queue,
        backends,
    }
}

/// Whether load balancers should send requests here. A gateway whose backends are all down for a
/// moment is ready, because requests wait for them. So is one with configured models and no
/// backend, and one whose pool is at zero. Another one that has never known a model is not.
pub(super) fn readiness(state: &State, standing: Standing<'_>) -> ReadyPage {
    if standing.shutting_down {
        return ReadyPage::no("shutting down");
    }
    let (backends, saturated) =
        state.scheduler.with(|core, _| (BackendCounts::of(core), saturated(core)));
    let roster = state.fleet.roster();
    let knows_model = !roster.models_merged().is_empty() || roster.configured().next().is_some();
    // If load balancers sent nothing to a pool at zero, nothing would start its first backend.
    let holds_all = roster.is_at_zero() && state.config.load().hold.capacity > 0;
    if backends.ready == 0 && !knows_model && !holds_all {
        return ReadyPage::no("no backend is ready and no model is known yet");
    }
    if saturated && state.config.load().admin.ready_fails_when_saturated {
        return ReadyPage::no("the queue is full for the normal band");
    }
    let waits = backends.ready == 0;
    ReadyPage::yes(if waits { "no backend is ready: requests wait for one" } else { "ok" })
}

/// Whether a new request of the normal band that must wait would be refused. Under `critical-only`
/// that is the case while any request waits. With capacity 0 the queue is off, and saturation has
/// no meaning.
fn saturated(core: &Controller) -> bool {
    match core.settings().admission {
        _ if core.capacity() == 0 => false,
        Admission::All | Admission::UntilFull => core.headroom(Band::Normal) == 0,
        Admission::CriticalOnly => core.depth() > 0,
    }
}

// === impl QueueStatus ===

impl QueueStatus {
    pub(super) fn of(core: &Controller) -> Self {
        let mut headroom = [0; flow::BANDS];
        for band in Band::DESCENDING {
            headroom[band as usize] = core.headroom(band);
        }
        Self {
            depth: core.depth(),
            capacity: core.capacity(),
            flow_capacity: core.settings().default_class.capacity,
            waiting: core.waiting().into(),
            headroom: headroom.into(),
            in_flight: core.in_flight(),
        }
    }
}

// === impl BackendCounts ===

impl BackendCounts {
    fn of(core: &Controller) -> Self {
        let (mut ready, mut total) = (0, 0);
        for backend in core.backends() {
            ready += usize::from(backend.ready);
            total += 1;
        }
        Self { ready, total }
    }
}

// === impl ReadyPage ===

impl ReadyPage {
    fn yes(reason: &'static str) -> Self {
        Self { ready: true, reason }
    }

    fn no(reason: &'static str) -> Self {
        Self { ready: false, reason }
    }
}
