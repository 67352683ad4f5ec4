//! Configuration as checked types: a value that exists is a value that can be used.
//!
//! Every number with a forbidden range is a newtype whose constructor is the only way in, so the
//! controller never has to ask again.

use crate::ask::BANDS;
use crate::range::{Checked, check};
use crate::route::RouteWeights;
use crate::time::Span;
use crate::weight::Weight;

/// The most asks that may wait, whatever the configuration says.
pub const CAPACITY_MAX: u32 = 1 << 24;

/// How much may be in flight per backend: the source's hysteresis, as real numbers.
///
/// An ask bypasses the queue while stock is below `upper`, and leaves it while stock is below
/// `lower`, both times the number of ready backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    lower: u64,
    watermark: u64,
    upper: u64,
}

/// How much may be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// The controller finds it by itself, for each backend.
    #[default]
    Auto,
    /// As told.
    Fixed(Hysteresis),
}

/// What counts as room at a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// Less stock than this, in the fixed point of [`Hysteresis`].
    Below(u64),
    /// What `auto` says.
    Open,
}

/// What stock is counted in.
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
}

/// What may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Everything, with preemption when it is full.
    #[default]
    All,
    /// Critical asks only.
    CriticalOnly,
}

/// How bands share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// The highest band that could go, goes.
    #[default]
    Strict,
    /// Each band has a share, from best-effort to critical; idle shares are given away.
    Weighted([Weight; BANDS]),
}

/// What a kind of flow may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClass {
    /// Its share of service.
    pub weight: Weight,
    /// The most asks that may wait in one band of the flow.
    pub capacity: u32,
    /// How long an ask may wait.
    pub ttl: Span,
    /// The most asks in flight.
    pub in_flight_max: Option<u32>,
    /// The most asks in flight at any one backend.
    pub in_flight_per_backend_max: Option<u32>,
}

/// How urgency is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UrgencyWeights {
    pub(crate) wait: f64,
    pub(crate) criticality: f64,
    pub(crate) rate: f64,
    pub(crate) wait_cap: f64,
    pub(crate) rate_cap: f64,
}

/// The workload registry's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadLimits {
    /// The window over which a rate is measured.
    pub window: Span,
    /// A workload that is not active is dropped after this long.
    pub idle: Span,
    /// The most workloads remembered.
    pub count_max: u32,
}

/// Everything the controller is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether anything may wait.
    pub enabled: bool,
    /// The most asks that may wait over all flows; 0 disables waiting too.
    pub total_capacity: u32,
    /// Whether a flow that has asks waiting may go on past a full total.
    pub existing_flows_may_exceed_total: bool,
    /// Whether an ask whose predicted wait exceeds its time to live is refused at once.
    pub refuse_hopeless: bool,
    /// What may wait.
    pub admission: Admission,
    /// How bands share.
    pub cascade: Cascade,
    /// The order inside a flow.
    pub order: Order,
    /// How much may be in flight.
    pub bounds: Bounds,
    /// Under `auto`, the longest mean time from token to token that a backend's streams should
    /// have; with nothing given throughput counts alone.
    pub pace_max: Option<Span>,
    /// What stock is counted in where bounds are fixed.
    pub stock: StockUnit,
    /// How backends are weighed against each other.
    pub route: RouteWeights,
    /// The class of every flow that asks for no other one.
    pub default_class: FlowClass,
    /// Further classes, by the number that [`crate::Controller::flow`] is given, from 1.
    pub classes: Vec<FlowClass>,
    /// How urgency is computed.
    pub urgency: UrgencyWeights,
    /// The workload registry's bounds.
    pub workloads: WorkloadLimits,
    /// How many flows with nothing waiting and nothing in flight are remembered.
    pub idle_flows_max: u32,
}

// === impl Bounds ===

impl From<Hysteresis> for Bounds {
    fn from(fixed: Hysteresis) -> Self {
        Self::Fixed(fixed)
    }
}

impl Bounds {
    /// What an ask needs to pass the queue by.
    pub(crate) const fn to_bypass(self) -> Room {
        match self {
            Self::Auto => Room::Open,
            Self::Fixed(hysteresis) => Room::Below(hysteresis.upper),
        }
    }

    /// What an ask needs to leave the queue.
    pub(crate) const fn to_dequeue(self) -> Room {
        match self {
            Self::Auto => Room::Open,
            Self::Fixed(hysteresis) => Room::Below(hysteresis.lower),
        }
    }
}

// === impl Hysteresis ===

impl Hysteresis {
    /// Bounds are kept in fixed point and rounded down, so that a product such as 5 × 2.2 that is
    /// meant to be a whole number never admits one more.
    pub(crate) const ONE: u64 = 1 << 20;

    /// Bounds at `watermark × (1 ± deviation)`.
    pub fn around(watermark: f64, deviation: f64) -> Checked<Self> {
        let open = deviation > 0.0 && deviation < 1.0;
        check(open, "percentage_deviation_for_bounds", deviation, "more than 0, less than 1")?;
        Self::between(watermark * (1.0 - deviation), watermark, watermark * (1.0 + deviation))
    }

    /// Bounds given outright: `0 < lower <= watermark <= upper`.
    pub fn between(lower: f64, watermark: f64, upper: f64) -> Checked<Self> {
        let most = 1e9;
        check(
            watermark > 0.0 && watermark <= most,
            "watermark_per_backend",
            watermark,
            "0 to 1e9",
        )?;
        // Below the smallest step of the fixed point nothing could ever leave the queue.
        let low = lower * Self::ONE as f64 >= 1.0 && lower <= watermark;
        check(low, "lower_bound_per_backend", lower, "more than 0, up to the watermark")?;
        let high = (watermark..=most).contains(&upper);
        check(high, "upper_bound_per_backend", upper, "the watermark to 1e9")?;
        let fixed = |bound: f64| (bound * Self::ONE as f64) as u64;
        Ok(Self { lower: fixed(lower), watermark: fixed(watermark), upper: fixed(upper) })
    }

    /// One number for both bounds: no hysteresis.
    pub fn limit(per_backend: f64) -> Checked<Self> {
        Self::between(per_backend, per_backend, per_backend)
    }

    /// Lower bound, watermark and upper bound for this many ready backends.
    pub fn scaled(self, ready: usize) -> [f64; 3] {
        [self.lower, self.watermark, self.upper]
            .map(|bound| bound as f64 * ready as f64 / Self::ONE as f64)
    }
}

impl Default for Hysteresis {
    /// The source's default: a watermark of 2 with a deviation of a tenth.
    fn default() -> Self {
        let tenth = Self::ONE / 5;
        Self {
            lower: 2 * Self::ONE - tenth - 1,
            watermark: 2 * Self::ONE,
            upper: 2 * Self::ONE + tenth,
        }
    }
}

// === impl UrgencyWeights ===

impl UrgencyWeights {
    /// Weights of wait, criticality and rate (0 to 1000 each), and the wait and the rate per
    /// second at which those two stop counting further.
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

// === impl FlowClass ===

impl Default for FlowClass {
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            capacity: 100,
            ttl: Span::from_secs(30),
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
            admission: Admission::default(),
            cascade: Cascade::default(),
            order: Order::default(),
            bounds: Bounds::default(),
            pace_max: None,
            stock: StockUnit::default(),
            route: RouteWeights::default(),
            default_class: FlowClass::default(),
            classes: Vec::new(),
            urgency: UrgencyWeights::default(),
            workloads: WorkloadLimits::default(),
            idle_flows_max: 16_384,
        }
    }
}
