//! The published scenarios: every file is sound, its promises hold, and the document names every
//! key.
//!
//! Here each runs with one seed, and `policies` with its two highest loads alone; `make simulate`
//! runs all of it.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::progress::Progress;
use testbed::simulate::{SimulateOptions, play};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("scenarios")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    paths
}

/// The names of the traces that a file needs.
fn traces(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("trace = \""));
    lines.map(|rest| rest.trim_end_matches('"').to_owned()).collect()
}

/// Plays a scenario with one seed, and checks its promises. Says so where its traces are not
/// here.
fn keeps(path: &Path, load: Option<f64>) {
    let folder = root().join("../shared/traces");
    if let Some(absent) = traces(path).iter().find(|name| !folder.join(name).exists()) {
        eprintln!("not played: {} needs {absent}, which is not here", path.display());
        return;
    }
    let options = SimulateOptions {
        traces: Some(folder),
        seeds: Some(1),
        load,
        ..SimulateOptions::default()
    };
    let mut progress = Progress { out: &mut std::io::sink(), live: false };
    let (outcome, _) = play(&options, path, &mut progress).unwrap();
    assert!(!outcome.report.verdicts.is_empty(), "{} promises nothing", path.display());
    assert!(outcome.report.is_kept(), "\n{}", outcome.report);
}

#[test]
fn every_scenario_keeps_its_promises() {
    for path in scenarios() {
        if !path.ends_with("policies.toml") {
            keeps(&path, None);
        }
    }
}

#[test]
fn the_published_comparison_keeps_its_promises_under_overload() {
    for load in [1.5, 2.0] {
        keeps(&root().join("scenarios/policies.toml"), Some(load));
    }
}

#[test]
fn the_example_of_the_document_keeps_its_promise() {
    let document = fs::read_to_string(root().join("docs/SCENARIOS.md")).unwrap();
    let (_, rest) = document.split_once("```toml\ntitle").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let example = format!("title{example}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("document.toml");
    fs::write(&path, example).unwrap();
    keeps(&path, None);
}

#[test]
fn the_document_names_every_key_of_a_scenario() {
    let file = fs::read_to_string(root().join("crates/sim/src/scenario/file.rs")).unwrap();
    let document = fs::read_to_string(root().join("docs/SCENARIOS.md")).unwrap();
    let keys = file.lines().filter_map(|line| line.trim().strip_prefix("pub(super) "));
    let keys = keys.filter(|key| !key.starts_with("struct") && !key.starts_with("enum"));
    let mut count = 0;
    for key in keys.filter_map(|line| line.split(':').next()) {
        let named = [format!("`{key}`"), format!("`[[{key}]]`")];
        let named = named.iter().any(|name| document.contains(name));
        assert!(named, "docs/SCENARIOS.md does not name {key}");
        count += 1;
    }
    assert!(count > 50, "only {count} keys were found");
}
