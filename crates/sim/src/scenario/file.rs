//! The shape of a scenario's file. Only here is it known how things are spelt.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::duration::DurationText;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) title: String,
    #[serde(default)]
    #[expect(dead_code, reason = "cases are expanded before the file is read")]
    pub(super) cases: Vec<toml::Table>,
    #[serde(default)]
    pub(super) about: String,
    pub(super) duration: DurationText,
    pub(super) warm_up: Option<DurationText>,
    pub(super) drain: Option<DurationText>,
    pub(super) network: Option<DurationText>,
    pub(super) metrics: Option<Metrics>,
    pub(super) scaling: Option<Scaling>,
    pub(super) engines: Vec<Engine>,
    pub(super) traffic: Vec<Traffic>,
    #[serde(default)]
    pub(super) tenants: Vec<Tenant>,
    #[serde(default)]
    pub(super) faults: Vec<Fault>,
    pub(super) policies: Vec<Policy>,
    pub(super) loads: Option<Vec<f64>>,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) slo: Option<Slo>,
    #[serde(default)]
    pub(super) columns: Vec<Column>,
    #[serde(default)]
    pub(super) expect: Vec<Expect>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    pub(super) every: DurationText,
    pub(super) lag: Option<DurationText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scaling {
    pub(super) min: Option<u32>,
    pub(super) start_up: DurationText,
    pub(super) poll: Option<DurationText>,
    pub(super) cool_down: Option<DurationText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub(super) profile: String,
    pub(super) count: Option<u32>,
    pub(super) kv_tokens: Option<u64>,
    pub(super) max_seqs: Option<u32>,
    pub(super) step_tokens: Option<u32>,
    pub(super) slots: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Traffic {
    pub(super) from: Option<DurationText>,
    pub(super) until: Option<DurationText>,
    pub(super) trace: Option<String>,
    pub(super) prompt: Option<f64>,
    pub(super) prompt_cv: Option<f64>,
    pub(super) output: Option<f64>,
    pub(super) output_cv: Option<f64>,
    pub(super) beginnings: Option<Beginnings>,
    pub(super) conversations: Option<Conversations>,
    pub(super) arrivals: Arrivals,
    pub(super) rate: Option<f64>,
    pub(super) cv: Option<f64>,
    pub(super) quiet_rate: Option<f64>,
    pub(super) on: Option<DurationText>,
    pub(super) off: Option<DurationText>,
    pub(super) periods: Option<Periods>,
    pub(super) speed: Option<f64>,
    pub(super) outstanding: Option<u32>,
    pub(super) think: Option<DurationText>,
    pub(super) pause: Option<DurationText>,
    pub(super) tenant: Option<String>,
    pub(super) band: Option<Band>,
    pub(super) bands: Option<BTreeMap<Band, f64>>,
    pub(super) patience: Option<DurationText>,
    pub(super) ttl: Option<DurationText>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beginnings {
    pub(super) count: u32,
    pub(super) tokens: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conversations {
    pub(super) count: u32,
    pub(super) turns: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arrivals {
    Poisson,
    Gamma,
    OnOff,
    Replay,
    Closed,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Periods {
    Random,
    Fixed,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Band {
    BestEffort,
    Normal,
    High,
    Critical,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) weight: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) at: DurationText,
    pub(super) engine: u32,
    pub(super) what: FaultKind,
    pub(super) factor: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    Crash,
    Return,
    Slow,
    NoMetrics,
    Metrics,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
    pub(super) routing: Option<Routing>,
    pub(super) cache_tokens: Option<u64>,
    pub(super) cache_slack: Option<u32>,
    pub(super) cache_reorder: Option<u32>,
    pub(super) cache_delay: Option<DurationText>,
    pub(super) watermark: Option<f64>,
    pub(super) pace: Option<DurationText>,
    pub(super) slo_tpot: Option<DurationText>,
    pub(super) reserve_share_max: Option<f64>,
    pub(super) cost: Option<Cost>,
    pub(super) capacity: Option<u32>,
    pub(super) flow_capacity: Option<u32>,
    pub(super) ttl: Option<DurationText>,
    pub(super) objective: Option<DurationText>,
    #[serde(default)]
    pub(super) without: Vec<String>,
    pub(super) metrics: Option<bool>,
    pub(super) unstreamed: Option<f64>,
    pub(super) told: Option<bool>,
    pub(super) places: Option<u32>,
    pub(super) budget: Option<u32>,
    pub(super) rest: Option<f64>,
    pub(super) scale_by: Option<ScaleBy>,
    pub(super) scale_target: Option<f64>,
    pub(super) fixed_engines: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ScaleBy {
    Wanted,
    QueueSize,
    Utilization,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Direct,
    Routed,
    Fifo,
    RoundRobin,
    Strict,
    Ours,
    Batch,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Routing {
    LeastLoad,
    Affinity,
    BalancedTree,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cost {
    Requests,
    Tokens,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slo {
    pub(super) ttft: DurationText,
    pub(super) tpot: DurationText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) head: Option<String>,
    pub(super) figure: String,
    pub(super) band: Option<Band>,
    pub(super) tenant: Option<String>,
    #[serde(default)]
    pub(super) except: Vec<String>,
    pub(super) from: Option<DurationText>,
    pub(super) until: Option<DurationText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) head: Option<String>,
    pub(super) figure: String,
    pub(super) band: Option<Band>,
    pub(super) tenant: Option<String>,
    #[serde(default)]
    pub(super) except: Vec<String>,
    pub(super) from: Option<DurationText>,
    pub(super) until: Option<DurationText>,
    pub(super) policy: Option<String>,
    pub(super) load: Option<f64>,
    pub(super) over: Option<String>,
    pub(super) over_figure: Option<String>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) goal_min: Option<f64>,
    pub(super) goal_max: Option<f64>,
}
