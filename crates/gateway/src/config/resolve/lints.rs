//! Notices about values that are valid, but probably a mistake.
//!
//! Every notice is certain. Models, clients and addresses that only a running gateway can know give
//! none, and neither do sections with a problem, whose meaning is not known yet.

use std::collections::{BTreeMap, BTreeSet};

use flow::identity::{Attribute, glob};
use flow::{Band, Cascade};

use super::flows;
use crate::config::sections::server_address;
use crate::config::settings::{BandRule, Config, FleetSettings};
use crate::schema::{Section, nearest, spelling};

/// Entries of `flows` that are compared with each other. The work grows with the square.
const RULES_MAX: usize = 1000;

/// The keys of an entry that are settings of a whole flow. A time to live is a request's own.
const FLOW_KEYS: [&str; 4] = ["weight", "capacity", "max_in_flight", "max_in_flight_per_backend"];

/// The name of a backend's model that stands for all models.
const ANY: &str = "*";

/// Adds the notices about a configuration.
pub(super) fn notice(root: &Section<'_>, config: &Config) {
    let is_known = |sections: &[&str]| !root.report().has_problems_in(sections);
    let listed = listed_models(&config.fleet);
    let listed = listed.filter(|_| is_known(&["backends", "discovery", "models"]));
    if let Some(listed) = &listed {
        unserved_targets(root, listed);
    }
    if is_known(&["queue", "flows"]) {
        flow_rules(root, config, listed.as_ref());
    }
    if is_known(&["band_rules"]) {
        band_rules(root, &config.band_rules);
    }
    if is_known(&["queue", "tenants", "band_rules"])
        && matches!(config.flow.cascade, Cascade::Weighted(_))
    {
        one_band_per_tenant(root, config);
    }
    shared_addresses(root);
}

/// The models of all backends, if the configuration states all of them.
fn listed_models(fleet: &FleetSettings) -> Option<BTreeSet<&str>> {
    let is_complete = |models: &[String]| !models.is_empty() && !models.iter().any(|it| it == ANY);
    let complete = fleet.backends.iter().all(|backend| is_complete(&backend.models));
    let followed = fleet.endpoints_file.is_some() || fleet.kubernetes.is_some();
    let more = fleet.discover || followed;
    let models = fleet.backends.iter().flat_map(|backend| &backend.models);
    (complete && !more).then(|| models.map(String::as_str).collect())
}

fn unserved_targets(root: &Section<'_>, listed: &BTreeSet<&str>) {
    for section in root.sections("models") {
        if !section.has("targets") {
            unserved_target(&section, "name", listed);
        }
        let targets = section.sections("targets");
        for target in targets.iter().filter(|target| target.get::<u32>("weight") > 0) {
            unserved_target(target, "model", listed);
        }
    }
}

