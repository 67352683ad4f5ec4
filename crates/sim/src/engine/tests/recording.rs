//! The simulated engine against recorded runs of the real one.

use flow::{Span, Time};

use super::super::recording::{
    Errors, Outcome, RecordedRequest, Statistic, compare, parse, replay,
};
use super::super::{Profile, Rejected};
use crate::recorded::recorded;

/// How far each of the nine statistics may be off from a recorded run of vLLM 0.19.
const ERROR_MAX: f64 = 0.05;

fn errors_of(folder: &str, profile: &str) -> Option<Errors> {
    let text = recorded(&format!("vllm_groundtruth/{folder}/requests.jsonl"))?;
    let rows = parse(&text).unwrap();
    assert_eq!(rows.len(), 300);
    let outcomes = replay(&Profile::named(profile).unwrap(), &rows).unwrap();
    Some(compare(&rows, &outcomes))
}

#[test]
fn a_recorded_run_short_of_kv_cache_is_met_within_5_percent() {
    let Some(errors) = errors_of("RTX4090_Llama-3.1-8B", "rtx4090-8b") else { return };
    assert!(errors.worst() <= ERROR_MAX, "\n{errors}");
}

#[test]
fn a_recorded_run_short_of_sequences_is_met_within_5_percent() {
    let Some(errors) = errors_of("RTXPRO6000_Llama-3.1-8B", "pro6000-8b") else { return };
    assert!(errors.worst() <= ERROR_MAX, "\n{errors}");
}

const TWO: &str = concat!(
    r#"{"input_toks":10,"output_toks":3,"arrival_time":1000.0,"queued_ts":50.5,"#,
    r#""first_token_ts":51.0,"last_token_ts":53.0}"#,
    "\n\n",
    r#"{"input_toks":20,"output_toks":1,"arrival_time":1002.0,"queued_ts":53.0,"#,
    r#""first_token_ts":54.0,"last_token_ts":54.0}"#,
);

#[test]
fn a_recording_is_read_with_both_clocks_set_together() {
    let rows = parse(TWO).unwrap();
    let first = Outcome { first: Span::from_millis(500), last: Span::from_millis(2500) };
    // The first request was queued soonest after it came, so the clocks are 949.5 s apart.
    let second = Outcome { first: Span::from_millis(1500), last: Span::from_millis(1500) };
    assert_eq!(
        rows[0],
        RecordedRequest { prompt: 10, output: 3, arrival: Time::ZERO, outcome: first }
    );
    let arrival = Time::from_millis(2000);
    assert_eq!(rows[1], RecordedRequest { prompt: 20, output: 1, arrival, outcome: second });
    assert_eq!(parse("").unwrap(), []);
}

#[test]
fn a_broken_recording_is_refused_with_its_line() {
    let broken = |from: &str, to: &str| parse(&TWO.replace(from, to)).unwrap_err().to_string();
    let cut = broken("20,", "-20,");
    assert!(cut.starts_with("line 3: invalid value: integer `-20`"), "{cut}");
    let missing = broken("\"queued_ts\":53.0,", "");
    assert!(missing.starts_with("line 3: missing field `queued_ts`"), "{missing}");
    assert_eq!(broken("51.0", "50.0"), "line 1: first_token_ts is before queued_ts");
    assert_eq!(
        broken("\"last_token_ts\":54.0", "\"last_token_ts\":53.9"),
        "line 3: last_token_ts is before first_token_ts"
    );
    assert_eq!(
        broken("1002.0", "999.0"),
        "line 3: arrival_time is before that of the line above: sort by arrival"
    );
}

#[test]
fn a_replay_without_error_compares_as_equal_and_the_table_shows_differences() {
    let mut rows = parse(TWO).unwrap();
    let profile = Profile::named("h100-8b").unwrap();
    let outcomes = replay(&profile, &rows).unwrap();
    for (row, outcome) in rows.iter_mut().zip(&outcomes) {
        row.outcome = *outcome;
    }
    assert_eq!(compare(&rows, &outcomes).worst(), 0.0);
    let statistic = Statistic { name: "TTFT mean", recorded: 200.0, simulated: 190.0 };
    let errors = Errors { statistics: vec![statistic] };
    assert!((errors.worst() - 0.05).abs() < 1e-12);
    let table = errors.to_string();
    assert_eq!(
        table.lines().last(),
        Some("TTFT mean         200.0        190.0    -5.0%"),
        "{table}"
    );
}

#[test]
fn a_request_that_comes_at_the_end_of_a_step_joins_the_next_one() {
    let mut rows = parse(TWO).unwrap();
    let profile = Profile::named("h100-8b").unwrap();
    rows[0].output = 2;
    rows[1].arrival = Time::ZERO.after(replay(&profile, &rows).unwrap()[0].first);
    let outcomes = replay(&profile, &rows).unwrap();
    assert_eq!(rows[1].arrival.after(outcomes[1].first), Time::ZERO.after(outcomes[0].last));
}

#[test]
fn mean_and_percentiles_are_those_of_the_recorded_values() {
    let rows: Vec<RecordedRequest> = (1..=5).map(row_of).collect();
    let outcomes: Vec<Outcome> = rows.iter().map(|row| row.outcome).collect();
    let recorded: Vec<f64> =
        compare(&rows, &outcomes).statistics.iter().map(|statistic| statistic.recorded).collect();
    let expected = [300.0, 300.0, 500.0, 30.0, 30.0, 50.0, 600.0, 600.0, 1000.0];
    for (recorded, expected) in recorded.iter().zip(expected) {
        assert!((recorded - expected).abs() < 1e-6, "{recorded} {expected}");
    }
}

fn row_of(number: u64) -> RecordedRequest {
    let first = Span::from_millis(100 * number);
    let last = Span::from_millis(200 * number);
    RecordedRequest { prompt: 1, output: 11, arrival: Time::ZERO, outcome: Outcome { first, last } }
}

#[test]
fn a_replay_with_a_job_that_cannot_fit_is_an_error() {
    let mut rows = parse(TWO).unwrap();
    rows[1].prompt = 1_000_000;
    let refused = replay(&Profile::named("h100-8b").unwrap(), &rows).unwrap_err();
    assert_eq!(refused, Rejected::TooLong { tokens: 1_000_001, limit: 131_072 });
}
