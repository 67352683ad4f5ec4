//! Which flow a request belongs to, and the list `flows`: what a kind of flow may have.

use flow::identity::{Attribute, ClassRule};
use flow::{CAPACITY_MAX, FlowClass, Settings, Weight};
use http::HeaderName;

use super::{DAY, MILLI};
use crate::clock;
use crate::config::resolved::Identity;
use crate::config::section::Section;
use crate::config::suggest;

/// The names of parts; `header:NAME` stands for any header.
const PARTS: [(&str, Attribute); 4] = [
    ("model", Attribute::Model),
    ("target_model", Attribute::TargetModel),
    ("workload", Attribute::Workload),
    ("fairness_id", Attribute::FairnessId),
];
const HEADER: &str = "header:";
const ALLOWED: &str = "model, target_model, workload, fairness_id or header:NAME";

pub(super) fn identity(parts: Vec<Attribute>, rules: Vec<ClassRule>) -> Identity {
    let default = Identity::default();
    let parts = if parts.is_empty() { default.parts } else { parts };
    Identity { parts, rules }
}

/// `flow_by`, in the order given.
pub(super) fn parts(section: &mut Section<'_>) -> Vec<Attribute> {
    let Some(texts) = section.texts("flow_by") else { return Vec::new() };
    if texts.is_empty() {
        section.refuse("flow_by", format!("is an empty list, allowed is at least one {ALLOWED}"));
    }
    let mut parts = Vec::new();
    for (text, place) in texts {
        match part(&text) {
            Ok(part) if parts.contains(&part) => {
                section.report().problem(&place, format!("is {text:?} for a second time"));
            }
            Ok(part) => parts.push(part),
            Err(hint) => section.report().problem(&place, format!("is {text:?}; {hint}")),
        }
    }
    parts
}

/// The part that a name stands for, or what would be right.
fn part(name: &str) -> Result<Attribute, String> {
    if name == "tenant" {
        return Err("it is not available yet: there are no API keys and no tenants".into());
    }
    if let Some((_, part)) = PARTS.iter().find(|(known, _)| *known == name) {
        return Ok(part.clone());
    }
    let header = name.strip_prefix(HEADER).map(str::trim);
    if let Some(header) = header.and_then(|header| HeaderName::from_bytes(header.as_bytes()).ok()) {
        return Ok(Attribute::Header(header.as_str().to_owned()));
    }
    let meant = suggest::nearest(name, PARTS.iter().map(|(known, _)| *known));
    let meant = meant.map_or(String::new(), |known| format!("did you mean '{known}'? "));
    Err(format!("{meant}allowed is {ALLOWED}"))
}

/// The rules in their order; each has a class of its own, numbered from 1.
pub(super) fn resolve(sections: Vec<Section<'_>>, settings: &mut Settings) -> Vec<ClassRule> {
    let mut rules = Vec::new();
    for (at, mut section) in sections.into_iter().enumerate() {
        rules.push(ClassRule { patterns: patterns(&mut section), class: at as u32 + 1 });
        let class = class(&mut section, settings.default_class);
        settings.classes.push(class);
        section.finish();
    }
    rules
}

fn patterns(section: &mut Section<'_>) -> Vec<(Attribute, String)> {
    let keys = section.section("match").into_table();
    if keys.is_empty() {
        let what = format!("is empty, allowed is at least one {ALLOWED}, each with a pattern");
        section.refuse("match", what);
    }
    let mut patterns = Vec::new();
    for (key, node) in keys {
        let part = part(&key).map_err(|hint| {
            section.report().problem(&node.place, format!("is not a known key; {hint}"));
        });
        let pattern = section.as_text(node);
        patterns.extend(part.ok().zip(pattern).map(|(part, (pattern, _))| (part, pattern)));
    }
    patterns
}

fn class(section: &mut Section<'_>, default: FlowClass) -> FlowClass {
    let weight = section.number("weight").and_then(|value| weight(section, "weight", value));
    FlowClass {
        weight: weight.unwrap_or(default.weight),
        capacity: section.count("capacity", 1..=CAPACITY_MAX).unwrap_or(default.capacity),
        ttl: section.duration("queue_ttl", MILLI..=DAY).map_or(default.ttl, clock::span),
        in_flight_max: section.count("max_in_flight", 1..=CAPACITY_MAX),
        in_flight_per_backend_max: section.count("max_in_flight_per_backend", 1..=CAPACITY_MAX),
    }
}

/// A share of service, as the core takes it.
pub(super) fn weight(section: &Section<'_>, key: &'static str, value: f64) -> Option<Weight> {
    Weight::new(value).map_err(|error| section.refuse_number(key, error)).ok()
}
