//! The kind `gateway`: the load of the backends of this process, without delay.
//!
//! The load is what keeps the gateway's queue from granting more requests. With a watermark it is
//! the stock of the ready backends. Under `auto` it is, at each backend, the limit that leaves the
//! least room: slots, pace and tokens as far as they are known, and the requests without a first
//! token. A backend without metrics has no known number of slots. The gate fills it a few requests
//! at a time, and cannot keep a part of it free.
//!
//! Waiting requests are ahead of a new request. Requests of the lowest band always count, because
//! they may be ours; otherwise the gate would send ever more. Requests of other bands count while
//! some backend is full. While none is, they wait for a limit of their flow and not for room.
//!
//! Under `auto` the gate also knows which requests wait for a first token, and has a start limiter
//! (`flow::start_limiter`).

use std::fmt;
use std::sync::Arc;

use flow::start_limiter::{StartLimiter, StartLimiterSettings, StartLoad};
use flow::{AutoLimits, BackendView, Bounds, Controller, Hysteresis, Span, StockUnit, Time};

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate, Source, measured};
use crate::gates::error::{ReadError, SetupError};
use crate::gates::reading::{Reading, capacity};
use crate::gates::settings::{Capacity, GateSettings, Unit};
use crate::schema::{Range, Section, ValueType, Variant, key};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "gateway",
        aliases: &[],
        doc: "How full the backends of this gateway are.",
        keys: &[key(
            "rest",
            ValueType::Number(Range::closed(0.0, 1000.0)),
            "After a start, no further batch request starts for this many times the duration of a \
             start, while requests of a higher band are there.",
        )
        .default("1")],
    },
    read,
    knows_capacity: true,
    counts_servers: true,
};

/// The settings of the kind `gateway`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayGate {
    /// The pause after a start, as a multiple of the duration of a start.
    pub rest: f64,
}

/// The scheduler of this process, as far as the gate reads it.
pub(crate) trait LocalScheduler: fmt::Debug + Send + Sync {
    /// The current load, for work that may use the share `ours`, and the current time.
    fn fullness(&self, ours: f64) -> (Fullness, Time);

    /// The requests that are about to start; `None` if that is unknown.
    fn start_load(&self) -> Option<StartLoad>;
}

/// The load of this process.
#[derive(Clone, Debug)]
pub(in crate::gates) struct LocalLoad {
    scheduler: Arc<dyn LocalScheduler>,
    capacity: Capacity,
    /// The free share that is left to other work.
    baseline: f64,
}

/// The requests at the ready backends and in the queue, and the places for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fullness {
    pub(crate) used: f64,
    pub(crate) places: f64,
    pub(crate) waiting: u32,
    pub(crate) ready: u32,
    /// The number of backends where only requests without a first token count.
    pub(crate) starting: u32,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    Some(GateKind::Gateway(GatewayGate { rest: section.get("rest") }))
}

// === impl GatewayGate ===

impl Kind for GatewayGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        if gate.capacity == Capacity::FromSource && gate.unit != Unit::Requests {
            return Err(SetupError::CapacityInRequests);
        }
        let scheduler = context.local.clone().ok_or(SetupError::NoGateway)?;
        let (capacity, baseline) = (gate.capacity.clone(), gate.baseline);
        let start_limiter = StartLimiter::new(StartLimiterSettings::new(self.rest)?);
        let source = Source::Local(LocalLoad { scheduler, capacity, baseline });
        // Its places may be those of a part of the backends' work.
        let open = OpenGate::new(source, "this process".into(), measured(false));
        Ok(OpenGate { start_limiter: Some(start_limiter), ..open })
    }
}

// === impl LocalLoad ===

impl LocalLoad {
    pub(in crate::gates) fn read(&self) -> Result<Reading, ReadError> {
        let ours = 1.0 - self.baseline;
        let (fullness, at) = self.scheduler.fullness(ours);
        let Fullness { used, places, waiting, ready, .. } = fullness;
        // Without a backend nothing is free, however small the load is.
        let free = if places > 0.0 { 1.0 - (used + f64::from(waiting)) / places } else { 0.0 };
        let capacity = capacity(&self.capacity, Some(f64::from(ready)), Some(places))?;
        Ok(Reading { by: fullness.to_string(), ..Reading::instant(free, capacity, at) })
    }

    pub(in crate::gates) fn start_load(&self) -> Option<StartLoad> {
        self.scheduler.start_load()
    }
}

/// The requests that are about to start at the ready backends; unknown under a watermark.
pub(crate) fn start_load(core: &Controller) -> Option<StartLoad> {
    if core.settings().bounds != Bounds::Auto {
        return None;
    }
    let ready: Vec<BackendView> = core.backends().filter(|backend| backend.ready).collect();
    let calm = ready.iter().filter(|backend| backend.limits.unstarted.0 == 0).count();
    let [_, above @ ..] = core.waiting();
    let there = |backend: &BackendView| backend.in_flight[1..].iter().any(|&count| count > 0);
    Some(StartLoad {
        ready: ready.len() as u32,
        calm: calm as u32,
        start: mean_start(&ready),
        others: above.iter().any(|&count| count > 0) || ready.iter().any(there),
    })
}

