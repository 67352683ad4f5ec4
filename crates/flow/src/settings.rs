//! The controller's settings, as checked types: every value that exists is valid.
//!
//! A number with a limited range is a type whose constructor checks it, so the controller does not
//! check again.

mod hysteresis;
mod usual;

use crate::ask::{BANDS, Band};
use crate::range::{Checked, check};
use crate::route::RouteWeights;
use crate::time::Span;
use crate::weight::Weight;

pub use hysteresis::Hysteresis;
pub use usual::SLO_TTFT;

/// The upper limit of the configured number of waiting asks.
pub const CAPACITY_MAX: u32 = 1 << 24;

/// How the stock of a backend is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// The controller tunes the bounds of each backend.
    #[default]
    Auto,
    /// By a fixed watermark.
    Fixed(Hysteresis),
}

/// The condition for room at a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// Less stock than this, in the fixed point of [`Hysteresis`].
    Below(u64),
    /// The backend is open under `auto`.
    Open,
}

/// The largest share of the places that automatic bounds keep for higher bands by default.
const AUTO_RESERVE_SHARE: f64 = 1.0 / 32.0;

/// A backend that is filled to no more than this share of its bound has spare room.
pub(crate) const SPARE: f64 = 0.75;

/// The unit of the stock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StockUnit {
    /// One for each ask.
    #[default]
    Requests,
    /// Each ask's estimated tokens.
    Tokens,
}

/// The order of asks inside a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// Earliest deadline first.
    Deadline,
    /// Most urgent first, by wait, criticality and the workload's rate.
    Workload,
    /// The sessions of a flow share its grants by cost; in a session they go as in `Fifo`.
    Session,
}

/// Which asks may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Asks of every band, with preemption when the queue is full.
    #[default]
    All,
    /// Asks of every band while there is room: none loses its place to another one.
    UntilFull,
    /// Critical asks only.
    CriticalOnly,
}

/// How bands share the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// The highest band with an ask that could go is served first.
    #[default]
    Strict,
    /// Each band has a share, from best-effort to critical; idle shares go to the other bands.
    Weighted([Weight; BANDS]),
}

/// The weight and the limits of a class of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClass {
    /// Its share of service.
    pub weight: Weight,
    /// The most asks of the flow that may wait, in all bands together.
    pub capacity: u32,
    /// How long an ask may wait.
    pub ttl: Span,
    /// The wanted time to the first token, if it differs from that of the band.
    pub objective: Option<Span>,
    /// The most asks in flight.
    pub in_flight_max: Option<u32>,
    /// The most asks in flight at any one backend.
    pub in_flight_per_backend_max: Option<u32>,
}

/// The weights and caps of urgency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UrgencyWeights {
    pub(crate) wait: f64,
    pub(crate) criticality: f64,
    pub(crate) rate: f64,
    pub(crate) wait_cap: f64,
    pub(crate) rate_cap: f64,
}

/// The limits of the workload registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadLimits {
    /// The window over which a rate is measured.
    pub window: Span,
    /// An idle workload is forgotten after this time.
    pub idle: Span,
    /// The most workloads remembered.
    pub count_max: u32,
}

/// How many free places of a pool may be kept for asks that must not wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReserveLimits {
    /// The fewest places that are kept for each band, from best-effort to critical, as long as
    /// `share_max` allows them.
    pub(crate) least: [u32; BANDS],
    /// The largest share of the places that is kept.
    pub(crate) share_max: f64,
    /// Whether places are kept for flows that hold less than their share too, not only for bands.
    pub(crate) for_flows: bool,
}

