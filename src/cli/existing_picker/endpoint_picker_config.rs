//! The EndpointPickerConfig of the existing picker, as far as its settings have a meaning here.
//!
//! Nothing of a file is passed over in silence: each setting has a row, with the key that it sets
//! or the reason why it sets none. Weights of scorers are relative. The weight that the existing
//! picker has by default stands for the default of the key here, and another weight scales that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

/// A file is small; this bounds what one can list.
const FILE_MAX: u64 = 1 << 20;

/// A scorer, the weight that it has by default, and the key here with its default.
const SCORERS: &[(&str, f64, &str, f64)] = &[
    ("queue-scorer", 2.0, "router.engine_waiting_penalty_per_request", 100.0),
    ("kv-cache-utilization-scorer", 2.0, "router.kv_penalty", 200.0),
    ("prefix-cache-scorer", 3.0, "router.prefix_bonus", 100.0),
    ("lora-affinity-scorer", 1.0, "router.adapter_bonus", 150.0),
    ("running-requests-size-scorer", 1.0, "router.fill_penalty", 50.0),
    ("active-request-scorer", 1.0, "router.queue_depth_penalty_per_request", 50.0),
];

/// Tokens in a block of its prefix cache, at least.
const BLOCK_TOKENS: u64 = 64;

/// What bounds the queue if the file does not.
const LIMITS: &str = "queue.flow_capacity limits the waiting requests of a flow (100 by default), \
                      queue.total_capacity those of all flows (1000)";

/// Plugins that work there without a reference, and why nothing is missing here.
const UNREFERENCED: &[(&str, &str)] = &[
    ("single-profile-handler", "one set of weights is for all requests"),
    ("approx-prefix-cache-producer", "the prompts at each backend are remembered"),
    ("inflight-load-producer", "requests in flight are counted"),
    ("openai-parser", "OpenAI's API is read"),
    ("anthropic-parser", "Anthropic's API is read"),
    ("vllmhttp-parser", "vLLM's API is read"),
    ("passthrough-parser", "other bodies pass as they are"),
    ("metrics-data-source", "metrics of a recognised engine are read"),
    ("core-metrics-extractor", "metrics of a recognised engine are read"),
];

/// The ends of types that have an effect only where something refers to them.
const REFERRED: [&str; 5] = ["-scorer", "-filter", "-picker", "-detector", "-discovery"];

