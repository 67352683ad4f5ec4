//! The list `dispatch.gates`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::keys::GATES;
use crate::config::resolved::dispatch::{Gate, GateKind, System};
use crate::schema::{Location, Node, Origin, Report, Section, Table, Value};

/// The shortest age at which a reading no longer counts, unless a gate says otherwise.
const STALE_AFTER_MIN: Duration = Duration::from_secs(5);

/// The gates that can be used, and the names of all: a gate with a problem is reported once, not
/// again by every queue that names it.
pub(super) fn gates(sections: Vec<Section<'_>>) -> (Vec<Gate>, Vec<String>) {
    let mut names = BTreeMap::new();
    let mut gates = Vec::new();
    for section in sections {
        let read = gate(&section);
        if let Some(name) = section.given::<String>("name") {
            let here = section.location().path.clone();
            if let Some(other) = names.insert(name.clone(), here) {
                let what = format!("is {name:?}, which is the name of {other} already");
                section.refuse("name", what);
            }
            gates.extend(read);
        }
    }
    (gates, names.into_keys().collect())
}

/// A gate of this kind and name with its defaults.
pub(super) fn usual(kind: &str) -> Option<Gate> {
    let report = Report::new(None);
    let text = || Node::given(Value::Text(kind.into()), String::new(), Origin::File);
    let table = Table::from([("name".to_owned(), text()), ("kind".to_owned(), text())]);
    gate(&Section::new(&GATES, table, Location::default(), &report))
}

fn gate(section: &Section<'_>) -> Option<Gate> {
    let name = section.kind()?;
    let system = system(section);
    let is_sized = section.has("capacity") || section.has("capacity_per_server");
    if !is_sized && !knows_its_size(name) {
        let what = "is missing: say how many requests the whole system can have at once";
        section.refuse("capacity", what);
    }
    if matches!(system, System::PerServer { .. }) && !knows_its_servers(name) {
        let what = "cannot be used: this kind does not know how many servers are ready";
        section.refuse("capacity_per_server", what);
    }
    let interval: Duration = section.get("interval");
    Some(Gate {
        name: section.given("name").unwrap_or_default(),
        kind: kind(name, section)?,
        baseline: section.get("baseline"),
        system,
        unit: section.get("unit"),
        interval,
        stale_after: section.given("stale_after").unwrap_or((interval * 3).max(STALE_AFTER_MIN)),
        hold: section.get("hold"),
    })
}

fn system(section: &Section<'_>) -> System {
    let (fixed, each) = (section.given("capacity"), section.given("capacity_per_server"));
    if fixed.is_some() && each.is_some() {
        section.refuse("capacity_per_server", "is given beside capacity: leave one out");
    }
    match (fixed, each) {
        (Some(fixed), _) => System::Fixed(fixed),
        (None, Some(each)) => System::PerServer { each, ready: section.given("ready_metric") },
        (None, None) => System::Known,
    }
}

fn kind(name: &str, section: &Section<'_>) -> Option<GateKind> {
    let kind = match name {
        "gateway" => GateKind::Gateway { rest: section.get("rest") },
        "constant" => GateKind::Constant(section.get("value")),
        "redis" => GateKind::RedisKey { url: section.given("url")?, key: section.get("key") },
        "scrape" => GateKind::Scrape {
            url: section.given("url")?,
            metric: section.given("metric")?,
            labels: section
                .map("labels")
                .into_iter()
                .map(|(name, value, _)| (name, value))
                .collect(),
            says: section.get("says"),
        },
        "prometheus-saturation" => GateKind::PrometheusSaturation {
            url: section.given("url")?,
            pool: section.given("pool")?,
        },
        "prometheus-budget" => GateKind::PrometheusBudget {
            url: section.given("url")?,
            pool: section.given("pool")?,
            max_concurrency: section.get("max_concurrency"),
        },
        "prometheus-query" => {
            GateKind::PrometheusQuery { url: section.given("url")?, query: section.given("query")? }
        }
        "aimd" => {
            let (min, max): (u32, u32) = (section.get("min"), section.get("max"));
            if max < min {
                section.refuse("max", format!("is {max}, which is less than min"));
            }
            GateKind::Aimd { min, max }
        }
        _ => return None,
    };
    Some(kind)
}

/// Whether a gate finds out by itself what the whole system can have at once.
fn knows_its_size(kind: &str) -> bool {
    matches!(kind, "gateway" | "aimd" | "prometheus-budget")
}

/// Whether a gate can find out how many servers are ready.
fn knows_its_servers(kind: &str) -> bool {
    !matches!(kind, "constant" | "redis" | "gateway")
}