/// The settings of the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether asks may wait.
    pub enabled: bool,
    /// The most asks that may wait over all flows; 0 disables waiting too.
    pub total_capacity: u32,
    /// Whether a flow with waiting asks may exceed a full total.
    pub existing_flows_may_exceed_total: bool,
    /// Whether an ask is refused at once if its predicted wait exceeds its time to live.
    pub refuse_hopeless: bool,
    /// The wanted time to the first token by band, from best-effort to critical. Inside a flow,
    /// asks that can still make it go first. [`Span::FOREVER`] is no objective.
    pub objectives: [Span; BANDS],
    /// If asks of a fair queue have waited for this long without a break, the overload lasts: late
    /// asks are no longer served, and asks that would become late are refused.
    pub overload_after: Span,
    /// Which asks may wait.
    pub admission: Admission,
    /// How bands share the service.
    pub cascade: Cascade,
    /// The order inside a flow.
    pub order: Order,
    /// How the stock of a backend is bounded.
    pub bounds: Bounds,
    /// Under `auto`, the longest mean time from token to token of a backend's streams; without it,
    /// only throughput counts.
    pub pace_max: Option<Span>,
    /// Under `auto`, the wanted time from token to token of each stream. It moves a bound like
    /// `pace_max`, but never below half of the asks that were seen to run.
    pub slo_tpot: Option<Span>,
    /// The unit of the stock under fixed bounds.
    pub stock: StockUnit,
    /// How many free places are kept for asks that must not wait.
    pub reserve: ReserveLimits,
    /// The weights of the routing score.
    pub route: RouteWeights,
    /// The tokens that a backend is believed to have in its prefix cache, if its engine does not
    /// report how many fit; 0 if no backend is chosen for its cache.
    pub cache_tokens: u64,
    /// How far a flow may go ahead of its turn for a cached prompt, in cost at weight 1.
    pub cache_slack: u32,
    /// How many later asks of its flow queue may pass an ask for their cached prompts, in `fifo`.
    pub cache_reorder: u32,
    /// How long an ask may wait for a backend without room that has its prompt cached.
    pub cache_delay: Span,
    /// Whether cached tokens of prompts are charged too. If not, costs must be in tokens.
    pub charge_cached: bool,
    /// How long a backend that loads models on demand stays with a model that it has loaded while
    /// asks for it wait; zero if every model counts as loaded.
    pub model_stay: Span,
    /// How far flows may go ahead of their turn for that, in cost at weight 1.
    pub model_slack: u32,
    /// The class of flows without a class of their own.
    pub default_class: FlowClass,
    /// Further classes: number 1 and up in [`crate::Controller::flow`].
    pub classes: Vec<FlowClass>,
    /// The weights and caps of urgency.
    pub urgency: UrgencyWeights,
    /// The limits of the workload registry.
    pub workloads: WorkloadLimits,
    /// How many idle flows are remembered.
    pub idle_flows_max: u32,
}

// === impl Bounds ===

impl From<Hysteresis> for Bounds {
    fn from(fixed: Hysteresis) -> Self {
        Self::Fixed(fixed)
    }
}

impl Bounds {
    /// The room that an ask needs to bypass the queue.
    pub(crate) const fn to_bypass(self) -> Room {
        match self {
            Self::Auto => Room::Open,
            Self::Fixed(hysteresis) => Room::Below(hysteresis.upper),
        }
    }

    /// The room that an ask needs to leave the queue.
    pub(crate) fn to_dequeue(self) -> Room {
        match self {
            Self::Auto => Room::Open,
            // The smallest step: a backend without stock always has room.
            Self::Fixed(hysteresis) if hysteresis.lower == 0 => Room::Below(1),
            Self::Fixed(hysteresis) => Room::Below(hysteresis.lower),
        }
    }
}

// === impl UrgencyWeights ===

impl UrgencyWeights {
    /// The weights of wait, criticality and rate (0 to 1000 each), and the caps of the wait and of
    /// the rate per second.
    pub fn new(weights: [f64; 3], wait_cap: Span, rate_cap: f64) -> Checked<Self> {
        for weight in weights {
            check((0.0..=1000.0).contains(&weight), "workload.weights", weight, "0 to 1000")?;
        }
        let cap = wait_cap.secs_f64();
        check(cap > 0.0, "workload.wait_cap", cap, "more than 0")?;
        check(rate_cap > 0.0 && rate_cap <= 1e9, "workload.rate_cap", rate_cap, "0 to 1e9")?;
        let [wait, criticality, rate] = weights;
        Ok(Self { wait, criticality, rate, wait_cap: cap, rate_cap })
    }
}