/// All settings of a file.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    /// The setting as the file has it, with its value.
    pub(crate) theirs: String,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// It sets this key to this value.
    Key(&'static str, String),
    /// It is so here without any setting.
    Same(&'static str),
    /// It has no meaning here.
    Nothing(&'static str),
}

/// A plugin of the file.
struct Plugin<'f> {
    kind: &'f str,
    parameters: Option<&'f Map<String, Value>>,
}

/// The plugins of the file by name. One without a name has that of its type.
type Plugins<'f> = BTreeMap<&'f str, Plugin<'f>>;

// === impl Mapping ===

impl Mapping {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = || format!("{} cannot be read", path.display());
        if fs::metadata(path).with_context(failed)?.len() > FILE_MAX {
            bail!("{} is larger than 1 MiB", path.display());
        }
        Self::of(&fs::read_to_string(path).with_context(failed)?).with_context(failed)
    }

    /// Reads a text, YAML or JSON.
    pub(crate) fn of(text: &str) -> Result<Self> {
        let file: Map<String, Value> = serde_saphyr::from_str(text)?;
        match file.get("kind").and_then(Value::as_str) {
            Some("EndpointPickerConfig") => {}
            Some(kind) => bail!("kind is {kind:?}, allowed is \"EndpointPickerConfig\""),
            None => bail!("kind is missing, allowed is \"EndpointPickerConfig\""),
        }
        let plugins = plugins(&file);
        let mut mapping = Self::default();
        for (name, value) in &file {
            match name.as_str() {
                "apiVersion" | "kind" => {}
                "featureGates" => mapping.gates(value),
                "plugins" => {
                    mapping.plugins(&plugins);
                    mapping.unreferenced(&plugins, &references(&file));
                }
                "schedulingProfiles" => mapping.profiles(value, &plugins),
                "saturationDetector" => mapping.detector(value, &plugins),
                "flowControl" => mapping.flow_control(value, &plugins),
                "dataLayer" | "data" => mapping.data_layer(value, &plugins),
                _ => mapping.nothing(format!("{name} {}", short(value)), "it is not known"),
            }
        }
        let limit = file.get("flowControl").and_then(|section| section.get("maxRequests"));
        if limit.is_none() {
            mapping.nothing("flowControl.maxRequests (not set: no limit)".into(), LIMITS);
        }
        Ok(mapping)
    }

    fn key(&mut self, theirs: String, key: &'static str, value: String) {
        self.rows.push(Row { theirs, outcome: Outcome::Key(key, value) });
    }

    fn same(&mut self, theirs: String, why: &'static str) {
        self.rows.push(Row { theirs, outcome: Outcome::Same(why) });
    }

    fn nothing(&mut self, theirs: String, why: &'static str) {
        self.rows.push(Row { theirs, outcome: Outcome::Nothing(why) });
    }

    fn gates(&mut self, value: &Value) {
        for gate in items(value).filter_map(Value::as_str) {
            let theirs = format!("featureGates {gate}");
            match gate {
                "flowControl" => self.same(theirs, "the queue is always on"),
                _ => self.nothing(theirs, "there is no such feature"),
            }
        }
    }

    fn plugins(&mut self, plugins: &Plugins<'_>) {
        for (name, plugin) in plugins {
            for (parameter, value) in plugin.parameters.into_iter().flatten() {
                self.parameter((name, plugin.kind), parameter, value);
            }
        }
    }

    /// Plugins that no profile and no other setting names.
    fn unreferenced(&mut self, plugins: &Plugins<'_>, references: &BTreeSet<&str>) {
        let left = plugins.iter().filter(|(name, _)| !references.contains(*name));
        for (name, Plugin { kind, .. }) in left {
            let theirs = match name == kind {
                true => format!("plugin {name}, without a reference"),
                false => format!("plugin {name} ({kind}), without a reference"),
            };
            let known = UNREFERENCED.iter().find(|(known, _)| known == kind);
            let needs_one =
                kind.contains("-policy") || REFERRED.iter().any(|end| kind.ends_with(end));
            match known {
                Some((_, why)) => self.same(theirs, why),
                None if needs_one => {
                    self.nothing(theirs, "nothing refers to it, so it has no effect there either");
                }
                None => self.nothing(theirs, "the plugin is not known"),
            }
        }
    }

    /// A parameter of a plugin that is no detector. Detectors have rows where they are used.
    fn parameter(&mut self, (name, kind): (&str, &str), parameter: &str, value: &Value) {
        let theirs = format!("{name}.{parameter} {}", short(value));
        match (kind, parameter, value.as_u64()) {
            ("utilization-detector" | "concurrency-detector", ..) => {}
            ("file-discovery", "path", _) => {}
            (_, "maxNumOfEndpoints", Some(count)) => {
                self.key(theirs, "epp.fallbacks", count.saturating_sub(1).to_string());
            }
            (_, "lruCapacityPerServer", Some(blocks)) => {
                let tokens = blocks.saturating_mul(BLOCK_TOKENS);
                self.key(theirs, "router.cache_tokens", tokens.to_string());
            }
            _ => self.nothing(theirs, "the plugin is not known, or has no such setting"),
        }
    }

    fn profiles(&mut self, value: &Value, plugins: &Plugins<'_>) {
        for profile in items(value) {
            for entry in profile.get("plugins").into_iter().flat_map(items) {
                self.profile_plugin(entry, plugins);
            }
        }
        if items(value).count() > 1 {
            self.nothing("schedulingProfiles".into(), "one set of weights is for all requests");
        }
    }

    fn profile_plugin(&mut self, entry: &Value, plugins: &Plugins<'_>) {
        let Some((name, kind)) = referred(entry, plugins) else { return };
        let weight = entry.get("weight").and_then(Value::as_f64);
        let theirs = match weight {
            Some(weight) => format!("{name} weight {weight}"),
            None => name.to_owned(),
        };
        match SCORERS.iter().find(|(scorer, ..)| *scorer == kind) {
            Some((_, usual, key, default)) => {
                let scaled = default * weight.unwrap_or(1.0) / usual;
                self.key(theirs, key, format!("{:.1}", scaled));
            }
            None if kind == "max-score-picker" => {
                self.same(theirs, "the backend with the best score is chosen");
            }
            None => self.nothing(theirs, "there is no such scorer, filter or picker"),
        }
    }

    /// A detector by reference, or the older form with its thresholds in place.
    fn detector(&mut self, value: &Value, plugins: &Plugins<'_>) {
        let (kind, parameters) = match referred(value, plugins) {
            Some((name, kind)) => (kind, plugins.get(name).and_then(|plugin| plugin.parameters)),
            None => ("utilization-detector", value.as_object()),
        };
        let mode = parameters.and_then(|all| all.get("concurrencyMode")).and_then(Value::as_str);
        for (parameter, value) in parameters.into_iter().flatten() {
            let theirs = format!("{kind}.{parameter} {}", short(value));
            match (parameter.as_str(), mode.unwrap_or("requests")) {
                ("kvCacheUtilThreshold", _) => {
                    self.key(theirs, "router.kv_threshold", short(value))
                }
                ("maxConcurrency", "requests") => {
                    self.key(theirs, "controller.watermark_per_backend", short(value));
                }
                ("maxTokenConcurrency", "tokens") => {
                    self.key(theirs, "controller.watermark_per_backend", short(value));
                }
                ("concurrencyMode", mode @ ("requests" | "tokens")) => {
                    self.key(theirs, "controller.stock", mode.to_owned());
                }
                _ => self.nothing(theirs, "the places of each backend are found automatically"),
            }
        }
    }

    fn flow_control(&mut self, value: &Value, plugins: &Plugins<'_>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let theirs = format!("flowControl.{name} {}", short(value));
            match name.as_str() {
                "maxRequests" => self.max_requests(theirs, quantity(value)),
                "defaultRequestTTL" if short(value) != "0s" => {
                    self.key(theirs, "queue.queue_ttl", short(value));
                }
                "noEndpointRequestTTL" if short(value) != "0s" => {
                    self.key(theirs, "queue.hold_ttl", short(value));
                }
                "maxBytes" => self.nothing(theirs, "server.bodies_limit bounds all bodies"),
                "defaultPriorityBand" | "defaultNegativePriorityBand" => {
                    self.band(name, value, plugins);
                }
                "priorityBands" => self.bands(value, plugins),
                "saturationDetector" => self.detector(value, plugins),
                "usageLimitPolicyPluginRef" => {
                    self.nothing(theirs, "controller.reserve_share_max keeps places free");
                }
                "enableEviction" => self.nothing(theirs, "running requests are never cut off"),
                _ => self.nothing(theirs, "it is not known, or an endless wait"),
            }
        }
    }

    fn max_requests(&mut self, theirs: String, count: Option<u64>) {
        let Some(count) = count.filter(|count| *count > 0) else {
            return self.nothing(theirs, LIMITS);
        };
        // There is no bound for one flow there: each may fill the queue.
        self.key(theirs.clone(), "queue.flow_capacity", count.to_string());
        self.key(theirs, "queue.total_capacity", count.to_string());
    }

    fn bands(&mut self, bands: &Value, plugins: &Plugins<'_>) {
        for band in items(bands) {
            let priority = band.get("priority").map(short).unwrap_or_default();
            self.band(&format!("priorityBands[{priority}]"), band, plugins);
        }
    }

    fn band(&mut self, place: &str, band: &Value, plugins: &Plugins<'_>) {
        for (name, value) in band.as_object().into_iter().flatten() {
            let theirs = format!("flowControl.{place}.{name} {}", short(value));
            let kind = value.as_str().and_then(|name| plugins.get(name)).map(|plugin| plugin.kind);
            match (name.as_str(), kind.or(value.as_str()).unwrap_or_default()) {
                ("priority", _) => self.same(
                    theirs,
                    "below 0 best-effort, 0 normal, 1 to 9 high, 10 and more critical",
                ),
                ("fairnessPolicyRef", "global-strict-fairness-policy") => {
                    self.nothing(theirs, "flows are always served fairly");
                }
                ("fairnessPolicyRef", "round-robin-fairness-policy" | "program-aware-fairness") => {
                    self.key(theirs, "queue.flow_by", "[\"fairness_id\"]".into());
                }
                ("orderingPolicyRef", "fcfs-ordering-policy") => {
                    self.key(theirs, "queue.order", "fifo".into());
                }
                ("orderingPolicyRef", "edf-ordering-policy" | "slo-deadline-ordering-policy") => {
                    self.key(theirs, "queue.order", "deadline".into());
                }
                _ => self.nothing(theirs, "all bands share one queue and its bounds"),
            }
        }
    }

    fn data_layer(&mut self, value: &Value, plugins: &Plugins<'_>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let plugin = referred(value, plugins).and_then(|(name, _)| plugins.get(name));
            let path = plugin.filter(|plugin| plugin.kind == "file-discovery");
            let path = path.and_then(|plugin| plugin.parameters?.get("path")?.as_str());
            let theirs = format!("dataLayer.{name} {}", short(value));
            match path {
                Some(path) => self.key(theirs, "discovery.endpoints_file", path.to_owned()),
                None => self.nothing(theirs, "metrics of a recognised engine are read"),
            }
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn plugins(file: &Map<String, Value>) -> Plugins<'_> {
    let entries = file.get("plugins").into_iter().flat_map(items).filter_map(|entry| {
        let kind = entry.get("type")?.as_str()?;
        let name = entry.get("name").and_then(Value::as_str).unwrap_or(kind);
        let parameters = entry.get("parameters").and_then(Value::as_object);
        Some((name, Plugin { kind, parameters }))
    });
    entries.collect()
}

