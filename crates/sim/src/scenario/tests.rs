//! Scenarios as people write them, right and wrong.

mod closed_loop;
mod figures;

use std::sync::Arc;

use flow::{Band, Span, Time};

use super::{Cell, Figure, Measure, Point, Scenario, Scope, Traces};
use crate::measure::Outcome;
use crate::trace::Trace;

/// A world of half a minute, to be changed by tests.
const SMALL: &str = r#"
title = "small"
duration = "30s"

[[engines]]
profile = "ollama-4"

[[traffic]]
tenant = "one"
arrivals = "poisson"
rate = 2.0
prompt = 100
output = 20

[[policies]]
kind = "fifo"
watermark = 4
"#;

fn small() -> Scenario {
    Scenario::parse(SMALL).unwrap()
}

/// The error of the small scenario with one line replaced, or one added where there is none.
fn error_with(line: &str, replaced: &str) -> String {
    assert!(SMALL.contains(line), "{line}");
    let text = SMALL.replacen(line, replaced, 1);
    Scenario::parse(&text).map(|_| ()).expect_err(replaced).to_string()
}

fn first(scenario: &Scenario) -> Cell {
    scenario.cells()[0]
}

#[test]
fn a_small_scenario_runs() {
    let scenario = small();
    assert_eq!(scenario.cells().len(), 1);
    let history = scenario.run(&Traces::new(), first(&scenario)).unwrap();
    assert!(history.records.len() > 30);
    assert!(history.records.iter().all(|record| record.outcome == Outcome::Served));
}

#[test]
fn an_error_names_its_key() {
    let cases = [
        ("rate = 2.0", "rate = 0.0", "traffic[0].rate"),
        ("rate = 2.0", "rate = -1.0", "traffic[0].rate"),
        ("rate = 2.0", "rate = nan", "traffic[0].rate"),
        ("rate = 2.0", "rate = inf", "traffic[0].rate"),
        ("rate = 2.0", "", "traffic[0].rate"),
        ("rate = 2.0", "rate = 2.0\ncv = 3.0", "traffic[0].cv"),
        ("rate = 2.0", "rate = 2.0\nperiods = \"fixed\"", "traffic[0].periods"),
        ("rate = 2.0", "rate = 2.0\nfrom = \"9s\"\nuntil = \"8s\"", "traffic[0].until"),
        ("rate = 2.0", "rate = 2.0\nbands = { high = 0.5 }", "traffic[0].bands"),
        ("prompt = 100", "prompt = 0", "traffic[0].prompt"),
        ("prompt = 100", "trace = \"a\"\nprompt = 100", "traffic[0].trace"),
        ("output = 20", "output = 20\noutput_cv = 1.0", "traffic[0].output_cv"),
        ("poisson", "replay", "traffic[0].rate"),
        ("profile = \"ollama-4\"", "profile = \"olama\"", "engines[0].profile"),
        ("profile = \"ollama-4\"", "profile = \"ollama-4\"\ncount = 0", "engines[0].count"),
        ("profile = \"ollama-4\"", "profile = \"ollama-4\"\ncount = 999", "engines[0].count"),
        ("profile = \"ollama-4\"", "profile = \"ollama-4\"\nslots = 0", "engines[0].slots"),
        ("\"ollama-4\"", "\"rtx4090-8b\"\nkv_tokens = 0", "engines[0].kv_tokens"),
        ("\"ollama-4\"", "\"rtx4090-8b\"\nkv_tokens = 100000001", "engines[0].kv_tokens"),
        ("\"ollama-4\"", "\"rtx4090-8b\"\nslots = 4", "engines[0].slots"),
        ("watermark = 4", "watermark = 0", "policies[0].watermark"),
        ("watermark = 4", "watermark = 1.5", "policies[0].watermark"),
        ("watermark = 4", "watermark = 4\ncost = \"tokens\"", "policies[0].cost"),
        (
            "watermark = 4",
            "watermark = 4\n[[policies]]\nkind = \"fifo\"\nwatermark = 4",
            "policies[1].name",
        ),
        ("duration = \"30s\"", "duration = \"0s\"", "duration"),
        ("duration = \"30s\"", "duration = \"30s\"\nwarm_up = \"30s\"", "warm_up"),
        ("duration = \"30s\"", "duration = \"30s\"\nloads = []", "loads"),
        ("duration = \"30s\"", "duration = \"30s\"\nloads = [0.0]", "loads"),
        ("duration = \"30s\"", "duration = \"30s\"\nloads = [1.0, 2, 1.00]", "loads: `1`"),
        ("duration = \"30s\"", "duration = \"30s\"\nseeds = [1, 7, 7]", "seeds: `7`"),
        ("title = \"small\"", "title = \"small\\nlines\"", "title"),
        ("tenant = \"one\"", "tenant = \"one\\u007f\"", "traffic[0].tenant"),
        ("watermark = 4", "watermark = 4\nname = \"a\\rb\"", "policies[0].name"),
        ("duration = \"30s\"", "duration = \"30s\"\nseeds = []", "seeds"),
        ("duration = \"30s\"", "duration = \"30s\"\nmetrics = { every = \"0s\" }", "metrics.every"),
        ("duration = \"30s\"\n", "duration = \"30d\"", "30d"),
        ("duration = \"30s\"\n", "policies = []\nduration = \"30s\"\n", "policies"),
    ];
    for (line, replaced, key) in cases {
        let error = error_with(line, replaced);
        assert!(error.contains(key), "{replaced}: {error}");
    }
}

