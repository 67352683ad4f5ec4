//! The sections about backends: `discovery`, `health`, `metrics`, `upstream`, `retry`.

use super::backends;
use crate::config::settings::FleetSettings;
use crate::schema::Section;

pub(in crate::config) fn fleet(root: &Section<'_>) -> FleetSettings {
    let [health, upstream, retry] = ["health", "upstream", "retry"].map(|key| root.section(key));
    let mut fleet = FleetSettings {
        backends: backends::backends(root.sections("backends")),
        configured_models: Vec::new(),
        endpoints_file: root.section("discovery").path("endpoints_file"),
        addressed: false,
        discover: false,
        health_interval: health.get("interval"),
        health_timeout: health.get("timeout"),
        scrape_interval: root.section("metrics").get("interval"),
        eject_after: health.get("eject_after"),
        eject_for: health.get("eject_for"),
        silence_limit: health.get("silence_limit"),
        slow_start: health.get("slow_start"),
        connect_timeout: upstream.get("connect_timeout"),
        answer_timeout: upstream.get("answer_timeout"),
        stall_timeout: upstream.get("stall_timeout"),
        attempts_max: retry.get("attempts"),
        retry_share: retry.get("share"),
    };
    discovery(&root.section("discovery"), &mut fleet);
    fleet
}

/// Without a backend there is nothing to serve, so that Tidegate looks for one.
fn discovery(section: &Section<'_>, fleet: &mut FleetSettings) {
    let named = !fleet.backends.is_empty() || fleet.endpoints_file.is_some();
    let enabled = section.given("enabled");
    fleet.discover = enabled.unwrap_or(!named);
    let unknown = section.report().has_problems_in(&["backends", "discovery"]);
    if enabled == Some(false) && !named && !unknown {
        let what = "is false and there are no backends: name one in [[backends]] or by --backend";
        section.refuse("enabled", what);
    }
}