fn unserved_target(section: &Section<'_>, key: &str, listed: &BTreeSet<&str>) {
    let Some(model) = section.given::<String>(key) else { return };
    if listed.contains(model.as_str()) {
        return;
    }
    let meant = nearest(&model, listed.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
    let what = "which no backend lists: requests for it wait for such a backend";
    section.notice(key, format!("is {model:?}, {what}{meant}"));
}

fn flow_rules(root: &Section<'_>, config: &Config, listed: Option<&BTreeSet<&str>>) {
    let rules = &config.identity.rules;
    let sections = root.sections("flows");
    for (at, (section, rule)) in sections.iter().zip(rules).enumerate() {
        let mut compared = rules[..at.min(RULES_MAX)].iter();
        let first = compared.position(|earlier| covers(&earlier.patterns, &rule.patterns));
        if let Some(first) = first {
            let what = format!("never applies: flows[{first}] matches all of its requests first");
            section.report().notice(section.location(), what);
            continue;
        }
        if let Some(listed) = listed {
            unknown_models(section, config, listed);
        }
        if FLOW_KEYS.iter().any(|key| section.has_value(key)) {
            parts_outside_flow_by(section, &config.identity.parts);
        }
    }
}

/// Whether every request that matches `narrow` matches `wide`. In a pattern that covers another
/// one, only `*` can stand for the `*` of the other, so that [`glob`] decides it.
fn covers(wide: &[(Attribute, String)], narrow: &[(Attribute, String)]) -> bool {
    wide.iter().all(|(part, wide)| {
        narrow.iter().any(|(other, narrow)| other == part && glob(wide, narrow))
    })
}

/// The other rules, with their positions, that match all requests of the rule at a position.
fn covering_rules(rules: &[BandRule], at: usize) -> Vec<(usize, &BandRule)> {
    let compared = &rules[..rules.len().min(RULES_MAX)];
    let others = compared.iter().enumerate().filter(|(other, _)| *other != at);
    others.filter(|(_, other)| covers(&other.patterns, &rules[at].patterns)).collect()
}

/// Bands and limits that no request gets because of other rules.
fn band_rules(root: &Section<'_>, rules: &[BandRule]) {
    for (at, (section, rule)) in root.sections("band_rules").iter().zip(rules).enumerate() {
        let covering = covering_rules(rules, at);
        let limits = covering.iter().filter_map(|(other, rule)| Some((rule.band_max?, *other)));
        let limit = limits.min();
        let first = covering.iter().find(|(other, rule)| *other < at && rule.band.is_some());
        if let (Some(_), Some((first, _))) = (rule.band, first) {
            let what = format!("band_rules[{first}] gives a band to all of its requests first");
            section.notice("band", format!("never applies: {what}"));
        } else {
            band_above_limits(section, rule, limit);
        }
        if let (Some(own), Some((lowest, other))) = (rule.band_max, limit)
            && (lowest, other) < (own, at)
        {
            section.notice("band_max", format!("has no effect: {}", limits_to(other, lowest)));
        }
    }
}

/// The band of a rule that it or another one does not allow.
fn band_above_limits(section: &Section<'_>, rule: &BandRule, limit: Option<(Band, usize)>) {
    let Some(band) = rule.band else { return };
    let shown = spelling(band);
    match (rule.band_max, limit) {
        (Some(own), _) if own < band => {
            let what = format!("above its band_max: its requests get {}", spelling(own));
            section.notice("band", format!("is {shown}, {what}"));
        }
        (_, Some((lowest, other))) if lowest < band => {
            section.notice("band", format!("is {shown}, and {}", limits_to(other, lowest)));
        }
        _ => {}
    }
}

fn limits_to(rule: usize, band: Band) -> String {
    format!("band_rules[{rule}] limits all of its requests to {}", spelling(band))
}

/// Settings of bands that tenants do not get, because the bands share by weights.
fn one_band_per_tenant(root: &Section<'_>, config: &Config) {
    const WHY: &str = "has no effect: with weights in queue.bands all requests of a tenant have \
                       its `band`";
    for (section, tenant) in root.sections("tenants").iter().zip(&config.tenants) {
        if tenant.band_max > tenant.one_band() {
            section.notice("band_max", WHY);
        }
    }
    for section in root.sections("band_rules").iter().filter(|_| !config.tenants.is_empty()) {
        section.report().notice(section.location(), WHY);
    }
}

/// Patterns of models that no request can have: a request for an unknown model is refused.
fn unknown_models(section: &Section<'_>, config: &Config, listed: &BTreeSet<&str>) {
    for (name, pattern, location) in section.map::<String>("match") {
        let matches = |model: &str| glob(&pattern, model);
        let mut targets = config.names.targets();
        let known = match flows::part(&name) {
            Ok(Attribute::Model) => config.names.ruled().chain(targets).any(matches),
            Ok(Attribute::TargetModel) => targets.any(matches),
            _ => continue,
        };
        if !known && !listed.iter().any(|model| matches(model)) {
            let what = "and no backend lists such a model: the entry never applies";
            section.report().notice(&location, format!("is {pattern:?}, {what}"));
        }
    }
}

/// Patterns of parts that differ between the requests of one flow.
fn parts_outside_flow_by(section: &Section<'_>, parts: &[Attribute]) {
    for (name, _, location) in section.map::<String>("match") {
        let Ok(part) = flows::part(&name) else { continue };
        // Most names stand for one model.
        let by_name = part == Attribute::TargetModel && parts.contains(&Attribute::Model);
        if !by_name && !parts.contains(&part) {
            let what = "is not in queue.flow_by: requests with other values are in the same \
                        flow, and each request changes the settings of that flow";
            section.report().notice(&location, what);
        }
    }
}

fn shared_addresses(root: &Section<'_>) {
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for section in root.sections("backends") {
        let Some(url) = section.given::<String>("url") else { continue };
        let Some(address) = server_address(&url) else { continue };
        let authority = url.split("://").nth(1).unwrap_or_default();
        let authority = authority.split('/').next().unwrap_or_default();
        let id = section.given("id").unwrap_or_else(|| authority.to_owned());
        if let Some(other) = ids.get(&address) {
            let what = "too: the server gets the requests of both, each up to its own bounds";
            section.notice("url", format!("is the address of {other:?} {what}"));
        }
        ids.entry(address).or_insert(id);
    }
}