#[test]
fn an_error_at_the_end_is_named_too() {
    let cases = [
        ("[[tenants]]\nname = \"a\"\nweight = 0.0", "tenants[0].weight"),
        ("[[tenants]]\nname = \"\"\nweight = 1.0", "tenants[0].name"),
        ("[[faults]]\nat = \"1s\"\nengine = 7\nwhat = \"crash\"", "faults[0].engine"),
        ("[[faults]]\nat = \"1s\"\nengine = 0\nwhat = \"slow\"", "faults[0].factor"),
        ("[[faults]]\nat = \"1s\"\nengine = 0\nwhat = \"crash\"\nfactor = 2.0", "faults[0].factor"),
        ("[[expect]]\nfigure = \"ttft.p98\"\nmax = 1.0", "expect[0].figure"),
        ("[[expect]]\nfigure = \"jain\"\nband = \"high\"\nmin = 1.0", "expect[0].figure"),
        ("[[expect]]\nfigure = \"in-flight\"\nband = \"high\"\nmin = 1.0", "expect[0].figure"),
        ("[[expect]]\nfigure = \"bound.slots\"\ntenant = \"a\"\nmin = 1.0", "expect[0].figure"),
        ("[[expect]]\nfigure = \"served\"", "expect[0].min"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\nmax = 0.5", "expect[0].min"),
        ("[[expect]]\nfigure = \"served\"\nmin = nan", "expect[0].min"),
        ("[[expect]]\nfigure = \"served\"\ngoal_min = 2.0\ngoal_max = 1.0", "expect[0].goal_min"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\npolicy = \"lifo\"", "expect[0].policy"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\nover = \"lifo\"", "expect[0].over"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\nload = 3.0", "expect[0].load"),
        ("[[columns]]\nfigure = \"served\"\nhead = \"a\\nb\"", "columns[0].head"),
        ("[[columns]]\nfigure = \"served\"\ntenant = \"a\\nb\"", "columns[0].tenant"),
        ("[[columns]]\nfigure = \"served\"\nexcept = [\"a\\tb\"]", "columns[0].except"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\ntenant = \"\\u001b\"", "expect[0].tenant"),
        ("[[expect]]\nfigure = \"served\"\nmin = 1.0\nexcept = [\"\\n\"]", "expect[0].except"),
        ("[[tenants]]\nname = \"a\\nb\"\nweight = 1.0", "tenants[0].name"),
        ("[[columns]]\nfigure = \"served\"\nfrom = \"2s\"\nuntil = \"1s\"", "columns[0].until"),
    ];
    for (added, key) in cases {
        let error = Scenario::parse(&format!("{SMALL}\n{added}\n")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(key), "{added}: {error}");
    }
}

#[test]
fn unknown_keys_and_broken_toml_are_shown_with_their_line() {
    for (line, replaced) in [("rate = 2.0", "rte = 2.0"), ("rate = 2.0", "rate = = 2.0")] {
        let error = error_with(line, replaced);
        assert!(error.contains("line 11"), "{error}");
    }
}

#[test]
fn more_than_a_machine_can_hold_is_refused() {
    let huge = error_with("duration = \"30s\"", "duration = \"24h\"\nloads = [100.0]");
    assert!(huge.contains("requests in a run are too many"), "{huge}");
    let seeds = format!("duration = \"30s\"\nseeds = {:?}", (0..10_001).collect::<Vec<u64>>());
    let many = error_with("duration = \"30s\"", &seeds);
    assert!(many.contains("10001 runs are too many"), "{many}");
}

#[test]
fn memory_of_all_engines_together_is_bounded() {
    let engines = |kv_tokens: u64| {
        let figures = format!("\"rtx4090-8b\"\ncount = 4\nkv_tokens = {kv_tokens}");
        let first = SMALL.replace("\"ollama-4\"", &figures);
        Scenario::parse(&format!("{first}\n[[engines]]\nprofile = \"ollama-4\"\n"))
    };
    assert!(engines(100_000_000).is_ok());
    let one = format!("{SMALL}\n[[engines]]\nprofile = \"h100-8b\"\n");
    let both = one.replace("\"ollama-4\"", "\"rtx4090-8b\"\ncount = 4\nkv_tokens = 100000000");
    let error = Scenario::parse(&both).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("engines: 400442368 tokens of KV cache"), "{error}");
}

#[test]
fn readings_of_metrics_are_bounded() {
    let text = |every: &str| {
        let text = SMALL.replace("\"ollama-4\"", "\"ollama-4\"\ncount = 100");
        let text = text.replace("rate = 2.0", "rate = 0.1");
        let metrics = format!("\"1000s\"\ndrain = \"0s\"\nmetrics = {{ every = \"{every}\" }}");
        text.replace("\"30s\"", &metrics)
    };
    assert!(Scenario::parse(&text("2ms")).is_ok(), "50 million");
    let error = |text: &str| Scenario::parse(text).map(|_| ()).unwrap_err().to_string();
    let often = error(&text("1ms"));
    assert!(often.starts_with("metrics.every: 100000000 readings"), "{often}");
    let draining = error(&text("2ms").replace("\"0s\"", "\"1000s\""));
    assert!(draining.starts_with("metrics.every"), "engines tell until all is done: {draining}");
    let runs = error(&text("2ms").replace("\"1000s\"", "\"1000s\"\nseeds = [1, 2]"));
    assert!(runs.starts_with("metrics.every"), "{runs}");
    let mut scenario = Scenario::parse(&text("2ms")).unwrap();
    scenario.seeds = vec![1, 2];
    assert_eq!(scenario.check_work().unwrap_err().key, "metrics.every");
}

#[test]
fn an_error_states_the_allowed_values() {
    let duration = "duration = \"30s\"";
    let loads = error_with(duration, &format!("{duration}\nloads = []"));
    assert_eq!(loads, "loads: give at least one");
    for cvs in ["prompt_cv = 1.0\noutput_cv = 0.0", "prompt_cv = 1.0", "output_cv = 1.0"] {
        let error = error_with("output = 20", &format!("output = 20\n{cvs}"));
        let right = "traffic[0].output_cv: prompt_cv and output_cv must both be more than 0, or \
            both be 0 or left out";
        assert_eq!(error, right);
    }
}

#[test]
fn a_long_line_is_not_echoed_in_full() {
    let long = "x".repeat(100_000);
    for (line, replaced) in [
        ("rate = 2.0", format!("rate = {long}")),
        ("rate = 2.0", format!("{long} = 2.0")),
        ("title = \"small\"", format!("title = \"{long}\" 1")),
        ("\"ollama-4\"", format!("\"{long}\"")),
        ("\"30s\"", format!("\"{long}\"")),
    ] {
        let error = error_with(line, &replaced);
        let longest = error.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < 330, "{longest}: {}", &error[..300]);
    }
    let unknown = error_with("rate = 2.0", "rte = 2.0");
    assert!(unknown.contains("`ttl`"), "all keys that could be meant are shown: {unknown}");
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let text = SMALL.replace("prompt = 100\noutput = 20", "trace = \"lost.csv\"");
    let scenario = Scenario::parse(&text).unwrap();
    assert_eq!(scenario.traces().collect::<Vec<_>>(), ["lost.csv"]);
    let error = scenario.run(&Traces::new(), first(&scenario)).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "traffic[0].trace: no `lost.csv`");
}