/// The mean duration and prompt of a start, over the backends that have shown a first token.
fn mean_start(backends: &[BackendView]) -> Option<(Span, u64)> {
    let known: Vec<(Span, u64)> = backends.iter().filter_map(|at| at.limits.start).collect();
    let count = known.len() as f64;
    let (took, prompt) = known.iter().fold((0.0, 0.0), |(took, prompt), start| {
        (took + start.0.secs_f64(), prompt + start.1 as f64)
    });
    let mean = (Span::from_secs_f64(took / count), (prompt / count) as u64);
    (!known.is_empty()).then_some(mean)
}

// === impl Fullness ===

impl Fullness {
    /// The load of the gateway, for work that may use the share `ours` of it.
    pub(crate) fn of(core: &Controller, ours: f64) -> Self {
        let (mut fullness, full) = match core.settings().bounds {
            Bounds::Fixed(marks) => Self::by_marks(core, marks),
            Bounds::Auto => Self::by_limits(core, ours),
        };
        let [lowest, others @ ..] = core.waiting();
        fullness.waiting = lowest + if full { others.iter().sum() } else { 0 };
        fullness
    }

    /// By the watermark; also returns whether some backend is full.
    fn by_marks(core: &Controller, marks: Hysteresis) -> (Self, bool) {
        let [lower, watermark, _] = marks.scaled(1);
        let (mut stock, mut requests, mut ready, mut full) = (0, 0, 0, false);
        for backend in core.backends().filter(|backend| backend.ready) {
            stock += backend.stock;
            requests += backend.in_flight.iter().sum::<u32>();
            ready += 1;
            full |= backend.stock as f64 >= lower;
        }
        let marks = watermark * f64::from(ready);
        let places = match core.settings().stock {
            StockUnit::Requests => marks,
            // In requests of the mean size at the backends. The first requests show that size.
            StockUnit::Tokens if stock > 0 => marks / stock as f64 * f64::from(requests),
            StockUnit::Tokens => f64::from(ready),
        };
        let used = f64::from(requests);
        (Self { used, places, ready, waiting: 0, starting: 0 }, full)
    }

    /// By the limits that `auto` has found; also returns whether some backend is full.
    fn by_limits(core: &Controller, ours: f64) -> (Self, bool) {
        let (mut sum, mut full) = (Self::default(), false);
        for backend in core.backends().filter(|backend| backend.ready) {
            let ((used, places), starting) = tightest(&backend.limits, ours);
            sum.used += used;
            sum.places += places;
            sum.ready += 1;
            sum.starting += u32::from(starting);
            full |= backend.limits.binding.is_some();
        }
        (sum, full)
    }
}

impl fmt::Display for Fullness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, places, waiting, ready, starting } = *self;
        let (there, may) = match starting {
            0 => ("in use", "places"),
            all if all == ready => ("without a first token", "allowed"),
            _ => ("in use or without a first token", "places"),
        };
        let noun = if ready == 1 { "backend" } else { "backends" };
        write!(f, "{used:.0} {there} and {waiting} waiting, of {places:.0} {may} at {ready} {noun}")
    }
}

/// The number of requests and its limit, by the limit of a backend that leaves the least room to
/// work with the share `ours`; and whether that is the limit on requests without a first token.
fn tightest(limits: &AutoLimits, ours: f64) -> ((f64, f64), bool) {
    let AutoLimits { unstarted, tokens, slots, pace, binding, by_metrics, .. } = *limits;
    let there = f64::from(slots.0);
    let waiting = f64::from(unstarted.0);
    if binding.is_some() {
        return ((there, there), false);
    }
    // Many short prompts may be unstarted at once: while the backend is open, one more is allowed.
    let may_wait = unstarted.1.max(waiting + 1.0);
    // In requests of the mean size at the backend.
    let by_tokens = tokens.1 / (tokens.0 as f64 / there);
    let by_slots = if by_metrics { slots.1 } else { f64::INFINITY };
    let bounds = [(there, by_slots), (there, pace.1), (there, by_tokens)];
    let room = |&(used, most): &(f64, f64)| most * ours - used;
    let known = bounds.into_iter().filter(|(_, most)| most.is_finite());
    let tightest = known.min_by(|a, b| room(a).total_cmp(&room(b)));
    let starts = (waiting, may_wait);
    match tightest.filter(|bound| room(bound) <= room(&starts)) {
        Some(bound) => (bound, false),
        None => (starts, true),
    }
}