impl Default for UrgencyWeights {
    fn default() -> Self {
        Self { wait: 0.4, criticality: 0.4, rate: 0.2, wait_cap: 60.0, rate_cap: 100.0 }
    }
}

// === impl WorkloadLimits ===

impl Default for WorkloadLimits {
    fn default() -> Self {
        Self { window: Span::from_secs(60), idle: Span::from_secs(300), count_max: 10_000 }
    }
}

// === impl ReserveLimits ===

impl ReserveLimits {
    /// No places are kept.
    pub const OFF: Self = Self { least: [0; BANDS], share_max: 0.0, for_flows: false };

    /// The fewest places kept for each band, and the largest share of the places kept in all (0 to
    /// 0.5; 0 keeps none).
    pub fn new(least: [u32; BANDS], share_max: f64) -> Checked<Self> {
        check((0.0..=0.5).contains(&share_max), "reserve_share_max", share_max, "0 to 0.5")?;
        Ok(Self { least, share_max, for_flows: true })
    }

    /// What is kept unless the operator sets a share. Whoever gives bounds has counted the places;
    /// automatic bounds keep some for higher bands, at the price of about 1 % of the tokens. None
    /// are kept for flows: these would cost more, and which flows are served would change.
    pub fn usual(bounds: Bounds, least: [u32; BANDS]) -> Self {
        match bounds {
            Bounds::Auto => Self { least, share_max: AUTO_RESERVE_SHARE, for_flows: false },
            Bounds::Fixed(_) => Self::OFF,
        }
    }

    /// The largest share of the places that is kept.
    pub fn share_max(&self) -> f64 {
        self.share_max
    }

    /// The fewest places that are kept for a band.
    pub fn least(&self, band: Band) -> u32 {
        self.least[band.index()]
    }

    /// Whether no places are kept.
    pub fn is_off(&self) -> bool {
        self.share_max <= 0.0
    }

    /// Whether places are kept for flows too.
    pub fn is_for_flows(&self) -> bool {
        self.for_flows
    }
}

impl Default for ReserveLimits {
    fn default() -> Self {
        Self::OFF
    }
}

// === impl FlowClass ===

impl Default for FlowClass {
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            capacity: 100,
            ttl: Span::from_secs(30),
            objective: None,
            in_flight_max: None,
            in_flight_per_backend_max: None,
        }
    }
}

// === impl Settings ===

impl Settings {
    /// All classes by number, the default one first.
    pub(crate) fn policies(&self) -> Vec<FlowClass> {
        std::iter::once(&self.default_class).chain(&self.classes).copied().collect()
    }

    pub(crate) fn capacity(&self) -> u32 {
        if self.enabled { self.total_capacity.min(CAPACITY_MAX) } else { 0 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            total_capacity: 1000,
            existing_flows_may_exceed_total: false,
            refuse_hopeless: false,
            objectives: [Span::FOREVER; BANDS],
            overload_after: Span::from_secs(180),
            admission: Admission::default(),
            cascade: Cascade::default(),
            order: Order::default(),
            bounds: Bounds::default(),
            pace_max: None,
            slo_tpot: None,
            stock: StockUnit::default(),
            reserve: ReserveLimits::default(),
            cache_tokens: 0,
            cache_slack: 0,
            cache_reorder: 0,
            cache_delay: Span::ZERO,
            charge_cached: true,
            model_stay: Span::ZERO,
            model_slack: 0,
            route: RouteWeights::default(),
            default_class: FlowClass::default(),
            classes: Vec::new(),
            urgency: UrgencyWeights::default(),
            workloads: WorkloadLimits::default(),
            idle_flows_max: 16_384,
        }
    }
}