#[test]
fn the_clients_of_a_trace_are_tenants_and_can_stay_away() {
    let text = SMALL.replace("prompt = 100\noutput = 20", "trace = \"t\"");
    let text = text
        .replace("tenant = \"one\"", "")
        .replace("watermark = 4", "watermark = 4\nwithout = [\"b\"]");
    let trace = "arrived_at_s,client,prompt_tokens,output_tokens\n0,a,9,9\n1,b,9,9\n2,c,9,9\n";
    let traces = Traces::from([("t".to_owned(), Arc::new(Trace::parse(trace).unwrap()))]);
    let scenario = Scenario::parse(&text).unwrap();
    let history = scenario.run(&traces, first(&scenario)).unwrap();
    let mut names: Vec<&str> = history.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn traffic_begins_and_ends_at_its_configured_times() {
    let text = SMALL.replace("rate = 2.0", "rate = 20.0\nfrom = \"10s\"\nuntil = \"20s\"");
    let scenario = Scenario::parse(&text).unwrap();
    let history = scenario.run(&Traces::new(), first(&scenario)).unwrap();
    let arrivals = || history.records.iter().map(|record| record.arrival);
    assert!(arrivals().all(|at| at >= Time::from_millis(10_000) && at < Time::from_millis(20_000)));
    assert!(arrivals().count() > 100);
}

#[test]
fn figures_are_read_and_written_alike() {
    for name in [
        "throughput",
        "requests",
        "goodput",
        "served",
        "refused",
        "gave-up",
        "failed",
        "open",
        "started",
        "in-flight",
        "bound.unstarted",
        "bound.tokens",
        "bound.slots",
        "bound.pace",
        "jain",
        "gap",
        "preemptions",
        "ttft.p50",
        "latency.p99",
        "wait.mean",
        "tpot.p50",
    ] {
        let measure = Measure::parse("figure".to_owned(), name).unwrap();
        assert_eq!(Figure::of_all(measure).to_string(), name);
    }
    let scope = Scope {
        band: Some(Band::High),
        except: vec!["a".to_owned(), "b".to_owned()],
        from: Some(Time::from_millis(1500)),
        ..Scope::default()
    };
    let figure = Figure { measure: Measure::Ttft(Point::P99), scope };
    assert_eq!(figure.to_string(), "ttft.p99 of high of all but a, b from 1.5s");
    for wrong in ["", "ttft", "ttft.", "ttft.p98", "served.p50", "p50"] {
        assert!(Measure::parse("figure".to_owned(), wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_figure_of_a_part_counts_that_part() {
    let scenario = small();
    let history = scenario.run(&Traces::new(), first(&scenario)).unwrap();
    let rate = |from: u64, until: u64| {
        let scope = Scope {
            from: Some(Time::from_millis(from)),
            until: Some(Time::from_millis(until)),
            ..Scope::default()
        };
        Figure { measure: Measure::Goodput, scope }.value(&history, &scenario.slo).unwrap()
    };
    let halves = (rate(0, 15_000) + rate(15_000, 30_000)) / 2.0;
    assert!((halves - rate(0, 30_000)).abs() < 1e-9, "both halves make the whole");
    let nobody = Scope { tenant: Some("nobody".to_owned()), ..Scope::default() };
    let figure = Figure { measure: Measure::Served, scope: nobody };
    assert_eq!(figure.value(&history, &scenario.slo), None);
}

#[test]
fn expectations_are_judged_where_they_were_run() {
    let text = SMALL.replace("duration = \"30s\"", "duration = \"30s\"\nloads = [1.0, 2.0]");
    let expects = "[[policies]]\nkind = \"direct\"\n\
        [[expect]]\nfigure = \"served\"\nmin = 1.0\n\
        [[expect]]\nfigure = \"served\"\nover = \"fifo 4\"\nmin = 2.0\nload = 2.0\n\
        [[expect]]\nfigure = \"served\"\ntenant = \"nobody\"\npolicy = \"direct\"\nmin = 0.0\n";
    let scenario = Scenario::parse(&format!("{text}\n{expects}")).unwrap();
    let sample =
        |cell: &Cell| scenario.sample(*cell, &scenario.run(&Traces::new(), *cell).unwrap());
    let samples: Vec<_> = scenario.cells().iter().map(sample).collect();
    let verdicts = scenario.verdicts(&samples);
    let shown: Vec<(&str, Option<f64>, Option<f64>, bool)> = verdicts
        .iter()
        .map(|verdict| (verdict.expected.as_str(), verdict.load, verdict.value, verdict.kept))
        .collect();
    let expected = [
        ("served under fifo 4 is at least 1", Some(1.0), Some(1.0), true),
        ("served under fifo 4 is at least 1", Some(2.0), Some(1.0), true),
        ("served under direct is at least 1", Some(1.0), Some(1.0), true),
        ("served under direct is at least 1", Some(2.0), Some(1.0), true),
        ("served under direct over that under fifo 4 is at least 2", Some(2.0), Some(1.0), false),
        ("served of nobody under direct is at least 0", Some(1.0), None, false),
        ("served of nobody under direct is at least 0", Some(2.0), None, false),
    ];
    assert_eq!(shown, expected);
    assert_eq!(scenario.verdicts(&samples[..1]).len(), 1, "only what was run is judged");
}

#[test]
fn defaults_are_those_that_the_document_names() {
    let scenario = small();
    assert_eq!(scenario.warm_up, Span::ZERO);
    assert_eq!(scenario.drain, Span::from_secs(600));
    assert_eq!(scenario.network, Span::from_millis(1));
    assert_eq!(scenario.slo.ttft, Span::from_secs(2));
    assert_eq!(scenario.slo.tpot, Span::from_millis(100));
    let policy = &scenario.policies[0];
    assert_eq!((policy.capacity, policy.ttl, policy.metrics), (1000, Span::from_secs(30), true));
}
