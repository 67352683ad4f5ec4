//! Every key of the table can be set by a flag and by a variable, and has an effect.

use crate::config::overrides::variable_of;
use crate::config::sections::ROOT;
use crate::config::{Config, Flag, Setting, Source, resolve};
use crate::schema::{Key, Range, SectionSchema, ValueType, joined, show_duration, show_size};

use super::documents::uncommented_example;
use super::source;

/// The full example, changed so that each of its keys has an effect by itself.
fn base() -> String {
    let changes = [
        (
            "bands = \"strict\"",
            "bands = { critical = 70, high = 15, normal = 10, best_effort = 5 }",
        ),
        ("[dbus]\nenabled = false", "[dbus]\nenabled = true"),
        ("band = \"critical\"\n", ""),
        ("lower_bound_per_backend = 1.8\n", ""),
        ("upper_bound_per_backend = 2.2\n", ""),
    ];
    let mut text = uncommented_example();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text
}

/// The paths of all keys, each with an entry of the example that has the key.
fn paths() -> Vec<(String, Key)> {
    let mut paths = Vec::new();
    collect(&ROOT, "", &mut paths);
    paths
}

fn collect(schema: &SectionSchema, at: &str, paths: &mut Vec<(String, Key)>) {
    for key in schema.keys {
        let path = joined(at, key.name);
        match key.value_type {
            ValueType::Table(inner) => collect(inner, &path, paths),
            ValueType::WordOrTable { table, .. } => {
                collect(table, &path, paths);
                paths.push((path, *key));
            }
            ValueType::Tables(inner) | ValueType::TextsOrTables { table: inner, .. } => {
                collect(inner, &format!("{path}[0]"), paths);
                if matches!(key.value_type, ValueType::TextsOrTables { .. }) {
                    paths.push((path, *key));
                }
            }
            _ => paths.push((path, *key)),
        }
    }
    let gates = ["gateway", "constant", "redis", "scrape"];
    let prometheus = ["prometheus-saturation", "prometheus-budget", "prometheus-query", "aimd"];
    let in_example = [1, 7, 6, 5, 3, 0, 4, 2];
    for variant in schema.variants {
        let at_kind = gates.iter().chain(&prometheus).position(|kind| *kind == variant.name);
        let index = in_example[at_kind.unwrap_or_else(|| panic!("{} has no entry", variant.name))];
        let at = at.replace("[0]", &format!("[{index}]"));
        paths.extend(variant.keys.iter().map(|key| (joined(&at, key.name), *key)));
    }
}

/// A value that differs from the default and from the example.
fn sample(path: &str, key: &Key) -> String {
    let special = [
        ("server.body_limit", "1MiB"),
        ("admin.tls", "false"),
        ("dbus.enabled", "false"),
        ("queue.flow_by", "workload"),
        ("queue.session_by", "session"),
        ("controller.upper_bound_per_backend", "3.5"),
        ("flows[0].match", "{ model = \"x\" }"),
        ("band_rules[0].match", "{ model = \"x\" }"),
        ("backends[0].kind", "sglang"),
        ("models[0].targets", "[\"x\"]"),
        ("objectives[0].band", "low"),
        ("dispatch.backoff", "3s"),
        ("traces.sample_ratio", "0.5"),
        ("scaler.wake_attempts", "4"),
        ("dispatch.queues[0].gates", "half"),
    ];
    if let Some((_, sample)) = special.iter().find(|(known, _)| *known == path) {
        return (*sample).to_owned();
    }
    let default = key.default.unwrap_or_default();
    match key.value_type {
        ValueType::Bool => (default != "true").to_string(),
        ValueType::Count { min, max } => {
            let default: u64 = default.parse().unwrap_or(min);
            if default + 5 <= max { default + 5 } else { default - 1 }.to_string()
        }
        ValueType::Size { max, .. } => show_size(max),
        ValueType::Duration { min, .. } => {
            show_duration(min.max(std::time::Duration::from_secs(77)))
        }
        ValueType::Number(Range { min, max, .. }) => {
            let default: f64 = default.parse().unwrap_or(min);
            (default + ((max - default) / 2.0).min(1.5)).to_string()
        }
        ValueType::Keyword(words) => {
            words().iter().find(|word| word.text != default).unwrap().text.to_owned()
        }
        ValueType::Text(form) | ValueType::Texts(form) => form.example.to_owned(),
        ValueType::Address => "127.0.0.1:7777".into(),
        ValueType::Path => "a/path".into(),
        ValueType::Map(ValueType::Text(_)) => "{ a = \"b\" }".into(),
        ValueType::Map(_) => "{ a = 2 }".into(),
        ValueType::WordOrTable { word, .. } => word.into(),
        other => panic!("{path}: {other:?}"),
    }
}

