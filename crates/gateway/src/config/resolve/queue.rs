//! The sections `queue`, `controller` and `workload`.

use std::time::Duration;

use flow::identity::Attribute;
use flow::{
    BANDS, Band, Bounds, Cascade, Hysteresis, Order, ReserveLimits, SLO_TTFT, Settings, Span,
    StockUnit, UrgencyWeights, Weight, WorkloadLimits,
};

use super::flows;
use crate::clock;
use crate::config::settings::{Cost, Hold, SessionPart};
use crate::schema::Section;

/// The section `queue`.
pub(super) struct Queue {
    pub(super) settings: Settings,
    pub(super) parts: Vec<Attribute>,
    pub(super) session_parts: Vec<SessionPart>,
    pub(super) cost: Cost,
    pub(super) hold: Hold,
}

/// The watermark where only another key of the bounds is given.
const WATERMARK: f64 = 2.0;
const DEVIATION: f64 = 0.1;

/// A stock that no backend reaches.
const UNBOUNDED: f64 = 1e9;

/// How many later requests of its flow may pass one, where requests have objectives.
const CACHE_REORDER: u32 = 256;

/// The keys of the bands, from best-effort to critical.
const BAND_KEYS: [&str; BANDS] = ["best_effort", "normal", "high", "critical"];

pub(super) fn queue(section: &Section<'_>) -> Queue {
    let total_capacity = section.get("total_capacity");
    let mut settings = Settings {
        // A queue of size 0 is none.
        enabled: section.get::<bool>("enabled") && total_capacity > 0,
        total_capacity,
        order: section.get("order"),
        admission: section.get("admission"),
        cascade: cascade(section),
        refuse_hopeless: section.get("refuse_hopeless"),
        existing_flows_may_exceed_total: section.get("existing_flows_may_exceed_total"),
        idle_flows_max: section.get("idle_flows_max"),
        cache_slack: section.get("cache_slack"),
        cache_delay: clock::span(section.get("cache_delay")),
        model_stay: clock::span(section.get("model_stay")),
        model_slack: section.get("model_slack"),
        overload_after: clock::span(section.get("overload_after")),
        ..Settings::default()
    };
    settings.objectives = objectives(section, settings.order);
    settings.cache_reorder = cache_reorder(section, &settings.objectives);
    settings.default_class.capacity = section.get("flow_capacity");
    settings.default_class.ttl = clock::span(section.get("queue_ttl"));
    let hold =
        Hold { ttl: clock::span(section.get("hold_ttl")), capacity: section.get("hold_capacity") };
    let session_parts = flows::session_parts(section);
    if !session_parts.is_empty() {
        settings.order = by_session(section, settings.order);
    }
    let (parts, cost) = (flows::parts(section), section.get("cost"));
    settings.charge_cached = cost != Cost::Tokens || section.get("charge_cached");
    notice_mistakes(section, &settings, (&parts, &session_parts));
    Queue { settings, parts, session_parts, cost, hold }
}

/// Notes values that are valid, but probably a mistake.
fn notice_mistakes(
    section: &Section<'_>,
    settings: &Settings,
    (parts, session_parts): (&[Attribute], &[SessionPart]),
) {
    let is_late =
        |objective: &Span| *objective != Span::FOREVER && *objective > settings.default_class.ttl;
    if settings.objectives.iter().any(is_late) {
        let what = "is longer than queue_ttl: a request leaves the queue before it is late";
        section.notice("slo_ttft", what);
    }
    let is_part = |part: &SessionPart| match part {
        SessionPart::Session => false,
        SessionPart::Attribute(part) => parts.contains(part),
    };
    if !session_parts.is_empty() && session_parts.iter().all(is_part) {
        section.notice("session_by", "has no effect: each flow has one session by queue.flow_by");
    }
}

/// The order of a flow whose sessions share its grants: each of them is first come, first served.
fn by_session(section: &Section<'_>, order: Order) -> Order {
    if order != Order::Fifo {
        let what = "cannot be combined with queue.order: the requests of a session are served \
                    first come, first served";
        section.refuse("session_by", what);
    }
    Order::Session
}

/// The objective of each band. Best-effort requests have none by default, and an order by workload
/// or deadline is not changed by an objective that the operator did not set.
fn objectives(section: &Section<'_>, order: Order) -> [Span; BANDS] {
    let bands = section.section("slo_ttft_by_band");
    let usual = match order {
        Order::Fifo | Order::Session => Duration::from_nanos(SLO_TTFT.nanos()),
        Order::Workload | Order::Deadline => Duration::ZERO,
    };
    let all: Duration = section.given("slo_ttft").unwrap_or(usual);
    let mut objectives = BAND_KEYS.map(|key| bands.given(key).unwrap_or(all));
    objectives[Band::BestEffort as usize] = bands.given("best_effort").unwrap_or(Duration::ZERO);
    objectives.map(flows::objective)
}

