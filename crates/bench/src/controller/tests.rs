//! The bench measures what it says: same work for both subjects, readable results, clear errors.

use flow::Order;

use super::cycles::filling;
use super::report::{Cell, Memory, Relative, Report, Scan};
use super::sample::Sample;
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{Shape, Subject, power};
use super::{core, targets};
use crate::runner::Selection;

fn report() -> Report {
    let cell = |name: &str, core: f64, floor: Option<f64>| {
        let sample = |min: f64| Sample { min, median: min * 2.0 };
        Cell::new(name.to_owned(), sample(core), floor.map(sample))
    };
    let dequeue = Sample { min: 9000.0, median: 9500.0 };
    let report = Report {
        quick: true,
        cycles: vec![cell("a", 120.0, Some(60.0)), cell("b", 70.0, Some(50.0))],
        growth: Vec::new(),
        scan: Some(Scan { workloads: 1000, dequeue, alone: dequeue, score: 8.0 }),
        storms: vec![cell("preemption", 170.0, None)],
        memory: Some(Memory::NotCounted),
        relative: vec![Relative::new("L0".to_owned(), dequeue, Some(348_900.0))],
        targets: Vec::new(),
    };
    Report { targets: targets::judge(&report), ..report }
}

#[test]
fn core_and_floor_serve_the_same_flows() {
    let shape = Shape { queued: 1000, flows: 10 };
    let (mut source, draws) = filling(shape, shape.queued);
    let mut floor = FloorSubject::patient(shape, &draws);
    let mut core = CoreSubject::patient(shape, Order::Fifo, &draws).unwrap();
    for _ in 0..20 {
        let mut draws = source.chance.draws(1000, shape.flows, shape.queued);
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

#[test]
fn a_storm_runs_and_is_reported() {
    let selection = Selection { quick: true, only: Some("expiry/1e3x10".to_owned()) };
    let mut progress = Vec::new();
    let report = core(&selection, &mut progress).unwrap();
    assert_eq!(String::from_utf8(progress).unwrap(), "expiry/1e3x10\n");
    assert_eq!(report.storms.len(), 1);
    assert!(report.storms[0].ratio.unwrap().min > 0.0);
    let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(value["storms"][0]["name"], "expiry/1e3x10");
}

#[test]
fn a_filter_that_fits_nothing_is_told_what_there_is() {
    let selection = Selection { quick: true, only: Some("nonsense".to_owned()) };
    let error = core(&selection, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("no benchmark's name contains 'nonsense'"), "{error}");
    assert!(error.contains("cycle/fifo/1e5x10,"), "{error}");
}

#[test]
fn targets_name_the_worst_cell() {
    let targets = report().targets;
    let told: Vec<_> = targets.iter().map(|t| (t.name.as_str(), t.worst, t.met)).collect();
    assert_eq!(told, [("a", 2.0, false), ("scan", 8.0, true), ("scan", 9000.0, true)]);
}

#[test]
fn tables_are_aligned() {
    let text = report().to_string();
    let table = "\
| ns per step | core | median | floor | median | ratio | median |
| ----------- | ---: | -----: | ----: | -----: | ----: | -----: |
| a           |  120 |    240 |    60 |    120 |  2.00 |   2.00 |
| b           |   70 |    140 |    50 |    100 |  1.40 |   1.40 |
";
    assert!(text.contains(table), "{text}");
    assert!(text.contains("Build with --features memory to count."), "{text}");
}

#[test]
fn powers_of_ten_are_short() {
    assert_eq!(
        [1, 10, 100, 1000, 1500, 10_000].map(power),
        ["1", "10", "100", "1e3", "1500", "1e4"]
    );
}
