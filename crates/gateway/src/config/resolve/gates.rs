//! The list `dispatch.gates`: what lets batch work go.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::start_limiter::StartLimiterSettings;

use super::{DAY, HOUR, MILLI, set};
use crate::config::keywords::{self, Keywords};
use crate::config::resolved::dispatch::{Gate, GateKind, Says, System};
use crate::config::section::Section;
use crate::config::tree::{Node, Value};
use crate::upstream::client::BaseUrl;

/// Half of the time at most goes into starts of batch work while somebody else is there.
const REST: f64 = 1.0;

/// Kinds as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Constant,
    Gateway,
    Redis,
    Scrape,
    Saturation,
    Budget,
    Query,
    Aimd,
}

const KINDS: Keywords<Kind> = &[
    ("gateway", Kind::Gateway),
    ("constant", Kind::Constant),
    ("redis", Kind::Redis),
    ("scrape", Kind::Scrape),
    ("prometheus-saturation", Kind::Saturation),
    ("prometheus-budget", Kind::Budget),
    ("prometheus-query", Kind::Query),
    ("aimd", Kind::Aimd),
    ("endpoint-scrape", Kind::Scrape),
];

/// A gate's own keys, and the kinds that know them.
const OWN: &[(&str, &[Kind])] = &[
    ("value", &[Kind::Constant]),
    ("rest", &[Kind::Gateway]),
    ("url", &[Kind::Redis, Kind::Scrape, Kind::Saturation, Kind::Budget, Kind::Query]),
    ("key", &[Kind::Redis]),
    ("metric", &[Kind::Scrape]),
    ("labels", &[Kind::Scrape]),
    ("says", &[Kind::Scrape]),
    ("pool", &[Kind::Saturation, Kind::Budget]),
    ("max_concurrency", &[Kind::Budget]),
    ("query", &[Kind::Query]),
    ("min", &[Kind::Aimd]),
    ("max", &[Kind::Aimd]),
];

/// Values of all own keys; which of them count depends on the kind.
struct Own {
    value: Option<f64>,
    rest: Option<f64>,
    url: Option<String>,
    key: Option<String>,
    metric: Option<String>,
    labels: Vec<(String, String)>,
    says: Option<Says>,
    pool: Option<String>,
    max_concurrency: Option<f64>,
    query: Option<String>,
    min: Option<u32>,
    max: Option<u32>,
}

/// The gates that can be used, and the names of all: one that is wrong is told once, not again by
/// every queue that names it.
pub(super) fn resolve(sections: Vec<Section<'_>>) -> (Vec<Gate>, Vec<String>) {
    let mut names = BTreeMap::new();
    let mut gates = Vec::new();
    for mut section in sections {
        section.require("name");
        section.require("kind");
        let name = section.text("name");
        let read = gate(&mut section);
        if let Some(name) = name {
            let here = section.place().path.clone();
            if let Some(other) = names.insert(name.clone(), here) {
                let what = format!("is {name:?}, which is the name of {other} already");
                section.refuse("name", what);
            }
            gates.extend(read.map(|gate| Gate { name, ..gate }));
        }
        section.finish();
    }
    (gates, names.into_keys().collect())
}

/// The gate of queues whose target is this gateway.
pub(super) fn inside(name: &str) -> Gate {
    Gate { name: name.into(), ..Gate::of(GateKind::Gateway { rest: REST }) }
}

/// The gate of queues whose target is another server, of which nothing else is known.
pub(super) fn outside(name: &str) -> Gate {
    Gate { name: name.into(), ..Gate::of(GateKind::Aimd { min: 1, max: 256 }) }
}

/// A gate without its name.
fn gate(section: &mut Section<'_>) -> Option<Gate> {
    let kind = section.word("kind", KINDS);
    let given: Vec<&'static str> =
        OWN.iter().map(|&(key, _)| key).filter(|key| section.has(key)).collect();
    let own = Own::read(section);
    let is_sized = section.has("capacity") || section.has("capacity_per_server");
    let common = common(section);
    let kind = kind?;
    for &(key, kinds) in OWN.iter().filter(|(key, _)| given.contains(key)) {
        if !kinds.contains(&kind) {
            let kind = keywords::name(KINDS, kind);
            section.refuse(key, format!("means nothing to a gate of the kind {kind:?}"));
        }
    }
    // What is there but wrong is told already, and is not missing.
    for key in kind.needs().iter().filter(|key| !given.contains(key)) {
        section.refuse(key, "is missing".into());
    }
    if !is_sized && !kind.knows_its_size() {
        let what = "is missing: say how many requests the whole system can have at once";
        section.refuse("capacity", what.into());
    }
    if matches!(common.system, System::PerServer { .. }) && !kind.knows_its_servers() {
        let what = "cannot be used: this kind does not know how many servers are ready";
        section.refuse("capacity_per_server", what.into());
    }
    Some(Gate { kind: own.into_kind(kind, section)?, ..common })
}

