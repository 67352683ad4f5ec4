//! The documents and the examples agree with the table of keys.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{source, toml};
use crate::config::document::{MARKS, updated};
use crate::config::json_schema::json_schema;
use crate::config::sections::ROOT;
use crate::config::settings::{Config, FleetSettings};
use crate::config::{Source, load};
use crate::schema::SectionSchema;

/// Set, the tests write the generated documents instead of comparing them.
const UPDATE: &str = "UPDATE_DOCUMENTS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The committed document must be what the table generates.
#[track_caller]
fn is_generated(name: &str, generated: &str) {
    let path = root().join(name);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed == generated {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(&path, generated).unwrap();
    }
    let lines = committed.lines().zip(generated.lines()).enumerate();
    let first = lines.into_iter().find(|(_, (old, new))| old != new);
    panic!(
        "{name} differs from the table of keys, first at {first:?}; to bring it up to date:\n\
         {UPDATE}=1 cargo test -p gateway --lib config::tests::documents"
    );
}

#[test]
fn x06_the_reference_of_keys_is_generated_from_the_table() {
    let document = std::fs::read_to_string(root().join("docs/CONFIGURATION.md")).unwrap();
    let updated = updated(&document).unwrap_or_else(|| panic!("the marks {MARKS:?} are missing"));
    is_generated("docs/CONFIGURATION.md", &updated);
}

#[test]
fn x06_the_json_schema_is_generated_from_the_table() {
    is_generated("docs/tidegate.schema.json", &json_schema());
}

/// The chart refuses what the program refuses: one line of its schema is the schema of the program,
/// without the descriptions, since a release of the chart carries it along.
#[test]
fn x06_the_schema_of_the_chart_has_that_of_the_configuration() {
    const LINE: &str = "    \"config\": ";
    let name = "deploy/helm/tidegate/values.schema.json";
    let mut schema = serde_json::from_str(&json_schema()).unwrap();
    without_descriptions(&mut schema);
    let committed = std::fs::read_to_string(root().join(name)).unwrap();
    let line = |line: &str| match line.starts_with(LINE) {
        true => format!("{LINE}{schema},\n"),
        false => format!("{line}\n"),
    };
    is_generated(name, &committed.lines().map(line).collect::<String>());
}

/// A description is a text; a key of this name is a table.
fn without_descriptions(schema: &mut Json) {
    match schema {
        Json::Object(table) => {
            table.retain(|name, value| {
                name != "$schema" && !(name == "description" && value.is_string())
            });
            table.values_mut().for_each(without_descriptions);
        }
        Json::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

#[test]
fn every_example_can_be_used() {
    let folder = std::fs::read_dir(root().join("examples")).unwrap();
    let mut count = 0;
    for path in folder.map(|entry| entry.unwrap().path()) {
        let loaded = load(&Source { file: Some(path.clone()), ..Source::default() });
        assert!(loaded.is_ok(), "{}: {loaded:?}", path.display());
        count += 1;
    }
    assert!(count >= 5);
}

pub(super) fn example_text(name: &str) -> String {
    std::fs::read_to_string(root().join("examples").join(name)).unwrap()
}

fn example(name: &str) -> Config {
    let path = root().join("examples").join(name);
    load(&Source { file: Some(path), ..Source::default() }).unwrap()
}

#[test]
fn the_full_example_has_the_defaults_and_yaml_means_the_same() {
    let mut config = example("tidegate.toml");
    assert_eq!(config, example("tidegate.yaml"));
    assert!(!config.identity.rules.is_empty() && !config.objectives.is_empty());
    assert!(!config.band_rules.is_empty());
    config.band_rules.clear();
    config.identity = Config::default().identity;
    config.flow.classes.clear();
    config.names = Config::default().names;
    config.objectives.clear();
    assert_eq!((config.dispatch.queues.len(), config.dispatch.gates.len()), (1, 8));
    config.dispatch.queues.clear();
    config.dispatch.gates.clear();
    config.fleet =
        FleetSettings { backends: Vec::new(), configured_models: Vec::new(), ..config.fleet };
    assert_eq!(config, Config::default());
}

#[test]
fn the_full_example_shows_every_key() {
    fn check(schema: &SectionSchema, text: &str) {
        for key in schema.keys.iter().chain(schema.variant_keys()) {
            let forms = [format!("{} = ", key.name), format!("{}]", key.name)];
            let path = if schema.path.is_empty() { key.name } else { schema.path };
            assert!(forms.iter().any(|form| text.contains(form)), "{path} {}", key.name);
            if let Some(inner) = key.value_type.section() {
                check(inner, text);
            }
        }
    }
    check(&ROOT, &example_text("tidegate.toml"));
}

/// The full example with its commented settings.
pub(super) fn uncommented_example() -> String {
    let is_setting = |line: &str| {
        line.strip_prefix("# ").is_some_and(|rest| {
            let is_value = rest.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', '`']));
            is_value || rest.starts_with("[[")
        })
    };
    let uncomment = |line: &str| if is_setting(line) { line[2..].to_owned() } else { line.into() };
    let all: Vec<String> = example_text("tidegate.toml").lines().map(uncomment).collect();
    all.join("\n")
}

#[test]
fn commented_lines_of_the_full_example_can_be_used_as_well() {
    let text = uncommented_example();
    assert!(text.lines().any(|line| line.starts_with("watermark_per_backend")));
    let config = toml(&text).unwrap();
    assert!(config.server.workers.is_some() && config.admin.listen.is_some());
}

#[test]
fn n01_the_example_of_nexus_is_as_written_there() {
    let flow = example("nexus.toml").flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (100, 100));
    let problems = super::resolve(&source("t.toml"), "[queue]\nmax_sise = 3").unwrap_err();
    assert_eq!(problems.lines().len(), 1);
}
