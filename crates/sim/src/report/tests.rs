//! Reports of tiny scenarios, down to the byte.

use super::{Digest, Report};
use crate::scenario::{Scenario, Traces};

/// Requests of one length, one at a time: every figure can be worked out by hand.
const TINY: &str = r#"
title = "tiny"
about = "One request\na second."
duration = "20s"
[[engines]]
profile = "ollama-4"
[[traffic]]
tenant = "one"
arrivals = "poisson"
rate = 0.5
prompt = 170
output = 61
[[policies]]
kind = "direct"
[[policies]]
kind = "fifo"
watermark = 4
[[columns]]
head = "all answered"
figure = "served"
tenant = "one"
[[expect]]
figure = "served"
min = 1.0
[[expect]]
figure = "tpot.p50"
policy = "direct"
max = 0.001
"#;

const EXPECTED: &str = concat!(
    "### tiny\n",
    "\n",
    "One request a second.\n",
    "\n",
    "| policy | tokens/s | requests/s | goodput |  served |   TTFT normal | wait p99 ",
    "| TPOT p50 | all answered |\n",
    "| ------ | -------: | ---------: | ------: | ------: | ------------: | -------: ",
    "| -------: | -----------: |\n",
    "| direct |      113 |       0.45 |    0.50 | 100.0 % | 0.102 / 0.102 |    0.000 ",
    "|     16.7 |      100.0 % |\n",
    "| fifo 4 |      113 |       0.45 |    0.50 | 100.0 % | 0.102 / 0.102 |    0.000 ",
    "|     16.7 |      100.0 % |\n",
    "\n",
    "20 seconds of traffic for each run. TTFT is p50 / p99 in seconds, wait in second",
    "s, TPOT in milliseconds; goodput is answers per second within the objective.\n",
    "\n",
    "| expected                               | came out |   kept |\n",
    "| -------------------------------------- | -------: | -----: |\n",
    "| served under direct is at least 1      |    1.000 |    yes |\n",
    "| served under fifo 4 is at least 1      |    1.000 |    yes |\n",
    "| tpot.p50 under direct is at most 0.001 |    0.017 | **NO** |\n",
);

fn report(text: &str) -> Report {
    let scenario = Scenario::parse(text).unwrap();
    let digest = |cell| Digest::new(&scenario, cell, &scenario.run(&Traces::new(), cell).unwrap());
    let digests: Vec<Digest> = scenario.cells().into_iter().map(digest).collect();
    Report::new(&scenario, &digests)
}

#[test]
fn a_report_is_this_text() {
    // 170 tokens are read in 0.1 s and travel 1 ms each way; 60 steps of 1/60 s follow.
    assert_eq!(report(TINY).to_string(), EXPECTED);
}

#[test]
fn two_runs_give_the_same_bytes() {
    let text = TINY.replace("fifo\"\nwatermark = 4", "ours\"").replace("rate = 0.5", "rate = 5.0");
    let (one, other) = (report(&text), report(&text));
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(one.json(), other.json());
    let pictures = |report: &Report| -> Vec<(String, String)> {
        report.pictures().iter().map(|picture| (picture.name.clone(), picture.svg())).collect()
    };
    assert_eq!(pictures(&one), pictures(&other));
    let names: Vec<String> = pictures(&one).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["direct", "ours-requests-auto", "policies"]);
}

#[test]
fn columns_without_anything_in_them_are_left_out() {
    let head = report(TINY).to_string();
    for absent in ["load", "Jain", "gap/bound", "preempted", "critical"] {
        assert!(!head.contains(absent), "{absent} in\n{head}");
    }
    let loads = report(&TINY.replace("duration", "loads = [1.0, 2.0]\nduration"));
    assert!(loads.to_string().contains("| policy | load |"));
    assert!(loads.pictures().iter().any(|picture| picture.name == "loads"));
}

#[test]
fn programs_get_every_figure_and_verdict() {
    let json = report(TINY).json();
    assert_eq!(json["title"], "tiny");
    assert_eq!(json["rows"][1]["policy"], "fifo 4");
    assert_eq!(json["rows"][0]["figures"]["served of one"], 1.0);
    assert_eq!(json["rows"][0]["figures"]["jain"], serde_json::Value::Null);
    assert_eq!(json["verdicts"][2]["kept"], false);
}

#[test]
fn policies_with_like_names_have_pictures_of_their_own() {
    let text = TINY.replace("kind = \"direct\"", "kind = \"direct\"\nname = \"fifo-4\"");
    let text = text.replace("policy = \"direct\"", "policy = \"fifo-4\"");
    let report = report(&text);
    let names: Vec<&str> = report.pictures().iter().map(|picture| picture.name.as_str()).collect();
    assert_eq!(names, ["fifo-4", "fifo-4-1", "policies"]);
}

#[test]
fn an_expectation_under_several_loads_is_one_row() {
    let text = TINY.replace("duration", "loads = [1.0, 2.0]\nduration");
    let text = text.replace("figure = \"tpot.p50\"", "figure = \"requests\"");
    let report = report(&text.replace("max = 0.001", "max = 0.5")).to_string();
    assert!(report.contains("| served under direct is at least 1 "), "{report}");
    assert!(report.contains("**NO** at load 2 |"), "{report}");
    assert_eq!(report.matches("requests under direct is at most 0.5").count(), 1, "{report}");
}

#[test]
fn a_bar_in_a_name_does_not_part_a_cell() {
    let text = TINY.replace("kind = \"direct\"", "kind = \"direct\"\nname = \"a|b\"");
    let text = text.replace("policy = \"direct\"", "policy = \"a|b\"");
    let report = report(&text.replace("all answered", "c|d")).to_string();
    assert!(report.contains("\n| a\\|b   |"), "{report}");
    assert!(report.contains("\n| served under a\\|b is at least 1 "), "{report}");
    assert!(report.contains(" c\\|d |\n"), "{report}");
}
