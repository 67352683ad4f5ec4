//! The sections `queue`, `controller` and `workload`: what waits, how much goes, who is urgent.

use flow::identity::Attribute;
use flow::{
    BANDS, Bounds, CAPACITY_MAX, Cascade, Hysteresis, Settings, Span, StockUnit, UrgencyWeights,
    Weight,
};

use super::{DAY, HOUR, MILLI, flows};
use crate::clock;
use crate::config::keywords;
use crate::config::resolved::Cost;
use crate::config::section::Section;
use crate::config::tree::{Node, Value};

/// What the section `queue` says.
pub(super) struct Queue {
    pub(super) settings: Settings,
    pub(super) parts: Vec<Attribute>,
    pub(super) cost: Cost,
}

/// The watermark where only another key of the bounds is given.
const WATERMARK: f64 = 2.0;
const DEVIATION: f64 = 0.1;

/// The keys of urgency's weights, and the source's values.
const URGENCY: [(&str, f64); 3] = [("wait", 0.4), ("criticality", 0.4), ("rate", 0.2)];

/// The keys of the bands' weights, from best-effort to critical.
const BAND_KEYS: [&str; BANDS] = ["best_effort", "normal", "high", "critical"];

pub(super) fn resolve(mut section: Section<'_>) -> Queue {
    let mut settings = Settings::default();
    let class = &mut settings.default_class;
    if let Some(enabled) = section.flag("enabled") {
        settings.enabled = enabled;
    }
    if let Some(total) = section.count("total_capacity", 0..=CAPACITY_MAX) {
        settings.total_capacity = total;
    }
    if let Some(capacity) = section.count("flow_capacity", 1..=CAPACITY_MAX) {
        class.capacity = capacity;
    }
    if let Some(ttl) = section.duration("queue_ttl", MILLI..=DAY) {
        class.ttl = clock::span(ttl);
    }
    let parts = flows::parts(&mut section);
    settings.order = section.word("order", keywords::ORDERS).unwrap_or_default();
    let cost = section.word("cost", keywords::COSTS).unwrap_or_default();
    settings.admission = section.word("admission", keywords::ADMISSIONS).unwrap_or_default();
    settings.cascade = cascade(&mut section);
    settings.refuse_hopeless = section.flag("refuse_hopeless").unwrap_or_default();
    settings.existing_flows_may_exceed_total =
        section.flag("existing_flows_may_exceed_total").unwrap_or_default();
    if let Some(most) = section.count("idle_flows_max", 1..=1 << 20) {
        settings.idle_flows_max = most;
    }
    section.finish();
    Queue { settings, parts, cost }
}

/// `"strict"`, or a weight for each band.
fn cascade(section: &mut Section<'_>) -> Cascade {
    match section.take("bands") {
        Some(node @ Node { value: Value::Table(_), .. }) => {
            Cascade::Weighted(band_weights(section.as_section(node)))
        }
        Some(Node { value, .. }) if !is_strict(&value) => {
            let allowed = "\"strict\" or weights such as { critical = 70, high = 15, \
                           normal = 10, best_effort = 5 }";
            section.refuse("bands", format!("is {value}, allowed is {allowed}"));
            Cascade::Strict
        }
        _ => Cascade::Strict,
    }
}

fn is_strict(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text.eq_ignore_ascii_case("strict"))
}

fn band_weights(mut section: Section<'_>) -> [Weight; BANDS] {
    let mut weights = [Weight::ONE; BANDS];
    for (band, key) in BAND_KEYS.into_iter().enumerate() {
        section.require(key);
        let weight = section.number(key).and_then(|weight| flows::weight(&section, key, weight));
        weights[band] = weight.unwrap_or(Weight::ONE);
    }
    section.finish();
    weights
}

pub(super) fn controller(mut section: Section<'_>, settings: &mut Settings) {
    settings.bounds = bounds(&mut section);
    settings.stock = section.word("stock", keywords::STOCKS).unwrap_or_default();
    settings.pace_max = section.duration("pace_max", MILLI..=HOUR).map(clock::span);
    match settings.bounds {
        Bounds::Auto if settings.stock == StockUnit::Tokens => {
            section.notice("stock", "has no effect: without a watermark the bounds are automatic");
        }
        Bounds::Fixed(_) if settings.pace_max.is_some() => {
            section.notice("pace_max", "has no effect: the bounds are fixed, not automatic");
        }
        _ => {}
    }
    section.finish();
}

/// Any of the keys fixes the bounds; none means that they are found.
fn bounds(section: &mut Section<'_>) -> Bounds {
    let watermark = section.number("watermark_per_backend");
    let deviation = section.number("percentage_deviation_for_bounds");
    let lower = section.number("lower_bound_per_backend");
    let upper = section.number("upper_bound_per_backend");
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
            // The core names what it was setting as the file does.
            section.refuse_number(error.what, error);
            Bounds::Auto
        },
        Bounds::Fixed,
    )
}

pub(super) fn workload(mut section: Section<'_>, settings: &mut Settings) {
    let limits = &mut settings.workloads;
    if let Some(window) = section.duration("window", MILLI * 1000..=DAY) {
        limits.window = clock::span(window);
    }
    if let Some(idle) = section.duration("idle", MILLI * 1000..=DAY) {
        limits.idle = clock::span(idle);
    }
    if let Some(most) = section.count("count_max", 1..=1 << 20) {
        limits.count_max = most;
    }
    if let Some(law) = urgency(&mut section) {
        settings.urgency = law;
    }
    section.finish();
}

fn urgency_weights(mut section: Section<'_>) -> [f64; 3] {
    let weights = URGENCY.map(|(key, default)| {
        let weight = section.number(key).unwrap_or(default);
        // Each is tried alone, so that all that are wrong are told at once.
        match UrgencyWeights::new([weight; 3], Span::from_secs(1), 1.0) {
            Ok(_) => weight,
            Err(error) => {
                section.refuse_number(key, error);
                default
            }
        }
    });
    section.finish();
    weights
}

fn urgency(section: &mut Section<'_>) -> Option<UrgencyWeights> {
    let weights = urgency_weights(section.section("weights"));
    let wait_cap =
        section.duration("wait_cap", MILLI..=DAY).map_or(Span::from_secs(60), clock::span);
    let rate_cap = section.number("rate_cap").unwrap_or(100.0);
    let law = UrgencyWeights::new(weights, wait_cap, rate_cap);
    law.map_err(|error| section.refuse_number("rate_cap", error)).ok()
}