/// All names that a setting of the file refers to, such as those of `pluginRef`.
fn references(file: &Map<String, Value>) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut left: Vec<(&str, &Value)> = entries(file).collect();
    while let Some((name, value)) = left.pop() {
        match value {
            Value::String(text) if name.ends_with("Ref") => _ = found.insert(text.as_str()),
            Value::Object(table) => left.extend(entries(table)),
            Value::Array(values) => left.extend(values.iter().map(|value| (name, value))),
            _ => {}
        }
    }
    found
}

fn entries(table: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    table.iter().map(|(name, value)| (name.as_str(), value))
}

/// The name and the type of the plugin that an entry refers to. A type may stand for a name.
fn referred<'f>(entry: &'f Value, plugins: &Plugins<'f>) -> Option<(&'f str, &'f str)> {
    let name = entry.get("pluginRef")?.as_str()?;
    Some((name, plugins.get(name).map_or(name, |plugin| plugin.kind)))
}

/// A value in one line. Text has no quotes.
fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() <= 60 {
        text
    } else {
        text.chars().take(57).collect::<String>() + "…"
    }
}

/// A count, also as a quantity of Kubernetes: 5k.
fn quantity(value: &Value) -> Option<u64> {
    let Some(text) = value.as_str() else { return value.as_u64() };
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1000,
        "Ki" => 1 << 10,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
