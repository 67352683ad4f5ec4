//! A recorded hour of real traffic, played in a moment.

use super::*;
use crate::measure::Slo;
use crate::trace::Trace;

const TRACE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces/azure_llm_2023_conv.csv");

#[test]
fn a_recorded_hour_is_served_whole() {
    let Ok(text) = std::fs::read_to_string(TRACE) else {
        eprintln!("skipped: the recorded hour is not here, {TRACE} cannot be read");
        return;
    };
    let trace = Arc::new(Trace::parse(&text).unwrap());
    let (rows, random) = (trace.rows.len(), Random::new(0));
    let replay = Process::Replay { speed: 1.0 };
    let arrivals = Arrivals::new(replay, Lengths::Trace(trace), &random, Time::NEVER).unwrap();
    let source = Source::new("all", arrivals);
    let mut setup = Setup::new(vec![named("rtx4090-8b"); 4], vec![source], Span::from_secs(3502));
    setup.metrics = Some(Metrics { every: Span::from_secs(1), lag: Span::from_millis(100) });
    let summary = run(setup, &mut ours(Bounds::Auto)).summary(&Slo::default());
    assert_eq!(summary.counts.served, rows as u64);
    assert!(summary.ttft.unwrap().p99 < Span::from_secs(2), "{:?}", summary.ttft);
    // 1155 tokens in and 211 out, 5.53 times a second.
    assert!((summary.prompt_rate / 6385.0 - 1.0).abs() < 0.01, "{}", summary.prompt_rate);
    assert!((summary.output_rate / 1168.0 - 1.0).abs() < 0.01, "{}", summary.output_rate);
}
