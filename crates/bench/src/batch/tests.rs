//! The parts that need no process: files, configurations, averages.

use std::time::Duration;

use serde_json::{Value, json};

use super::accuracy::Seen;
use super::api::{Progress, chat, lines, progress};
use super::settings::{Gate, bounds, engine, work};

#[test]
fn a_batch_has_as_many_lines_as_wanted_each_with_its_own_id() {
    let file = String::from_utf8(lines(3, || chat(120, 16, false))).unwrap();
    let read: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&str> = read.iter().map(|line| line["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["request-0", "request-1", "request-2"]);
    let prompt = read[2]["body"]["messages"][0]["content"].as_str().unwrap();
    assert_eq!(prompt.len(), 120);
    let length = file.lines().next().unwrap().len();
    assert!((270..330).contains(&length), "about 300 bytes: {length}");
}

#[test]
fn how_far_a_batch_is_stands_in_its_counts() {
    let answer = json!({"status": "in_progress",
        "request_counts": {"total": 9, "completed": 4, "failed": 1}});
    let expected = Progress { status: "in_progress".into(), completed: 4, failed: 1 };
    assert_eq!(progress(&answer), Some(expected));
    assert_eq!(progress(&json!({"error": {"message": "no"}})), None);
}

#[test]
fn the_configurations_are_ones_that_the_gateway_takes() {
    let at = ([127, 0, 0, 1], 9).into();
    let scrape = Gate::Scrape { engine: at, places: 128, every: Duration::from_millis(250) };
    for gate in [Gate::OPEN, Gate::USUAL, scrape] {
        let config = work("batches".as_ref(), gate, "best-effort", Some(at));
        let config = config + &bounds(Some(128)) + &engine(at);
        let file = std::env::temp_dir().join(format!("bench-batch-{}.toml", std::process::id()));
        std::fs::write(&file, &config).unwrap();
        let source = gateway::config::Source { file: Some(file.clone()), ..Default::default() };
        let read = gateway::config::load(&source);
        std::fs::remove_file(&file).unwrap();
        assert!(read.is_ok(), "{config}\n{read:?}");
    }
}

#[test]
fn observations_have_a_mean_a_minimum_and_a_maximum() {
    assert_eq!(Seen::of(&[0.5, 1.0, 0.75]), Seen { average: 0.75, least: 0.5, most: 1.0 });
}
