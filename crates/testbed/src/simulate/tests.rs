//! Files, folders and what is wrong with them.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{SimulateOptions, document, read, run};
use crate::progress::Progress;

const SMALL: &str = r#"
title = "small"
duration = "20s"
loads = [1.0, 2.0]
seeds = [1, 2]
[[engines]]
profile = "ollama-4"
[[traffic]]
tenant = "one"
arrivals = "poisson"
rate = 2.0
prompt = 100
output = 20
[[policies]]
kind = "direct"
[[policies]]
kind = "fifo"
watermark = 4
[[expect]]
figure = "served"
min = 1.0
"#;

/// A folder of its own for each test, empty at the start.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn options(folder: &Path, scenario: &str) -> SimulateOptions {
    let path = folder.join("small.toml");
    fs::write(&path, scenario).unwrap();
    let pictures = Some(folder.join("pictures"));
    SimulateOptions {
        paths: vec![path],
        traces: Some(folder.into()),
        pictures,
        ..SimulateOptions::default()
    }
}

/// What a options prints, and its error if it ends with one.
fn play(options: &SimulateOptions) -> (String, Option<String>) {
    let mut out = Vec::new();
    let result = run(options, &mut out, Progress { out: &mut std::io::sink(), live: true });
    (String::from_utf8(out).unwrap(), result.err().map(|error| format!("{error:#}")))
}

fn error(options: &SimulateOptions) -> String {
    play(options).1.unwrap()
}

#[test]
fn a_scenario_is_printed_and_drawn() {
    let folder = folder("printed");
    let (text, error) = play(&options(&folder, SMALL));
    assert_eq!(error, None);
    assert!(text.starts_with("### small\n"), "{text}");
    assert_eq!(text.matches("| fifo 4 |").count(), 2, "{text}");
    for picture in ["direct", "fifo-4", "loads", "policies"] {
        let path = folder.join(format!("pictures/small/{picture}.svg"));
        assert!(fs::read_to_string(path).unwrap().starts_with("<svg"));
    }
}

#[test]
fn threads_change_nothing() {
    let folder = folder("threads");
    let options = options(&folder, SMALL);
    assert_eq!(play(&options), play(&options));
}