fn setting(config: &Config, key: &str) -> Setting {
    let settings = config.values.settings();
    let found = settings.into_iter().find(|setting| setting.key == key);
    found.unwrap_or_else(|| panic!("{key} is not among the settings"))
}

/// Keys that cannot change alone: a gate has one capacity, the keys of its kind, and the name by
/// which a queue knows it. Queues are in Redis or in Pub/Sub.
const NOT_ALONE: [&str; 9] = [
    "dispatch.gates[0].capacity",
    "dispatch.gates[0].kind",
    "dispatch.gates[0].name",
    // The sample names a sentinel, which no cluster has.
    "dispatch.redis.cluster",
    "dispatch.pubsub.project",
    "dispatch.pubsub.results",
    "dispatch.pubsub.dead_letters",
    "dispatch.pubsub.credentials",
    "dispatch.pubsub.endpoint",
];

#[test]
fn x06_every_key_can_be_set_by_a_variable_and_by_a_flag() {
    let text = base();
    let before = resolve(&source("t.toml"), &text).unwrap();
    let paths = paths();
    assert!(paths.len() > 150, "{}", paths.len());
    let mut wrong = Vec::new();
    for (path, key) in paths.into_iter().filter(|(path, _)| !NOT_ALONE.contains(&path.as_str())) {
        let sample = sample(&path, &key);
        let name = variable_of(&path);
        let variables = vec![(name.clone(), sample.clone())];
        let by_variable = resolve(&Source { variables, ..source("t.toml") }, &text);
        let flags = vec![Flag::Set(format!("{path}={sample}"))];
        let by_flag = resolve(&Source { flags, ..source("t.toml") }, &text);
        let (Ok(by_variable), Ok(by_flag)) = (&by_variable, &by_flag) else {
            wrong.push(format!("{path}={sample}: {}", by_variable.and(by_flag).unwrap_err()));
            continue;
        };
        if by_variable != by_flag || *by_flag == before {
            wrong.push(format!("{path}={sample} has no effect"));
        }
        if !matches!(key.value_type, ValueType::TextsOrTables { .. }) {
            assert_eq!(setting(by_variable, &path).origin, name);
            assert_eq!(setting(by_flag, &path).origin, format!("--set {path}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn x06_every_key_has_a_variable_of_its_own() {
    for (path, _) in paths() {
        let name = variable_of(&path);
        assert!(!path.contains("__") && !path.contains("._"), "{path}");
        let only = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit();
        assert!(name.chars().all(|letter| only(letter) || letter == '_'), "{name}");
    }
    assert_eq!(variable_of("backends[0].url"), "TIDEGATE_BACKENDS__0__URL");
}

#[test]
fn x06_a_default_is_a_value_of_its_key_and_every_key_is_described() {
    for (path, key) in paths() {
        assert!(key.doc.ends_with(['.', ')']), "{path}: {}", key.doc);
        let nothing = key.default.is_none() && key.unset.is_empty() && !key.required;
        assert!(!(key.default.is_some() && key.required), "{path}");
        let Some(default) = key.default else { continue };
        assert!(!nothing, "{path}");
        let value = key.value_type.parse(default);
        let scalar = !matches!(key.value_type, ValueType::Texts(_) | ValueType::WordOrTable { .. });
        assert!(!scalar || key.value_type.check(&value).is_ok(), "{path} = {default}");
    }
}

#[test]
fn x06_the_ends_of_a_range_are_good_for_the_core() {
    for (path, key) in paths() {
        let ValueType::Number(range) = key.value_type else { continue };
        let alone = ["watermark", "_bound_", "priority", "capacity"];
        if alone.iter().any(|part| path.contains(part)) {
            continue;
        }
        for (end, excluded) in [(range.min, range.min_excluded), (range.max, range.max_excluded)] {
            let flags = vec![Flag::Set(format!("{path}={end:?}"))];
            let loaded = resolve(&Source { flags, ..source("t.toml") }, &base());
            assert_eq!(loaded.is_ok(), !excluded, "{path} = {end}: {loaded:?}");
        }
    }
}
