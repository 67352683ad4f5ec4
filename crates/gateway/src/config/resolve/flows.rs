//! The flow that a request belongs to, and the lists `flows` and `band_rules`.

use std::time::Duration;

use flow::identity::{Attribute, ClassRule};
use flow::{FlowClass, Settings, Span, Weight};
use http::HeaderName;

use crate::clock;
use crate::config::settings::{BandRule, Identity, SessionPart};
use crate::schema::{Location, Misfit, Section, nearest};

/// The names of parts; `header:NAME` stands for any header.
const PARTS: [(&str, Attribute); 6] = [
    ("model", Attribute::Model),
    ("target_model", Attribute::TargetModel),
    ("tenant", Attribute::Tenant),
    ("workload", Attribute::Workload),
    ("fairness_id", Attribute::FairnessId),
    ("address", Attribute::Address),
];
const HEADER: &str = "header:";
/// The session that a request names, as a part of `session_by`.
const SESSION: &str = "session";
const ALLOWED: &str = "model, target_model, tenant, workload, fairness_id, address or header:NAME";

pub(super) fn identity(
    parts: Vec<Attribute>,
    session_parts: Vec<SessionPart>,
    rules: Vec<ClassRule>,
) -> Identity {
    let default = Identity::default();
    let parts = if parts.is_empty() { default.parts } else { parts };
    Identity { parts, session_parts, rules }
}

/// `flow_by`, in the order given.
pub(super) fn parts(section: &Section<'_>) -> Vec<Attribute> {
    let Some(texts) = section.texts("flow_by") else {
        let default: Vec<String> = section.get("flow_by");
        return default.iter().filter_map(|name| part(name).ok()).collect();
    };
    if texts.is_empty() {
        section.refuse("flow_by", format!("is an empty list, allowed is at least one {ALLOWED}"));
    }
    distinct(section, texts, part)
}

/// `session_by`, in the order given.
pub(super) fn session_parts(section: &Section<'_>) -> Vec<SessionPart> {
    let part = |name: &str| match name {
        SESSION => Ok(SessionPart::Session),
        _ => part(name)
            .map(SessionPart::Attribute)
            .map_err(|Misfit(hint)| Misfit(format!("{hint}, or {SESSION}"))),
    };
    distinct(section, section.texts("session_by").unwrap_or_default(), part)
}

/// The parts that these names stand for. A wrong name and a second mention are problems.
fn distinct<T: PartialEq>(
    section: &Section<'_>,
    texts: Vec<(String, Location)>,
    part: impl Fn(&str) -> Result<T, Misfit>,
) -> Vec<T> {
    let mut parts = Vec::new();
    for (text, location) in texts {
        match part(&text) {
            Ok(part) if parts.contains(&part) => {
                section.report().problem(&location, format!("is {text:?} for a second time"));
            }
            Ok(part) => parts.push(part),
            Err(hint) => section.report().problem(&location, format!("is {text:?}; {hint}")),
        }
    }
    parts
}

/// The part that a name stands for, or what would be right.
pub(super) fn part(name: &str) -> Result<Attribute, Misfit> {
    if let Some((_, part)) = PARTS.iter().find(|(known, _)| *known == name) {
        return Ok(part.clone());
    }
    let header = name.strip_prefix(HEADER).map(str::trim);
    if let Some(header) = header.and_then(|header| HeaderName::from_bytes(header.as_bytes()).ok()) {
        return Ok(Attribute::Header(header.as_str().to_owned()));
    }
    let meant = nearest(name, PARTS.iter().map(|(known, _)| *known));
    let meant = meant.map_or(String::new(), |known| format!("did you mean '{known}'? "));
    Err(Misfit(format!("{meant}allowed is {ALLOWED}")))
}

/// The rules in their order; each has a class of its own, numbered from 1.
pub(super) fn rules(sections: Vec<Section<'_>>, settings: &mut Settings) -> Vec<ClassRule> {
    let mut rules = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        rules.push(ClassRule { patterns: patterns(section), class: at as u32 + 1 });
        let class = class(section, settings.default_class);
        settings.classes.push(class);
    }
    rules
}

/// The rules of bands in their order.
pub(super) fn band_rules(sections: Vec<Section<'_>>) -> Vec<BandRule> {
    let rule = |section: &Section<'_>| {
        if !section.has("band") && !section.has("band_max") {
            section.refuse("band", "is missing: give band, band_max or both");
        }
        BandRule {
            patterns: patterns(section),
            band: section.given("band"),
            band_max: section.given("band_max"),
        }
    };
    sections.iter().map(rule).collect()
}

fn patterns(section: &Section<'_>) -> Vec<(Attribute, String)> {
    let names = section.map::<String>("match");
    if names.is_empty() && section.has_value("match") {
        let what = format!("is empty, allowed is at least one {ALLOWED}, each with a pattern");
        section.refuse("match", what);
    }
    let mut patterns = Vec::new();
    for (name, pattern, location) in names {
        match part(&name) {
            Ok(part) => patterns.push((part, pattern)),
            Err(hint) => section.report().problem(&location, format!("is not a known key; {hint}")),
        }
    }
    patterns
}

fn class(section: &Section<'_>, default: FlowClass) -> FlowClass {
    FlowClass {
        weight: weight(section, "weight", section.get("weight")).unwrap_or(default.weight),
        capacity: section.given("capacity").unwrap_or(default.capacity),
        ttl: section.given("queue_ttl").map_or(default.ttl, clock::span),
        objective: section.given("slo_ttft").map(objective),
        in_flight_max: section.given("max_in_flight"),
        in_flight_per_backend_max: section.given("max_in_flight_per_backend"),
    }
}

/// A wanted time to first token, as the core takes it.
pub(super) fn objective(time: Duration) -> Span {
    if time.is_zero() { Span::FOREVER } else { clock::span(time) }
}

/// A share of service, as the core takes it.
pub(super) fn weight(section: &Section<'_>, key: &str, value: f64) -> Option<Weight> {
    Weight::new(value).map_err(|error| section.refuse(key, error)).ok()
}
