//! A recorded hour of real traffic, played in a moment.

use super::*;
use crate::measure::{Outcome, Record, Stat};
use crate::recorded::recorded;
use crate::trace::Trace;

#[test]
fn a_recorded_hour_is_served_whole() {
    let Some(text) = recorded("azure_llm_2023_conv.csv") else { return };
    let trace = Arc::new(Trace::parse(&text).unwrap());
    let (rows, random) = (trace.rows.len(), Random::new(0));
    let replay = Process::Replay { speed: 1.0 };
    let arrivals = Arrivals::new(replay, Lengths::Trace(trace), &random, Time::NEVER).unwrap();
    let source = Source::new("all", arrivals);
    let mut setup = Setup::new(vec![named("rtx4090-8b"); 4], vec![source], Span::from_secs(3502));
    setup.metrics = Some(Metrics { every: Span::from_secs(1), lag: Span::from_millis(100) });
    let history = run(setup, &mut ours(Bounds::Auto));
    let served = history.records.iter().filter(|record| record.outcome == Outcome::Served);
    assert_eq!(served.count(), rows);
    let ttft = Stat::of(history.records.iter().filter_map(Record::ttft).collect()).unwrap();
    assert!(ttft.p99 < Span::from_secs(2), "{ttft:?}");
    // 1155 tokens in and 211 out, 5.53 times a second.
    let rate = |tokens: u64| tokens as f64 / history.window.secs();
    let (prompt, output) = (rate(history.produced.prompt), rate(history.produced.output));
    assert!((prompt / 6385.0 - 1.0).abs() < 0.01, "{prompt}");
    assert!((output / 1168.0 - 1.0).abs() < 0.01, "{output}");
}