fn common(section: &mut Section<'_>) -> Gate {
    let mut gate = Gate::of(GateKind::Gateway { rest: REST });
    if let Some(baseline) = section.number("baseline") {
        if (0.0..1.0).contains(&baseline) {
            gate.baseline = baseline;
        } else {
            section.refuse("baseline", format!("is {baseline}, allowed is 0 to less than 1"));
        }
    }
    gate.system = system(section);
    set(&mut gate.unit, section.word("unit", keywords::UNITS));
    set(&mut gate.interval, section.duration("interval", MILLI * 10..=HOUR));
    gate.stale_after = section
        .duration("stale_after", MILLI * 10..=DAY)
        .unwrap_or((gate.interval * 3).max(Duration::from_secs(5)));
    set(&mut gate.hold, section.duration("hold", Duration::ZERO..=HOUR));
    gate
}

fn system(section: &mut Section<'_>) -> System {
    let fixed = positive(section, "capacity");
    let each = positive(section, "capacity_per_server");
    let ready = section.text("ready_metric");
    if fixed.is_some() && each.is_some() {
        section.refuse("capacity_per_server", "is given beside capacity: leave one out".into());
    }
    match (fixed, each) {
        (Some(fixed), _) => System::Fixed(fixed),
        (None, Some(each)) => System::PerServer { each, ready },
        (None, None) => System::Known,
    }
}

fn positive(section: &mut Section<'_>, key: &'static str) -> Option<f64> {
    let number = section.number(key)?;
    if number > 0.0 && number <= 1e12 {
        return Some(number);
    }
    section.refuse(key, format!("is {number}, allowed is more than 0"));
    None
}

fn rest(section: &mut Section<'_>) -> Option<f64> {
    let rest = section.number("rest")?;
    let law = StartLimiterSettings::new(rest);
    if law.is_err() {
        section.refuse("rest", format!("is {rest}, allowed is 0 to 1000"));
    }
    law.is_ok().then_some(rest)
}

fn labels(section: &mut Section<'_>) -> Vec<(String, String)> {
    let report = section.report();
    let table = section.section("labels").into_table();
    let label = |(name, node): (String, Node)| match node.value {
        Value::Text(value) => Some((name, value)),
        other => {
            report.problem(&node.place, format!("is {other}, allowed is a text"));
            None
        }
    };
    table.into_iter().filter_map(label).collect()
}

// === impl Kind ===

impl Kind {
    /// Keys of its own that have no default.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["url"],
            Self::Scrape => &["url", "metric"],
            Self::Saturation | Self::Budget => &["url", "pool"],
            Self::Query => &["url", "query"],
            Self::Constant | Self::Gateway | Self::Aimd => &[],
        }
    }

    /// Whether it finds out by itself what the whole system can have at once.
    fn knows_its_size(self) -> bool {
        matches!(self, Self::Gateway | Self::Aimd | Self::Budget)
    }

    /// Whether it can find out how many servers are ready.
    fn knows_its_servers(self) -> bool {
        !matches!(self, Self::Constant | Self::Redis | Self::Gateway)
    }
}

// === impl Own ===

impl Own {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            value: section.number("value"),
            rest: rest(section),
            url: section.text("url"),
            key: section.text("key"),
            metric: section.text("metric"),
            labels: labels(section),
            says: section.word("says", keywords::SAYS),
            pool: section.text("pool"),
            max_concurrency: positive(section, "max_concurrency"),
            query: section.text("query"),
            min: section.count("min", 1..=65_536),
            max: section.count("max", 1..=65_536),
        }
    }

    fn into_kind(self, kind: Kind, section: &Section<'_>) -> Option<GateKind> {
        let http = matches!(kind, Kind::Scrape | Kind::Saturation | Kind::Budget | Kind::Query);
        if let Some(Err(problem)) = self.url.as_deref().filter(|_| http).map(BaseUrl::parse) {
            section.refuse("url", problem);
        }
        Some(match kind {
            Kind::Gateway => GateKind::Gateway { rest: self.rest.unwrap_or(REST) },
            Kind::Constant => GateKind::Constant(self.value.unwrap_or(1.0).clamp(0.0, 1.0)),
            Kind::Redis => GateKind::RedisKey {
                url: self.url?,
                key: self.key.unwrap_or_else(|| "dispatch-gate-budget".into()),
            },
            Kind::Scrape => GateKind::Scrape {
                url: self.url?,
                metric: self.metric?,
                labels: self.labels,
                says: self.says.unwrap_or_default(),
            },
            Kind::Saturation => GateKind::PrometheusSaturation { url: self.url?, pool: self.pool? },
            Kind::Budget => GateKind::PrometheusBudget {
                url: self.url?,
                pool: self.pool?,
                max_concurrency: self.max_concurrency.unwrap_or(100.0),
            },
            Kind::Query => GateKind::PrometheusQuery { url: self.url?, query: self.query? },
            Kind::Aimd => {
                let (min, max) = (self.min.unwrap_or(1), self.max.unwrap_or(256));
                if max < min {
                    section.refuse("max", format!("is {max}, which is less than min"));
                }
                GateKind::Aimd { min, max }
            }
        })
    }
}
