//! The bench measures what it says: same work for both subjects, readable results, clear errors.

use flow::Order;

use super::cycles::{against_floor_table, filling, push};
use super::measure;
use super::paper_scale::{Scale, figures};
use super::sample::Sample;
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{Shape, Subject, power};
use crate::runner::Selection;

#[test]
fn core_and_floor_serve_the_same_flows() {
    let shape = Shape { queued: 1000, flows: 10 };
    let (mut source, draws) = filling(shape, shape.queued);
    let mut floor = FloorSubject::patient(shape, &draws);
    let mut core = CoreSubject::patient(shape, Order::Fifo, &draws).unwrap();
    for _ in 0..20 {
        let mut draws = source.draws(1000);
        // What an ask costs must not depend on when it ends, which differs a little.
        draws.iter_mut().for_each(|draw| draw.actual = 500);
        for subject in [&mut floor as &mut dyn Subject, &mut core] {
            subject.load(&draws);
            subject.cycle().unwrap();
            subject.check().unwrap();
        }
        // Ties and the asks that bypassed leave a few asks between them, and no more ever after.
        let pairs = floor.waiting_by_flow().into_iter().zip(core.waiting_by_flow());
        let apart = pairs.map(|(floor, core)| floor.abs_diff(core)).max();
        assert!(apart <= Some(16), "{apart:?} asks apart");
    }
}

/// With a hundred times as many waiting asks, a linear operation would take a hundred times as
/// long. A cycle takes about three times as long: memory is farther away.
#[test]
fn q10_a_cycle_costs_little_more_in_a_long_queue() {
    let only = Some("cycle/fifo/".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let report = measure(&selection, &mut Vec::new()).unwrap();
    let growth = &report.tables[1];
    let names: Vec<&str> = growth.rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["cycle/fifo/1e5x10", "cycle/fifo/1e5x1e4"]);
    for (name, figures) in &growth.rows {
        assert!(figures[0].unwrap() < 20.0, "{name}: {figures:?}");
    }
}

/// The choice among engines with room looks at each of them, so that its cost grows with their
/// number, and no faster. A full cluster has little to choose from.
#[test]
fn q10_a_request_costs_no_more_than_its_engines() {
    for (waiting, most) in [(1000, 100.0), (0, 500.0)] {
        let held = |engines| {
            let scale = Scale { engines, flows: 1000, waiting, engines_of_model: engines };
            figures(scale, 5).unwrap()[3]
        };
        let (few, many) = (held(10), held(1000));
        assert!(many < most * few, "{waiting} wait: {few} % with 10 engines, {many} % with 1000");
    }
}

#[test]
fn k01_a_long_prompt_is_looked_up_in_microseconds() {
    let only = Some("prefix-index".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let report = measure(&selection, &mut Vec::new()).unwrap();
    let [lookup, bytes] = &report.tables[0].targets[..] else { panic!("{report:?}") };
    // The machine may be busy; a search of every block would take a hundred times as long.
    assert!(lookup.found < 20.0 * lookup.limit, "{lookup:?}");
    assert!(bytes.met, "{bytes:?}");
}

#[test]
fn a_storm_runs_and_is_reported() {
    let only = Some("expiry/1e3x10".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let mut progress = Vec::new();
    let report = measure(&selection, &mut progress).unwrap();
    assert_eq!(String::from_utf8(progress).unwrap(), "expiry/1e3x10\n");
    assert_eq!(report.tables.len(), 1);
    let (name, figures) = &report.tables[0].rows[0];
    assert_eq!(name, "expiry/1e3x10");
    assert!(figures[4].unwrap() > 0.0, "{figures:?}");
}

#[test]
fn a_filter_that_matches_nothing_lists_the_measurements() {
    let only = Some("nonsense".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let error = measure(&selection, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("no benchmark's name contains 'nonsense'"), "{error}");
    assert!(error.contains("cycle/fifo/1e5x10,"), "{error}");
}

#[test]
fn the_core_has_a_limit_for_its_score_and_its_dequeue() {
    let only = Some("scan".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let report = measure(&selection, &mut Vec::new()).unwrap();
    let limits: Vec<(&str, f64)> = report.tables[0]
        .targets
        .iter()
        .map(|target| (target.what.as_str(), target.limit))
        .collect();
    assert_eq!(
        limits,
        [("ns for the scores of a choice", 1000.0), ("ns per workload dequeue", 2_000.0)]
    );
}

#[cfg(not(feature = "memory"))]
#[test]
fn bytes_that_cannot_be_counted_are_a_note() {
    let only = Some("memory".to_owned());
    let selection = Selection { quick: true, only, ..Selection::default() };
    let report = measure(&selection, &mut Vec::new()).unwrap();
    assert_eq!(report.notes, ["Bytes: build with --features memory to count."]);
}

#[test]
fn ratios_are_those_of_least_and_median() {
    let sample = |min: f64| Sample { min, median: min * 2.0 };
    let mut table = against_floor_table("steps");
    push(&mut table, "a".to_owned(), sample(120.0), Some(sample(60.0)));
    push(&mut table, "preemption".to_owned(), sample(170.0), None);
    let expected = [120.0, 240.0, 60.0, 120.0, 2.0, 2.0].map(Some);
    assert_eq!(table.rows[0].1, expected);
    assert_eq!(table.rows[1].1, [Some(170.0), Some(340.0), None, None, None, None]);
}

#[test]
fn powers_of_ten_are_short() {
    assert_eq!(
        [1, 10, 100, 1000, 1500, 10_000].map(power),
        ["1", "10", "100", "1e3", "1500", "1e4"]
    );
}