/// How far caches change the order of a flow. Without any objective the operator wants the order of
/// arrival, so that only the key itself changes it.
fn cache_reorder(section: &Section<'_>, objectives: &[Span; BANDS]) -> u32 {
    let is_by_arrival = objectives.iter().all(|objective| *objective == Span::FOREVER);
    section.given("cache_reorder").unwrap_or(if is_by_arrival { 0 } else { CACHE_REORDER })
}

/// Strict order, or a weight for each band.
fn cascade(section: &Section<'_>) -> Cascade {
    let Some(bands) = section.optional_section("bands") else { return Cascade::Strict };
    let weight = |key| bands.given(key).and_then(|weight| flows::weight(&bands, key, weight));
    Cascade::Weighted(BAND_KEYS.map(|key| weight(key).unwrap_or(Weight::ONE)))
}

pub(super) fn controller(section: &Section<'_>, settings: &mut Settings) {
    settings.bounds = bounds(section);
    settings.stock = section.get("stock");
    settings.pace_max = section.given("pace_max").map(clock::span);
    settings.slo_tpot = section.given("slo_tpot").map(clock::span);
    settings.reserve = reserve(section, settings.bounds);
    // A value with a problem may be the watermark.
    if !section.report().has_problems_in(&["controller"]) {
        notice_unused(section, settings);
    }
}

/// Lets all requests pass to the ready backends if there is no queue: whoever switches it off does
/// without its controller, too.
pub(super) fn pass_when_off(settings: &mut Settings) {
    let unbounded = Hysteresis::limit(UNBOUNDED);
    if let (false, Ok(unbounded)) = (settings.enabled, unbounded) {
        settings.bounds = unbounded.into();
    }
}

/// Notices keys that the bounds, automatic or fixed, do not use.
fn notice_unused(section: &Section<'_>, settings: &Settings) {
    match settings.bounds {
        Bounds::Auto if settings.stock == StockUnit::Tokens => {
            section.notice("stock", "has no effect: without a watermark the bounds are automatic");
        }
        Bounds::Fixed(_) => {
            let paces = [("pace_max", settings.pace_max), ("slo_tpot", settings.slo_tpot)];
            for (key, _) in paces.into_iter().filter(|(_, pace)| pace.is_some()) {
                section.notice(key, "has no effect: the bounds are fixed, not automatic");
            }
        }
        Bounds::Auto => {}
    }
}

/// The places that are kept free. The schema has checked the share.
fn reserve(section: &Section<'_>, bounds: Bounds) -> ReserveLimits {
    let least = [0, 0, 0, section.get("reserve_min")];
    let limits = match section.given("reserve_share_max") {
        Some(share) => ReserveLimits::new(least, share).unwrap_or_default(),
        None => ReserveLimits::usual(bounds, least),
    };
    // The default is one.
    if limits.is_off() && least > [0, 0, 0, 1] {
        section
            .notice("reserve_min", "has no effect: without reserve_share_max no places are kept");
    }
    limits
}

/// Any of the keys fixes the bounds. Without one they are automatic.
fn bounds(section: &Section<'_>) -> Bounds {
    let watermark: Option<f64> = section.given("watermark_per_backend");
    let deviation: Option<f64> = section.given("percentage_deviation_for_bounds");
    let lower: Option<f64> = section.given("lower_bound_per_backend");
    let upper: Option<f64> = section.given("upper_bound_per_backend");
    if [watermark, deviation, lower, upper].iter().all(Option::is_none) {
        return Bounds::Auto;
    }
    let watermark = watermark.unwrap_or(WATERMARK);
    if lower.is_some() && upper.is_some() && deviation.is_some() {
        let what = "has no effect: both bounds are given outright";
        section.notice("percentage_deviation_for_bounds", what);
    }
    let around = deviation.unwrap_or(DEVIATION);
    let derived = Hysteresis::around(watermark, around);
    let fixed = match (derived, lower, upper) {
        (Err(error), ..) => Err(error),
        (Ok(hysteresis), None, None) => Ok(hysteresis),
        _ => Hysteresis::between(
            lower.unwrap_or(watermark * (1.0 - around)),
            watermark,
            upper.unwrap_or(watermark * (1.0 + around)),
        ),
    };
    fixed.map_or_else(
        |error| {
            // The core names the number that it refuses as the file does.
            let what = format!("is {}, allowed is {}", error.value, error.allowed);
            section.refuse(error.what, what);
            Bounds::Auto
        },
        Bounds::Fixed,
    )
}

pub(super) fn workload(section: &Section<'_>, settings: &mut Settings) {
    settings.workloads = WorkloadLimits {
        window: clock::span(section.get("window")),
        idle: clock::span(section.get("idle")),
        count_max: section.get("count_max"),
    };
    let keys = section.section("weights");
    let weights = ["wait", "criticality", "rate"].map(|key| keys.get(key));
    let wait_cap: Span = clock::span(section.get("wait_cap"));
    match UrgencyWeights::new(weights, wait_cap, section.get("rate_cap")) {
        Ok(weights) => settings.urgency = weights,
        Err(error) => section.refuse("weights", error),
    }
}
