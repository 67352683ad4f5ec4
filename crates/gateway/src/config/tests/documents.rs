//! The documents and the examples tell the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{bad, good, source, toml};
use crate::config::resolved::{FleetSettings, Resolved};
use crate::config::{Source, load};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A key's row in the document: its name and its default, if that can be written.
type Row = (String, Option<String>);

/// The rows of the document by the headers of their tables.
fn document() -> BTreeMap<String, Vec<Row>> {
    let text = std::fs::read_to_string(root().join("docs/CONFIGURATION.md")).unwrap();
    let mut sections: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut header = None;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            header = title.starts_with("`[").then(|| title.trim_matches('`').to_owned());
        } else if let (Some(header), true) = (&header, line.starts_with("| `")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 6, "{line}");
            let default = cells[3].strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
            let row = (cells[1].trim_matches('`').to_owned(), default.map(str::to_owned));
            sections.entry(header.clone()).or_default().push(row);
        }
    }
    sections
}

/// The keys that a problem lists as known.
fn known(text: &str) -> BTreeSet<String> {
    let problems = bad(text);
    let list = problems.iter().find_map(|problem| problem.split_once("known are: "));
    let (_, list) = list.unwrap_or_else(|| panic!("{text}: {problems:?}"));
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_document_has_every_key_and_no_other() {
    let document = document();
    for (header, rows) in &document {
        let parent = if header.starts_with("[[models.") { "[[models]]\n" } else { "" };
        let documented: BTreeSet<String> = rows.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(known(&format!("{parent}{header}\nqqqqqqqqqqqq = 1")), documented, "{header}");
    }
    let plain = |header: &String| header.trim_matches(['[', ']']).to_owned();
    let top: BTreeSet<String> =
        document.keys().map(plain).filter(|name| !name.contains('.')).collect();
    assert_eq!(known("qqqqqqqqqqqq = 1"), top);
}

#[test]
fn the_documented_defaults_are_those_in_force() {
    let mut text = String::new();
    for (header, rows) in document() {
        if header.starts_with("[[") || rows.iter().all(|(_, default)| default.is_none()) {
            continue;
        }
        text += &format!("{header}\n");
        for (key, default) in rows {
            text += &default.map_or(String::new(), |default| format!("{key} = {default}\n"));
        }
    }
    assert!(text.lines().count() > 60, "{text}");
    assert_eq!(good(&text), good(""));
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

fn example(name: &str) -> Resolved {
    let path = root().join("examples").join(name);
    load(&Source { file: Some(path), ..Source::default() }).unwrap()
}

#[test]
fn the_full_example_has_the_defaults_and_its_twin_says_the_same() {
    let mut resolved = example("tidegate.toml");
    assert_eq!(resolved, example("tidegate.yaml"));
    assert!(!resolved.identity.rules.is_empty() && !resolved.objectives.is_empty());
    resolved.identity = Resolved::default().identity;
    resolved.flow.classes.clear();
    resolved.names = Resolved::default().names;
    resolved.objectives.clear();
    assert_eq!((resolved.dispatch.queues.len(), resolved.dispatch.gates.len()), (1, 8));
    resolved.dispatch.queues.clear();
    resolved.dispatch.gates.clear();
    resolved.fleet = FleetSettings { backends: Vec::new(), ..resolved.fleet };
    assert_eq!(resolved, Resolved::default());
}

#[test]
fn the_full_example_shows_every_key() {
    let text = std::fs::read_to_string(root().join("examples/tidegate.toml")).unwrap();
    for (header, rows) in document() {
        for (key, _) in rows.iter().filter(|_| header != "[queue.bands]") {
            let shown = text.contains(&format!("{key} = ")) || text.contains(&format!(".{key}]"));
            assert!(shown, "{header} {key}");
        }
    }
}

#[test]
fn commented_lines_of_the_full_example_can_be_used_as_well() {
    let text = std::fs::read_to_string(root().join("examples/tidegate.toml")).unwrap();
    let is_setting = |line: &str| {
        line.strip_prefix("# ").is_some_and(|rest| {
            rest.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', '`']))
        })
    };
    let uncomment = |line: &str| if is_setting(line) { line[2..].to_owned() } else { line.into() };
    let all: Vec<String> = text.lines().map(uncomment).collect();
    assert!(all.iter().any(|line| line.starts_with("watermark_per_backend")));
    let resolved = toml(&all.join("\n")).unwrap();
    assert!(resolved.server.workers.is_some() && resolved.admin.listen.is_some());
}

#[test]
fn n01_the_example_of_nexus_is_as_written_there() {
    let flow = example("nexus.toml").flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (100, 100));
    let problems = super::resolve(&source("t.toml"), "[queue]\nmax_sise = 3").unwrap_err().problems;
    assert_eq!(problems.len(), 1);
}
