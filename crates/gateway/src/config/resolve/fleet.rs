//! The sections about model servers: `discovery`, `health`, `metrics`, `upstream`, `retry`.

use std::time::Duration;

use super::{DAY, HOUR, MILLI, backends, beside, set};
use crate::config::Source;
use crate::config::resolved::FleetSettings;
use crate::config::section::Section;

pub(super) fn resolve(root: &mut Section<'_>, source: &Source) -> FleetSettings {
    let mut fleet = FleetSettings {
        backends: backends::resolve(root.sections("backends"), source, root.report()),
        ..FleetSettings::default()
    };
    discovery(root.section("discovery"), &mut fleet, source);
    health(root.section("health"), &mut fleet);
    upstream(root.section("upstream"), &mut fleet);
    let mut metrics = root.section("metrics");
    if let Some(interval) = metrics.duration("interval", MILLI * 50..=HOUR) {
        fleet.scrape_interval = interval;
    }
    metrics.finish();
    retry(root.section("retry"), &mut fleet);
    fleet
}

/// With nothing named there is nothing to serve: then it looks around by itself.
fn discovery(mut section: Section<'_>, fleet: &mut FleetSettings, source: &Source) {
    let listed = section.text("endpoints_file").map(|path| beside(source, path));
    fleet.endpoints_file = source.endpoints.clone().or(listed);
    let named = !fleet.backends.is_empty() || fleet.endpoints_file.is_some();
    let enabled = section.flag("enabled");
    fleet.discover = enabled.unwrap_or(!named);
    if enabled == Some(false) && !named && !section.report().has_problems() {
        let what = "is false and there are no backends: name one in [[backends]] or by --backend";
        section.refuse("enabled", what.into());
    }
    section.finish();
}

fn health(mut section: Section<'_>, fleet: &mut FleetSettings) {
    set(&mut fleet.health_interval, section.duration("interval", MILLI * 100..=HOUR));
    set(&mut fleet.health_timeout, section.duration("timeout", MILLI * 10..=HOUR));
    set(&mut fleet.eject_after, section.count("eject_after", 1..=1000));
    set(&mut fleet.eject_for, section.duration("eject_for", MILLI * 10..=HOUR));
    set(&mut fleet.slow_start, section.duration("slow_start", Duration::ZERO..=HOUR));
    section.finish();
}

fn upstream(mut section: Section<'_>, fleet: &mut FleetSettings) {
    set(&mut fleet.connect_timeout, section.duration("connect_timeout", MILLI..=HOUR));
    set(&mut fleet.answer_timeout, section.duration("answer_timeout", MILLI..=DAY));
    set(&mut fleet.stall_timeout, section.duration("stall_timeout", MILLI..=DAY));
    section.finish();
}

fn retry(mut section: Section<'_>, fleet: &mut FleetSettings) {
    set(&mut fleet.attempts_max, section.count("attempts", 1..=100));
    if let Some(share) = section.number("share") {
        if (0.0..=10.0).contains(&share) {
            fleet.retry_share = share;
        } else {
            section.refuse("share", format!("is {share}, allowed is 0 to 10"));
        }
    }
    section.finish();
}
