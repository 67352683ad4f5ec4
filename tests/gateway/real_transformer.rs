//! O01: a real transformer with continuous batching behind the gateway, in a small flood.
//!
//! `tools/gpu/flood.py` measures this on a GPU. Here it runs at toy size on a processor. How fast
//! the requests are is not checked.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::tools::{python_tool, run};

const CONFIGURATIONS: [&str; 7] =
    ["direct", "fixed", "fixed+reserve", "auto", "auto-second", "places", "places+reserve"];

/// More in flight than the engine has places, where the gateway knows their number.
const ABOVE_PLACES_MAX: u64 = 3;

/// The texts of a team's responses. Every run sends the same requests.
fn texts<'run>(run: &'run Value, team: &str) -> Vec<&'run str> {
    let calls = run["calls"][team].as_array().unwrap();
    calls.iter().map(|call| call["text"].as_str().unwrap()).collect()
}

fn check_engine(results: &Value) {
    let check = &results["check"];
    assert_eq!(check["batched_as_alone"], check["sequences"], "{check}");
    assert_eq!(check["batched_as_plain"], check["sequences"], "{check}");
    assert!(check["different_tokens"].as_u64().unwrap() > 50, "{check}");
    let apis = &results["apis"];
    assert_eq!(apis["texts"].as_array().unwrap().len(), 1, "{apis}");
    assert_eq!(apis["usage"]["completion_tokens"], 12);
}

/// All requests were answered, with the text that they get without a flood, and the engine counted
/// what its clients got.
fn check_run(run: &Value, alone: &Value) {
    let name = &run["name"];
    for team in ["pager", "quiet"] {
        assert!(run[team]["sent"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(run[team]["answered"], run[team]["sent"], "{name} {team}");
        let (texts, alone) = (texts(run, team), texts(alone, team));
        assert!(texts.iter().all(|text| !text.is_empty()), "{name} {team}");
        assert_eq!(texts[..alone.len()], alone, "{name} {team}");
    }
    let engine = &run["engine_after"];
    for gauge in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        assert_eq!(engine[format!("vllm:{gauge}")], 0.0, "{name}");
    }
    let most_polled = run["polls"].as_array().unwrap().iter().map(|poll| {
        let [running, waiting] = [1, 2].map(|column| poll[column].as_u64().unwrap());
        running + waiting
    });
    let most_polled = most_polled.max().unwrap();
    assert!(most_polled <= run["in_flight_max"].as_u64().unwrap(), "{name}: {most_polled}");
}

#[test]
fn o01_a_real_transformer_serves_the_pager_in_a_flood() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("real-transformer-{}", std::process::id()));
    let mut command = python_tool("gpu/flood.py");
    command.args(["--toy", "--tidegate", env!("CARGO_BIN_EXE_tidegate"), "--out"]).arg(&folder);
    let table = run(&mut command);
    let results = fs::read_to_string(folder.join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    check_engine(&results);
    let [alone, runs @ ..] = &results["runs"].as_array().unwrap()[..] else { panic!("no run") };
    let names: Vec<&str> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, CONFIGURATIONS);
    for run in [alone].into_iter().chain(runs) {
        check_run(run, alone);
        let row = format!("| {} | ", run["name"].as_str().unwrap());
        assert!(table.contains(&row), "no row {row} in\n{table}");
    }
    // The three requests that compare the APIs came before.
    let clients = alone["tokens_of_clients"].as_f64().unwrap() + 36.0;
    assert_eq!(alone["engine_after"]["vllm:generation_tokens_total"], clients);
    let named = |part: &'static str| {
        let has = move |run: &&Value| run["name"].as_str().unwrap().starts_with(part);
        runs.iter().filter(has)
    };
    for run in named("fixed").chain(named("places")) {
        let above = run["above_places_max"].as_u64().unwrap();
        assert!(above <= ABOVE_PLACES_MAX, "{}: {above} more than places", run["name"]);
    }
    let places = results["options"]["places"].as_u64().unwrap();
    let most = named("fixed").next().unwrap()["in_flight_max"].as_u64().unwrap();
    assert!(most > places / 2, "{most} of {places}: there was no flood");
}
