//! The log of the process: its level, its colours, and JSON from the first line on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::gateway::{config, fresh_file};
use crate::support::tools::{client, leave_out, run, tool};
use crate::support::{Gateway, Nowhere};

/// No machine has this address, so that a start fails at its listener.
const ELSEWHERE: [&str; 2] = ["--listen", "203.0.113.1:9"];
/// A setting that is logged as a warning.
const WARNING: [&str; 2] = ["--set", "controller.stock=tokens"];
const JSON: [&str; 2] = ["--set", "log.format=json"];

fn tidegate(arguments: &[&[&str]], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let backend = ["--backend", "http://127.0.0.1:9"];
    command.args(arguments.concat()).args(backend).envs(variables.iter().copied());
    command.env_remove("RUST_LOG").env_remove("TIDEGATE_LOG").env_remove("NO_COLOR");
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The lines of a start that fails, each of which must be JSON.
#[track_caller]
fn json_lines(arguments: &[&[&str]], variables: &[(&str, &str)]) -> Vec<Value> {
    let output = tidegate(arguments, variables).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(!said.is_empty());
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
    said.lines().map(parse).collect()
}

#[track_caller]
fn has_error(lines: &[Value], part: &str) {
    let is_it = |line: &&Value| {
        let message = line["message"].as_str().unwrap_or_default();
        line["level"] == "ERROR" && message.contains(part)
    };
    assert!(lines.iter().any(|line| is_it(&line)), "{part:?} is not in {lines:?}");
    let timed = |line: &Value| line["time"].as_str().is_some_and(|time| time.len() > 20);
    assert!(lines.iter().all(timed), "{lines:?}");
}

#[test]
fn x06_a_failed_start_is_logged_in_the_configured_format() {
    let lines = json_lines(&[&["serve"], &ELSEWHERE, &WARNING, &JSON], &[]);
    assert_eq!(lines[0]["level"], "WARN", "{lines:?}");
    has_error(&lines, "cannot listen on 203.0.113.1:9");
    // Even if the log is off, the reason is told.
    let off = ["--log-level", "off"];
    has_error(&json_lines(&[&["serve"], &ELSEWHERE, &WARNING, &JSON, &off], &[]), "cannot listen");
}

#[test]
fn x06_problems_of_a_configuration_are_logged_in_its_format_as_far_as_it_is_known() {
    let file = Gateway::launch("").folder().join("bad.toml");
    let bad = |text: &str| {
        fs::write(&file, text).unwrap();
        ["--config".to_owned(), file.to_str().unwrap().to_owned()]
    };
    for command in ["serve", "epp"] {
        let flags = bad("[queue]\nqueue_tll = 3\norder = 7\n[log]\nformat = 'json'\n");
        let lines = json_lines(&[&[command], &flags.each_ref().map(String::as_str)], &[]);
        assert_eq!(lines.len(), 2, "one line a problem: {lines:?}");
        has_error(&lines, "bad.toml:2: queue.queue_tll is not a known key");
    }
    // The variable counts even if the file cannot be read.
    let variable = [("TIDEGATE_LOG__FORMAT", "json")];
    let flags = bad("[queue\n");
    has_error(&json_lines(&[&["serve"], &flags.each_ref().map(String::as_str)], &variable), ":1:");
    let none = ["--config", "none.toml"];
    has_error(&json_lines(&[&["serve"], &none], &variable), "none.toml: cannot be read");
    let output = tidegate(&[&["serve"], &none], &[]).output().unwrap();
    assert!(stderr(&output).starts_with("error: none.toml"), "{}", stderr(&output));
}

#[test]
fn x06_in_json_standard_output_is_json_from_the_first_line() {
    let listen = ["--listen", "127.0.0.1:0"];
    let pages = ["--set", "admin.listen=127.0.0.1:0"];
    let mut command = tidegate(&[&["serve"], &listen, &pages, &JSON], &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Vec<String> = (0..2).map(|_| lines.next().unwrap().unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for (line, start) in first.iter().zip(["listening on http://", "visibility on http://"]) {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{first:?}"));
        assert!(line["message"].as_str().unwrap().starts_with(start), "{line}");
        assert!(line["time"].is_string(), "{line}");
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"tidegate".into()));
    }
}

#[test]
fn x06_the_level_of_the_log_is_set_by_flag_or_variable() {
    let said = |flags: &[&str], variables: &[(&str, &str)]| {
        stderr(&tidegate(&[&["serve"], &ELSEWHERE, &WARNING, flags], variables).output().unwrap())
    };
    let warns = |said: &str| said.contains("controller.stock has no effect");
    assert!(warns(&said(&[], &[])));
    assert!(!warns(&said(&["--log-level", "error"], &[])));
    assert!(!warns(&said(&[], &[("RUST_LOG", "error")])));
    let both = [("RUST_LOG", "error"), ("TIDEGATE_LOG", "warn")];
    assert!(warns(&said(&[], &both)), "Tidegate's own variable goes before the common one");
    assert!(!warns(&said(&["--log-level", "error"], &both)), "a flag goes before a variable");
    assert!(warns(&said(&["--log-level", "off,gateway=WARN"], &[])));
    let wrong = said(&["--log-level", "inof"], &[]);
    assert!(wrong.contains("--log-level") && wrong.contains("off, error, warn, info"), "{wrong}");
    let wrong = said(&[], &[("RUST_LOG", "gateway=loud")]);
    assert!(wrong.contains("RUST_LOG") && wrong.contains("gateway=loud"), "{wrong}");
}

/// A terminal is needed to see colours at all, so `script` makes one.
#[test]
fn x06_no_color_switches_colours_off() {
    let in_terminal = |variables: &[(&str, &str)]| {
        let tidegate = env!("CARGO_BIN_EXE_tidegate");
        let flags = [["serve"].as_slice(), &ELSEWHERE, &WARNING].concat().join(" ");
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{tidegate} {flags}"), "/dev/null"]).stdin(Stdio::null());
        command.env_remove("NO_COLOR").envs(variables.iter().copied());
        let output = command.output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("cannot listen on"), "{shown}");
        shown
    };
    assert!(in_terminal(&[]).contains('\u{1b}'));
    assert!(in_terminal(&[("NO_COLOR", "")]).contains('\u{1b}'), "empty is as if not set");
    let plain = in_terminal(&[("NO_COLOR", "1")]);
    assert!(!plain.contains('\u{1b}'), "{plain}");
}