#[test]
fn the_command_line_chooses_policy_load_and_seeds() {
    let folder = folder("chosen");
    let options = options(&folder, SMALL);
    let only =
        SimulateOptions { only: Some("direct".to_owned()), load: Some(3.0), ..options.clone() };
    let (text, _) = play(&only);
    assert!(!text.contains("fifo"), "{text}");
    assert!(text.contains("| direct |    3 |"), "{text}");
    let (seeded, _) = play(&SimulateOptions { seed: Some(1), seeds: Some(2), ..options.clone() });
    assert_eq!(seeded, play(&options).0, "1 and 2 are the seeds of the file");
    assert_ne!(play(&SimulateOptions { seed: Some(9), ..options.clone() }).0, seeded);
    let json = play(&SimulateOptions { json: true, ..options }).0;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["scenario"], "small");
    assert_eq!(json[0]["report"]["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn a_broken_expectation_is_an_error_after_the_table() {
    let folder = folder("broken");
    let (text, error) = play(&options(&folder, &SMALL.replace("min = 1.0", "max = 0.5")));
    assert!(text.contains("**NO**"), "{text}");
    assert_eq!(error.unwrap(), "4 of 4 expectations are broken, in small");
}

#[test]
fn a_missed_goal_is_listed_and_is_an_error_only_if_goals_count() {
    let folder = folder("goals");
    let missed = SMALL.replace("min = 1.0", "min = 0.5\ngoal_min = 2.0");
    let options = options(&folder, &missed);
    let (text, error) = play(&options);
    assert_eq!(error, None, "the limit is kept");
    assert!(text.contains("goal missed at load 1, 2 |"), "{text}");
    assert!(text.contains("0 of 4 goals are reached."), "{text}");
    let row = "| small    | served under fifo 4 |    2 | at least 2 |    1.000 |";
    assert!(text.contains(row), "{text}");
    let counted = SimulateOptions { goals: true, ..options };
    assert_eq!(play(&counted).1.unwrap(), "4 of 4 goals are missed");
    fs::write(folder.join("small.toml"), missed.replace("goal_min = 2.0", "goal_min = 1.0"))
        .unwrap();
    let (text, error) = play(&counted);
    assert_eq!(error, None);
    assert!(text.contains("4 of 4 goals are reached."), "{text}");
}

#[test]
fn errors_name_the_file_and_the_place() {
    let folder = folder("errors");
    let bad = |from: &str, to: &str| error(&options(&folder, &SMALL.replace(from, to)));
    let file = folder.join("small.toml").display().to_string();
    for (message, place) in [
        (bad("rate = 2.0", "rate = -2.0"), "traffic[0].rate"),
        (bad("rate = 2.0", "rte = 2.0"), "line 11"),
        (bad("rate = 2.0", "rate = "), "line 11"),
        (bad("prompt = 100\noutput = 20", "trace = \"lost.csv\""), "lost.csv is missing"),
    ] {
        assert!(message.contains(place) && message.contains(&file), "{message}");
    }
    let options = options(&folder, SMALL);
    let only = error(&SimulateOptions { only: Some("lifo".to_owned()), ..options.clone() });
    assert!(only.contains("there are: direct, fifo 4"), "{only}");
    for seeds in [0, 1001] {
        assert!(
            error(&SimulateOptions { seeds: Some(seeds), ..options.clone() }).contains("--seeds")
        );
    }
    for load in [0.0, -1.0, f64::NAN, 101.0] {
        assert!(error(&SimulateOptions { load: Some(load), ..options.clone() }).contains("--load"));
    }
    let absent = error(&SimulateOptions { paths: vec![folder.join("absent.toml")], ..options });
    assert!(absent.contains("absent.toml"), "{absent}");
}

#[test]
fn a_bad_trace_is_named_with_its_line() {
    let folder = folder("traces");
    let options =
        options(&folder, &SMALL.replace("prompt = 100\noutput = 20", "trace = \"t.csv\""));
    let head = "arrived_at_s,client,prompt_tokens,output_tokens\n";
    for (rows, place) in [("", "line 1"), ("2,a,9,9\n1,a,9,9\n", "line 3"), ("0,a,9,x\n", "line 2")]
    {
        fs::write(folder.join("t.csv"), format!("{head}{rows}")).unwrap();
        let message = error(&options);
        assert!(message.contains("t.csv") && message.contains(place), "{message}");
    }
}

#[test]
fn a_folder_means_all_scenarios_in_it() {
    let folder = folder("folder");
    let options = options(&folder, SMALL);
    fs::write(folder.join("another.toml"), SMALL.replace("small", "another")).unwrap();
    fs::write(folder.join("notes.txt"), "not a scenario").unwrap();
    let (text, error) = play(&SimulateOptions { paths: vec![folder.clone()], ..options.clone() });
    assert_eq!(error, None);
    let places = ["### another", "### small"].map(|title| text.find(title).unwrap());
    assert!(places.is_sorted(), "in the order of their names");
    let empty = folder.join("pictures");
    let error = play(&SimulateOptions { paths: vec![empty], ..options }).1.unwrap();
    assert!(error.contains("no scenario (*.toml)"), "{error}");
}

#[test]
fn a_document_keeps_the_text_outside_its_marks() {
    let region = |of: &str, inside: &str| {
        let mark = |place: &str| format!("<!-- {place}: tidegate simulate {of} -->\n");
        format!("{}{inside}{}", mark("begin"), mark("end"))
    };
    let text = format!("before\n{}between\n{}after\n", region("a/b", "b"), region("a", "old\n"));
    let played = [PathBuf::from("a")];
    let replaced = document::replace(&text, &played, "new").unwrap();
    let expected = text.replace("old\n", "\nnew\n");
    assert_eq!(replaced, expected);
    let again = document::replace(&replaced, &played, "new").unwrap();
    assert_eq!(again, expected, "twice is like once");
    assert_eq!(document::replace("no marks", &played, "new"), None);
    assert_eq!(document::replace(&text, &[PathBuf::from("b")], "new"), None);
}

#[test]
fn the_cases_of_a_file_are_one_table_of_a_document() {
    let folder = folder("cases");
    let cases = "cases = [{ name = \"slow\", rate = 1.0 }, { name = \"fast\", rate = 2.0 }]";
    let title = format!("title = \"small: {{{{name}}}}\"\n{cases}");
    let scenario = SMALL.replace("rate = 2.0", "rate = \"{{rate}}\"");
    let scenario = scenario.replace("title = \"small\"", &title);
    let expects = "[[expect]]\nhead = \"in full\"\nfigure = \"served\"\npolicy = \"direct\"\n\
        load = 1.0\nmin = 1.0\n\
        [[expect]]\nfigure = \"served\"\nmin = 1.0\n";
    let options = options(&folder, &format!("{scenario}\n{expects}"));
    let mut progress = Progress { out: &mut Vec::new(), live: false };
    let outcomes = super::play(&options, &options.paths[0], &mut progress).unwrap();
    let text = document::tables(&outcomes);
    let table = "\
| case | in full | kept |
| ---- | ------: | ---: |
| slow |   1.000 |  yes |
| fast |   1.000 |  yes |
";
    assert!(text.starts_with("### small\n\n") && text.contains(table), "{text}");
}

#[test]
fn a_scenario_that_is_named_twice_is_played_once() {
    let folder = folder("twice");
    let options = options(&folder, SMALL);
    let again = folder.join(".").join("small.toml");
    let paths = vec![options.paths[0].clone(), again, folder.clone()];
    let (text, error) = play(&SimulateOptions { paths, ..options });
    assert_eq!(error, None);
    assert_eq!(text.matches("### small").count(), 1, "{text}");
}

#[test]
fn only_regular_files_of_a_sensible_size_are_read() {
    let folder = folder("regular");
    let options =
        options(&folder, &SMALL.replace("prompt = 100\noutput = 20", "trace = \"t.csv\""));
    fs::create_dir_all(folder.join("t.csv")).unwrap();
    let trace = error(&options);
    assert!(trace.contains("t.csv is a folder, not a regular file"), "{trace}");
    fs::remove_dir(folder.join("t.csv")).unwrap();
    fs::File::create(folder.join("t.csv")).unwrap().set_len((512 << 20) + 1).unwrap();
    let trace = error(&options);
    assert!(trace.contains("t.csv has more than 536870912 bytes"), "{trace}");
    if cfg!(unix) {
        let device = error(&SimulateOptions { paths: vec!["/dev/zero".into()], ..options.clone() });
        assert!(device.contains("/dev/zero is not a regular file"), "{device}");
    }
    fs::write(&options.paths[0], " ".repeat((1 << 20) + 1)).unwrap();
    let scenario = error(&options);
    assert!(scenario.contains("small.toml has more than 1048576 bytes"), "{scenario}");
}

#[test]
fn a_file_that_grows_while_it_is_read_is_refused() {
    assert_eq!(read::bounded(std::io::repeat(b'a').take(9), 9).unwrap().unwrap().len(), 9);
    assert_eq!(read::bounded(std::io::repeat(b'a'), 9).unwrap(), None);
}

#[test]
fn where_results_go_is_checked_before_anything_runs() {
    let folder = folder("before");
    let options = options(&folder, SMALL);
    let taken = folder.join("taken");
    fs::write(&taken, "a file").unwrap();
    let unmarked = folder.join("unmarked.md");
    fs::write(&unmarked, "no marks").unwrap();
    let document = |path: PathBuf| SimulateOptions { document: Some(path), ..options.clone() };
    for (options, problem) in [
        (SimulateOptions { pictures: Some(taken.clone()), ..options.clone() }, "cannot make"),
        (document(folder.join("absent.md")), "absent.md"),
        (document(folder.clone()), "is a folder"),
        (document(unmarked), "no lines"),
    ] {
        let (text, error) = play(&options);
        assert!(error.as_ref().is_some_and(|error| error.contains(problem)), "{error:?}");
        assert_eq!(text, "", "{problem}");
    }
}

#[test]
fn every_scenario_is_checked_before_the_first_runs() {
    let folder = folder("checked");
    let options = options(&folder, SMALL);
    let bad = folder.join("worse.toml");
    fs::write(&bad, SMALL.replace("rate = 2.0", "rate = -2.0")).unwrap();
    let (text, error) =
        play(&SimulateOptions { paths: vec![options.paths[0].clone(), bad], ..options.clone() });
    assert!(error.unwrap().contains("traffic[0].rate"));
    assert_eq!(text, "");
    let often = SMALL.replace("\"20s\"", "\"20s\"\nmetrics = { every = \"1ms\" }");
    fs::write(&options.paths[0], often).unwrap();
    let seeds = play(&SimulateOptions { seeds: Some(1000), ..options }).1.unwrap();
    assert!(seeds.contains("metrics.every"), "what the command line says counts too: {seeds}");
}
