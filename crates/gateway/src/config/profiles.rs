//! Profiles: what the designs that Tidegate follows do where their files say nothing.
//!
//! A profile is a table of values. They are put below all values that the operator gives, so that
//! every key still wins over its profile, and above the defaults. A profile is named by the key
//! `profile`, or implied by a file that has the sections of its design. What no key can say is in
//! [`Conventions`](super::settings::Conventions).

use super::file::Format;
use super::key_aliases::snake_case;
use super::sections::{QUEUE, ROOT};
use super::settings::Profile;
use crate::schema::{Key, Node, Origin, Report, Table, Value, find, spelling};

/// The key of a profile.
const PROFILE: &str = "profile";

/// A value: section, key, and text as for `--set`.
type Assigned = (&'static str, &'static str, &'static str);

/// Nothing changes the order of arrival in a flow, and no room is kept from a request that waits.
/// Requests for a model without a backend have no limit but that of the queue.
const ARRIVAL: &[Assigned] = &[
    ("queue", "hold_capacity", "16777216"),
    ("queue", "slo_ttft", "0s"),
    ("queue", "cache_reorder", "0"),
    ("queue", "cache_slack", "0"),
    ("queue", "cache_delay", "0s"),
    ("queue", "model_stay", "0s"),
    ("controller", "reserve_share_max", "0"),
];

const INFERENCE_GATEWAY: &[Assigned] = &[
    ("queue", "flow_by", "[\"model\"]"),
    ("queue", "admission", "critical-only"),
    ("queue", "existing_flows_may_exceed_total", "true"),
    ("controller", "watermark_per_backend", "2"),
];

/// One queue for all models, and attempts until the time to live.
const NEXUS: &[Assigned] = &[
    ("queue", "flow_by", "[\"tenant\"]"),
    ("queue", "total_capacity", "100"),
    ("queue", "admission", "until-full"),
    ("retry", "attempts", "100000"),
    ("retry", "share", "100000"),
    ("epp", "drain", "0s"),
];

/// The design has no limit of the queue and of a wait: it sends every request to a backend. Its
/// score knows the stated traits of backends and their pending requests.
const OLLAMA_PROXY: &[Assigned] = &[
    ("queue", "flow_by", "[\"tenant\"]"),
    ("queue", "total_capacity", "100000"),
    ("queue", "flow_capacity", "100000"),
    ("queue", "queue_ttl", "10m"),
    ("queue", "admission", "until-full"),
    ("router", "engine_waiting_penalty_per_request", "0"),
    ("router", "fill_penalty", "0"),
    ("router", "kv_penalty", "0"),
    ("router", "prefix_bonus", "0"),
    ("router", "cache_tokens", "0"),
    ("router", "adapter_bonus", "0"),
    ("log", "decisions", "true"),
    ("dbus", "enabled", "true"),
];

/// A wait adds to the urgency of a request for a minute, so it may wait for longer than that.
const WORKLOAD_AWARE: &[Assigned] = &[
    ("queue", "order", "workload"),
    ("queue", "queue_ttl", "2m"),
    ("queue", "admission", "until-full"),
];

/// The sections that the Ollama proxy's own file has and Tidegate's has, too.
const OF_THE_PROXY: [&str; 2] = ["router", "backends"];

/// A profile that a file implies, and the section that says so.
pub(super) struct Implied {
    profile: Profile,
    cause: String,
}

/// The profile whose design alone has the sections of a file, as the file names them.
///
/// Nexus and the Ollama proxy have sections that Tidegate has under the same names. So these count
/// only if they have none but the keys of the design.
pub(super) fn implied(root: &Table, (format, report): (Format, &Report)) -> Option<Implied> {
    let named = |profile, section: &str| {
        let node = root.get(section)?;
        let file = report.file().map(|file| file.display().to_string()).unwrap_or_default();
        let cause = format!("implied by {section} at {file}:{}", node.location.line);
        Some(Implied { profile, cause })
    };
    let proposal = ["fair_request_queue", "request_queue_controller"];
    if let Some(section) = root.keys().find(|key| proposal.contains(&snake_case(key).as_str())) {
        return named(Profile::InferenceGateway, section);
    }
    let sizes = ["max_size", "max_wait_seconds"];
    let [max_size, max_wait] = sizes;
    let has_tenants = root.contains_key("tenants");
    if !has_tenants && has_only(root, "queue", &["enabled", max_size, max_wait], &sizes) {
        return named(Profile::Nexus, "queue");
    }
    if root.contains_key("efficiency") {
        return named(Profile::OllamaProxy, "efficiency");
    }
    let scoring = ["priority_scoring", "queue_depth_penalty_per_request"];
    let is_file = format == Format::Yaml && root.keys().all(|key| OF_THE_PROXY.contains(&&**key));
    if is_file && has_only(root, "router", &scoring, &scoring) {
        return named(Profile::OllamaProxy, "router");
    }
    None
}

/// Whether a section has one of these keys, and no key but the known ones.
fn has_only(root: &Table, section: &str, known: &[&str], wanted: &[&str]) -> bool {
    let Some(Value::Table(table)) = root.get(section).map(|node| &node.value) else { return false };
    let is_in = |list: &[&str], key: &String| list.contains(&snake_case(key).as_str());
    table.keys().any(|key| is_in(wanted, key)) && table.keys().all(|key| is_in(known, key))
}

/// Puts the values of the profile where the operator gave none.
pub(super) fn apply(root: &mut Table, implied: Option<Implied>) -> Profile {
    let stated = root.get(PROFILE).filter(|node| node.value != Value::Null);
    let profile = match (stated.map(|node| &node.value), implied) {
        (Some(Value::Text(text)), _) => find(text).unwrap_or_default(),
        // It is reported as a problem.
        (Some(_), _) => Profile::None,
        (None, Some(Implied { profile, cause })) => {
            let word = Value::Text(spelling(profile).into());
            root.insert(PROFILE.into(), Node::given(word, PROFILE.into(), Origin::Implied(cause)));
            profile
        }
        (None, None) => Profile::None,
    };
    let origin = Origin::Implied(format!("profile {}", spelling(profile)));
    for &(section, key, text) in values(profile) {
        put(root, (section, key), |key| key.value_type.parse(text), &origin);
    }
    if profile != Profile::None {
        hold_as_long_as_any(root, &origin);
    }
    profile
}

/// In no design a request waits longer because its model has no backend.
fn hold_as_long_as_any(root: &mut Table, origin: &Origin) {
    let given = match root.get("queue").map(|node| &node.value) {
        Some(Value::Table(queue)) => queue.get("queue_ttl").map(|node| node.value.clone()),
        _ => None,
    };
    let usual = QUEUE.find("queue_ttl").and_then(|key| key.default).unwrap_or_default();
    // A value with a problem is reported once, under its own key.
    let value = |key: &Key| {
        let given = given.filter(|value| key.value_type.check(value).is_ok());
        given.unwrap_or_else(|| key.value_type.parse(usual))
    };
    put(root, ("queue", "hold_ttl"), value, origin);
}

/// The values of a profile.
fn values(profile: Profile) -> impl Iterator<Item = &'static Assigned> {
    let (common, own): (&[Assigned], &[Assigned]) = match profile {
        Profile::None => (&[], &[]),
        Profile::InferenceGateway => (ARRIVAL, INFERENCE_GATEWAY),
        Profile::Nexus => (ARRIVAL, NEXUS),
        Profile::OllamaProxy => (ARRIVAL, OLLAMA_PROXY),
        Profile::WorkloadAware => (ARRIVAL, WORKLOAD_AWARE),
    };
    common.iter().chain(own)
}

fn put(
    root: &mut Table,
    (section, name): (&'static str, &'static str),
    value: impl FnOnce(&Key) -> Value,
    origin: &Origin,
) {
    let schema = ROOT.find(section).and_then(|key| key.value_type.section());
    let Some(key) = schema.and_then(|schema| schema.find(name)) else { return };
    let empty = || Node::given(Value::Table(Table::new()), section.into(), origin.clone());
    let node = root.entry(section.into()).or_insert_with(empty);
    if node.value == Value::Null {
        *node = empty();
    }
    let Value::Table(table) = &mut node.value else { return };
    if table.get(name).is_none_or(|given| given.value == Value::Null) {
        table.insert(
            name.into(),
            Node::given(value(key), format!("{section}.{name}"), origin.clone()),
        );
    }
}
