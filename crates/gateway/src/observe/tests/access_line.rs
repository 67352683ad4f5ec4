//! Lines of the access log: their content, and that no value can break them.

use std::time::Duration;

use flow::{Band, Span};
use serde_json::{Value, json};

use super::{refused, served};
use crate::config::settings::LogFormat;
use crate::observe::Record;
use crate::observe::access_line;
use crate::observe::timestamp;

const MOMENT: Duration = Duration::from_millis(1_794_733_953_123);
const NUMBER: u64 = 1_794_733_953_123_456_789;

fn text(record: &Record) -> String {
    access_line::write(record, LogFormat::Text, MOMENT, NUMBER)
}

fn json(record: &Record) -> Value {
    let line = access_line::write(record, LogFormat::Json, MOMENT, NUMBER);
    assert_eq!(line.matches('\n').count(), 1, "one line: {line:?}");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// R05: the line of a routed request has priority, boost, score and queue penalty.
#[test]
fn r05_an_access_line_has_the_routing_decision() {
    let record = Record {
        band: Some(Band::Critical),
        bypassed: false,
        waited: Some(Span::from_nanos(12_345_678)),
        ..served("chat", "llama")
    };
    let expected = "time=2026-11-15T09:12:33.123Z request_id=r-1 method=POST \
        path=/v1/chat/completions status=200 outcome=ok model=chat target_model=llama flow=team-a \
        priority=critical workload=etl criticality=4 backend=gpu-a reason=normal-balanced \
        boost=200.000 score=1450.500 queue_penalty=-50.000 attempts=1 bypassed=false \
        wait_ms=12.345 first_byte_ms=150.000 total_ms=900.000 prompt_tokens=12 \
        output_tokens=300 bytes_in=1000 bytes_out=20000\n";
    assert_eq!(text(&record), expected);
    let line = json(&record);
    assert_eq!(line["priority"], "critical");
    assert_eq!(line["boost"], 200.0);
    assert_eq!(line["score"], 1450.5);
    assert_eq!(line["queue_penalty"], -50.0);
    assert_eq!(line["wait_ms"], 12.345);
    assert_eq!(line["bypassed"], false);
    assert_eq!(line["time"], "2026-11-15T09:12:33.123Z");
}

/// W01: a request without a workload id has a generated one.
#[test]
fn w01_an_access_line_has_the_workload() {
    let line = json(&served("chat", "llama"));
    assert_eq!((&line["workload"], &line["criticality"]), (&json!("etl"), &json!(4)));
    let unnamed = Record {
        workload: String::new(),
        workload_prefix: "unknown-",
        criticality: 3,
        ..served("chat", "llama")
    };
    assert_eq!(json(&unnamed)["workload"], format!("unknown-{NUMBER}"));
    let expected = format!(" workload=unknown-{NUMBER} criticality=3 ");
    assert!(text(&unnamed).contains(&expected), "{}", text(&unnamed));
    let unread = Record { workload: String::new(), criticality: 0, ..served("chat", "llama") };
    assert!(!text(&unread).contains("workload="), "{}", text(&unread));
}

#[test]
fn unknown_values_are_left_out() {
    let record = Record { prompt_tokens: None, ..refused("", "invalid_request", 400) };
    let line = json(&record);
    let absent = ["model", "backend", "reason", "boost", "score", "queue_penalty", "wait_ms"];
    for key in absent.into_iter().chain(["first_byte_ms", "prompt_tokens"]) {
        assert!(line.get(key).is_none(), "{key} is unknown: {line}");
    }
    assert_eq!(line["outcome"], "invalid_request");
    assert!(!text(&record).contains("backend="));
}

/// All kinds of text that could end a field, a line or a string, or control a terminal.
#[test]
fn hostile_values_stay_inside_their_field() {
    let hostile = [
        "line\nbreak",
        "carriage\rreturn",
        "quote\" status=200",
        "back\\slash",
        "\u{1b}[31mred",
        "\u{9b}31m",
        "nul\0",
        "\u{202e}reversed",
        "\u{2028}separator",
        "two words",
        "key=value",
        "emoji \u{1f600}",
        "{\"json\":1}",
        "\u{7f}",
    ];
    for value in hostile {
        let record = Record {
            path: value.into(),
            model: Some(value.into()),
            flow: value.into(),
            workload: value.into(),
            ..served("chat", "llama")
        };
        let line = json(&record);
        for key in ["path", "model", "flow", "workload"] {
            assert_eq!(line[key], value, "a program reads what was sent");
        }
        let line = text(&record);
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        let shown = line.trim_end();
        let tame = |letter: char| letter == ' ' || letter.is_ascii_graphic();
        assert!(shown.chars().all(|c| tame(c) || c.is_alphanumeric()), "{line:?}");
        assert_eq!(fields(shown).len(), fields(text(&served("a", "b")).trim_end()).len());
    }
}

/// Splits a line as a reader of `key=value` does: at spaces outside quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for letter in line.chars() {
        match letter {
            ' ' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(letter),
        }
        quoted ^= letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
    }
    fields
}

#[test]
fn letters_of_every_script_are_shown_as_they_are() {
    let record = Record { flow: "Grüße-東京-٣".into(), ..served("chat", "llama") };
    assert!(text(&record).contains("flow=\"Grüße-東京-٣\""));
}

#[test]
fn long_values_are_cut_between_letters() {
    let record = Record { model: Some("é".repeat(1000).into()), ..served("", "llama") };
    let line = json(&record);
    let shown = line["model"].as_str().unwrap();
    assert_eq!(shown, format!("{}...", "é".repeat(128)));
    assert!(text(&record).len() < 1024);
}

#[test]
fn values_that_are_not_numbers_do_not_break_a_line() {
    let record = Record { score: f64::NAN, boost: f64::INFINITY, ..served("chat", "llama") };
    let line = json(&record);
    assert!(line.get("score").is_none() && line.get("boost").is_none());
}

#[test]
fn numbers_are_written_with_the_digits_they_need() {
    let shown = |value, width| {
        let mut out = String::new();
        timestamp::digits(&mut out, value, width);
        out
    };
    assert_eq!([shown(0, 1), shown(7, 3), shown(1234, 2)], ["0", "007", "1234"]);
    assert_eq!(shown(u64::MAX, 1), u64::MAX.to_string());
}

#[test]
fn moments_are_shown_as_dates() {
    let shown = |secs| {
        let mut out = String::new();
        timestamp::write(&mut out, Duration::from_secs(secs));
        out
    };
    assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(shown(951_782_399), "2000-02-28T23:59:59.000Z");
    assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000Z");
    assert_eq!(shown(951_868_800), "2000-03-01T00:00:00.000Z");
    assert_eq!(shown(1_735_689_599), "2024-12-31T23:59:59.000Z");
    assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00.000Z", "2100 has no leap day");
}