/// Debian's journal, in a mount namespace of its own.
#[test]
fn m01_a_service_of_systemd_logs_to_the_journal_with_fields() {
    let mut unshare = tool("unshare");
    unshare.args(["--mount", "true"]);
    if !unshare.output().is_ok_and(|output| output.status.success()) {
        return leave_out("a mount namespace needs root");
    }
    let (nowhere, file) = (Nowhere::reserve(), fresh_file());
    let listen = "[server]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(&file, config(listen, &[("gpu-a", nowhere.address())])).unwrap();
    let mut command = tool("unshare");
    command.arg("--mount").arg(client("journal.sh"));
    let entry = run(command.arg(env!("CARGO_BIN_EXE_tidegate")).arg(&file));
    let entry: Value = serde_json::from_str(&entry).unwrap();
    let text = entry["MESSAGE"].as_str().unwrap();
    assert!(text.starts_with("backend changed backend=\"gpu-a\" state="), "{entry:#}");
    let expected = ["4", "tidegate", "gateway::backend::backend_state", "journal"].map(Value::from);
    let fields = ["PRIORITY", "SYSLOG_IDENTIFIER", "TIDEGATE_TARGET", "_TRANSPORT"];
    assert_eq!(fields.map(|field| entry[field].clone()), expected, "{entry:#}");
}
