//! Traces that are read.

mod mutated;
mod real;
mod refused;

use flow::Time;

use super::{Limits, Trace};

const TABLE: &str = "arrived_at_s,client,prompt_tokens,output_tokens
3.5,anna,100,7
3.75,bert,1,10000000
3.75,anna,20,3
";
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
";
const JSONL: &str = r#"{"timestamp":20,"input_length":1025,"output_length":6,"hash_ids":[7, 8, 9]}
{"timestamp": 27.5, "input_length": 30, "output_length": 5, "hash_ids": []}
{"timestamp": 28, "input_length": 40, "output_length": 4}
"#;

fn read(text: &str) -> Trace {
    Trace::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn moments(trace: &Trace) -> Vec<u64> {
    trace.rows.iter().map(|row| row.at.nanos()).collect()
}

#[test]
fn a_table_is_read_with_its_first_row_at_zero() {
    let trace = read(TABLE);
    assert_eq!(trace.clients, ["anna", "bert"]);
    assert_eq!(moments(&trace), [0, 250_000_000, 250_000_000]);
    let rows: Vec<_> = trace.rows.iter().map(|row| (row.client, row.prompt, row.output)).collect();
    assert_eq!(rows, [(0, 100, 7), (1, 1, 10_000_000), (0, 20, 3)]);
    assert!(trace.rows.iter().all(|row| row.prefix.is_empty()));
}

#[test]
fn columns_stand_in_any_order_and_unknown_ones_are_skipped() {
    let trace = read("output_tokens, note ,input_tokens,arrived_at_s\n3,hm,8,1e1\n4 ,,9, 10.25\n");
    assert_eq!(trace.clients, ["-"]);
    assert_eq!(moments(&trace), [0, 250_000_000]);
    assert_eq!((trace.rows[1].prompt, trace.rows[1].output), (9, 4));
}

#[test]
fn seconds_are_rounded_to_the_nearest_nanosecond() {
    let trace = read("arrived_at_s,input_tokens,output_tokens\n0,1,1\n1.001,1,1\n4.35,1,1\n");
    assert_eq!(moments(&trace), [0, 1_001_000_000, 4_350_000_000]);
}

#[test]
fn wall_times_keep_their_hundred_nanoseconds() {
    let trace = read(AZURE);
    assert_eq!(trace.clients, ["-"]);
    assert_eq!(moments(&trace), [0, 4_314_579_000]);
    assert_eq!((trace.rows[0].prompt, trace.rows[0].output), (374, 44));
}

#[test]
fn wall_times_cross_days_months_and_leap_years() {
    let secs = |from: &str, to: &str| {
        let trace =
            read(&format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{from},1,1\n{to},1,1\n"));
        trace.rows[1].at.since(Time::ZERO).secs_f64()
    };
    assert_eq!(secs("2023-11-30 23:59:59.5", "2023-12-01 00:00:00"), 0.5);
    assert_eq!(secs("2023-12-31T23:59:59Z", "2024-01-01T00:00:01Z"), 2.0);
    assert_eq!(secs("2024-02-28 12:00:00", "2024-03-01 12:00:00+00:00"), 2.0 * 86_400.0);
    assert_eq!(secs("2023-02-28 12:00:00", "2023-03-01 12:00:00"), 86_400.0);
    assert_eq!(secs("2000-01-01 00:00:00", "2001-01-01 00:00:00"), 366.0 * 86_400.0);
    assert_eq!(secs("2100-01-01 00:00:00", "2101-01-01 00:00:00"), 365.0 * 86_400.0);
}

#[test]
fn lines_of_json_are_read_with_their_segments() {
    let trace = read(JSONL);
    assert_eq!(trace.clients, ["-"]);
    assert_eq!(moments(&trace), [0, 7_500_000, 8_000_000]);
    assert_eq!(*trace.rows[0].prefix, [7, 8, 9]);
    assert!(trace.rows[1].prefix.is_empty() && trace.rows[2].prefix.is_empty());
    assert_eq!((trace.rows[2].prompt, trace.rows[2].output), (40, 4));
}

#[test]
fn milliseconds_since_1970_are_exact() {
    let line = |millis: u64| {
        format!("{{\"timestamp\": {millis}, \"input_length\": 1, \"output_length\": 1}}\n")
    };
    let trace = read(&(line(1_787_267_980_001) + &line(1_787_267_980_002)));
    assert_eq!(moments(&trace), [0, 1_000_000]);
}

#[test]
fn line_ends_byte_order_marks_and_blank_ends_do_not_matter() {
    for text in [TABLE, AZURE, JSONL] {
        let dressed = format!("\u{feff}{}\r\n\r\n \n", text.replace('\n', "\r\n"));
        assert_eq!(read(&dressed), read(text));
        assert_eq!(read(text.trim_end()), read(text));
    }
}

#[test]
fn every_bound_can_be_reached() {
    let limits = Limits { rows: 3, clients: 2, line_bytes: 47 };
    let trace = Trace::parse_within(TABLE, &limits).unwrap();
    assert_eq!(trace, read(TABLE));
}

#[test]
fn a_trace_of_one_row_begins_at_zero() {
    let trace = read("arrived_at_s,prompt_tokens,output_tokens\n9,1,1\n");
    assert!(trace.rows.iter().all(|row| row.at == Time::ZERO));
}
