//! The published scenarios: every file is sound, its promises hold, and the document names every
//! key.
//!
//! Here each runs with one seed, and `policies` with its two highest loads alone; `make simulate`
//! runs all of it.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::progress::Progress;
use testbed::simulate::{SimulateOptions, play};

use crate::support::tools::leave_out;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("scenarios")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    paths
}

/// The names of the traces that a file needs.
fn traces(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = text.split("trace = \"").skip(1).filter_map(|rest| rest.split('"').next());
    names.filter(|name| !name.starts_with("{{")).map(str::to_owned).collect()
}

/// Plays a scenario with one seed, and checks its promises. Says so where its traces are not
/// here.
fn keeps(path: &Path, load: Option<f64>) {
    keeps_with(path, SimulateOptions { load, ..SimulateOptions::default() });
}

/// The same for the cases of a file whose names contain `case`.
fn keeps_cases(file: &str, case: &str) {
    let case = Some(case.to_owned());
    keeps_with(
        &root().join("scenarios").join(file),
        SimulateOptions { case, ..Default::default() },
    );
}

fn keeps_with(path: &Path, options: SimulateOptions) {
    let folder = root().join("../shared/traces");
    if let Some(absent) = traces(path).iter().find(|name| !folder.join(name).exists()) {
        return leave_out(&format!("{} needs {absent}, which is not here", path.display()));
    }
    let options = SimulateOptions { traces: Some(folder), seeds: Some(1), ..options };
    let mut progress = Progress { out: &mut std::io::sink(), live: false };
    let outcomes = play(&options, path, &mut progress).unwrap();
    assert!(!outcomes.is_empty(), "{} has no such case", path.display());
    for outcome in outcomes {
        assert!(!outcome.report.verdicts.is_empty(), "{} promises nothing", outcome.name);
        assert!(outcome.report.is_kept(), "\n{}", outcome.report);
    }
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
fn c10_auto_reaches_the_best_fixed_watermark_where_memory_binds() {
    keeps_cases("auto/best-fixed.toml", "rtx4090-8b");
}

#[test]
fn c10_auto_reaches_the_best_fixed_watermark_where_slots_or_arithmetic_bind() {
    keeps_cases("auto/best-fixed.toml", "pro6000-8b");
    keeps_cases("auto/best-fixed.toml", "ollama-4");
}

#[test]
fn c10_auto_follows_a_slow_down_and_recovers() {
    keeps_cases("auto/slow-down.toml", "");
}

#[test]
fn c10_auto_follows_a_shift_of_workload() {
    keeps_cases("auto/shift.toml", "");
}

#[test]
fn c10_auto_does_not_collapse_when_metrics_vanish() {
    keeps_cases("auto/metrics-vanish.toml", "");
}

#[test]
fn c10_auto_ramps_at_the_engines_own_prefill_speed() {
    keeps_cases("auto/ramp.toml", "");
    keeps_cases("auto/growth.toml", "");
}

/// Two engines and two traces here; `make study` plays all of them with five seeds.
#[test]
fn c10_auto_reaches_the_best_fixed_watermark_on_recorded_traffic() {
    for case in ["rtx4090-8b conv", "rtx4090-8b m-large", "pro6000-8b conv", "pro6000-8b m-large"] {
        keeps_cases("auto/recorded.toml", case);
    }
}

#[test]
fn d02_the_start_limiter_protects_interactive_users_and_outdoes_fixed_budgets() {
    keeps_cases("batch/start-limiter.toml", "");
}

/// The first ten seconds of a flood that keeps 250 requests outstanding.
#[test]
fn the_start_of_a_flood_keeps_its_limits() {
    keeps_cases("overload/start-of-flood.toml", "");
}

/// From the second flood on `auto` knows the places, and keeps some free although the engine was
/// nearly empty before.
#[test]
fn o01_a_flood_after_the_first_finds_kept_places() {
    keeps_cases("overload/second-flood.toml", "");
}

/// In flight never exceeds what the engine runs by more than three.
#[test]
fn o02_auto_does_not_exceed_an_engine_of_unknown_size() {
    keeps_cases("auto/overshoot.toml", "");
}

#[test]
fn o02_a_lull_without_metrics_leaves_room_for_the_next_request() {
    keeps_cases("overload/lull.toml", "");
}

/// One load here; `make overload` plays all of them with five seeds.
#[test]
fn a_standing_queue_keeps_its_limits() {
    keeps(&root().join("scenarios/overload/standing-queue.toml"), Some(1.5));
}

/// One load here; `make caches` plays all of them with five seeds.
#[test]
fn k02_prompts_that_begin_alike_are_served_as_fast_as_by_affinity() {
    keeps(&root().join("scenarios/cache/beginnings.toml"), Some(1.4));
}

#[test]
fn bursts_are_waited_through() {
    keeps_cases("overload/bursts-waited.toml", "6");
    keeps(&root().join("scenarios/overload/bursts-on-off.toml"), Some(0.7));
    keeps(&root().join("scenarios/overload/burst-beside-traffic.toml"), Some(0.9));
}

/// One engine and one trace here; `make overload` plays sixteen of them with five seeds.
#[test]
fn goodput_on_recorded_traffic_keeps_its_limits() {
    keeps_cases("overload/goodput.toml", "rtx4090-8b conv");
}

/// One trace here; `make autoscaling` plays all of them with two seeds.
#[test]
fn the_number_that_is_wanted_costs_fewer_hours_on_recorded_traffic() {
    keeps_cases("autoscale/recorded-load.toml", "Azure");
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
