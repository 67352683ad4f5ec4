//! The section `router`: how backends are compared.

use flow::{RouteTerms, RouteWeights, Settings};

use crate::config::settings::Conventions;
use crate::schema::Section;

/// The keys of the boosts, from best-effort to critical.
const BOOSTS: [&str; flow::BANDS] =
    ["best_effort_penalty", "normal_boost", "high_boost", "critical_boost"];

pub(super) fn router(section: &Section<'_>, conventions: Conventions, settings: &mut Settings) {
    let scoring = section.section("priority_scoring");
    settings.cache_tokens = section.get("cache_tokens");
    let terms = RouteTerms { flat_depth: conventions.flat_depth, ..terms(section, &scoring) };
    match RouteWeights::new(terms) {
        Ok(weights) => settings.route = weights,
        // Each number is in its range, so that only the order of the boosts can be wrong.
        Err(error) => {
            let key = BOOSTS.into_iter().find(|key| error.what.ends_with(key));
            let what = format!("is {}, allowed is {}", error.value, error.allowed);
            scoring.refuse(key.unwrap_or(BOOSTS[0]), what);
        }
    }
}

fn terms(section: &Section<'_>, scoring: &Section<'_>) -> RouteTerms {
    RouteTerms {
        depth_penalty: section.get("queue_depth_penalty_per_request"),
        engine_waiting_penalty: section.get("engine_waiting_penalty_per_request"),
        fill_penalty: section.get("fill_penalty"),
        kv_penalty: section.get("kv_penalty"),
        kv_threshold: section.get("kv_threshold"),
        prefix_bonus: section.get("prefix_bonus"),
        adapter_bonus: section.get("adapter_bonus"),
        measured_share: section.get("measured_latency_share"),
        boosts: BOOSTS.map(|key| scoring.get(key)),
        flat_depth: false,
    }
}
