//! The section `router`: how backends are weighed against each other.

use flow::{RouteTerms, RouteWeights, Settings};

use crate::config::section::Section;

/// A key and the term it sets.
type Term = (&'static str, fn(&mut RouteTerms) -> &mut f64);

const TERMS: [Term; 8] = [
    ("queue_depth_penalty_per_request", |terms| &mut terms.depth_penalty),
    ("engine_waiting_penalty_per_request", |terms| &mut terms.engine_waiting_penalty),
    ("fill_penalty", |terms| &mut terms.fill_penalty),
    ("kv_penalty", |terms| &mut terms.kv_penalty),
    ("kv_threshold", |terms| &mut terms.kv_threshold),
    ("prefix_bonus", |terms| &mut terms.prefix_bonus),
    ("adapter_bonus", |terms| &mut terms.adapter_bonus),
    ("measured_latency_share", |terms| &mut terms.measured_share),
];

/// The keys of the boosts, from best-effort to critical.
const BOOSTS: [&str; flow::BANDS] =
    ["best_effort_penalty", "normal_boost", "high_boost", "critical_boost"];

pub(super) fn resolve(mut section: Section<'_>, settings: &mut Settings) {
    let mut terms = RouteTerms::default();
    for (key, term) in TERMS {
        let Some(value) = section.number(key) else { continue };
        // Each is tried alone, so that all that are wrong are told at once.
        let mut alone = RouteTerms::default();
        *term(&mut alone) = value;
        match RouteWeights::new(alone) {
            Ok(_) => *term(&mut terms) = value,
            Err(error) => section.refuse_number(key, error),
        }
    }
    let mut keys = section.section("priority_scoring");
    boosts(&mut keys, &mut terms);
    match RouteWeights::new(terms) {
        Ok(law) => settings.route = law,
        // All that is left to go wrong is the order of the boosts.
        Err(error) => {
            let key = BOOSTS.into_iter().find(|key| error.what.ends_with(key));
            keys.refuse_number(key.unwrap_or(BOOSTS[0]), error);
        }
    }
    keys.finish();
    section.finish();
}

fn boosts(keys: &mut Section<'_>, terms: &mut RouteTerms) {
    for (band, key) in BOOSTS.into_iter().enumerate() {
        let Some(boost) = keys.number(key) else { continue };
        let alone = RouteTerms { boosts: [boost; flow::BANDS], ..RouteTerms::default() };
        match RouteWeights::new(alone) {
            Ok(_) => terms.boosts[band] = boost,
            Err(error) => keys.refuse_number(key, error),
        }
    }
}
