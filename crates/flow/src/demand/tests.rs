//! The number of backends, from demands that are known.

use super::{Demand, DemandMeter, ScaleGoal};
use crate::time::{Span, Time};

const GOAL: ScaleGoal = ScaleGoal { utilization: 0.8, drain: Span::from_secs(60) };

fn at(secs: f64) -> Time {
    Time::from_nanos((secs * 1e9) as u64)
}

/// Arrivals of cost 8 a second, where one backend carries 2.
fn busy() -> Demand {
    let (carried, places, since_arrival) = (Some(2.0), Some(4.0), Some(Span::ZERO));
    Demand { arriving: 8.0, in_flight: 12, ready: 3, carried, places, since_arrival, ..IDLE }
}

const IDLE: Demand = Demand {
    arriving: 0.0,
    backlog: 0.0,
    waiting: 0,
    in_flight: 0,
    ready: 0,
    carried: None,
    places: None,
    draining: None,
    stalled: Span::ZERO,
    since_arrival: None,
};

#[test]
fn what_arrives_is_carried_with_room_to_spare() {
    let demand = Demand { in_flight: 40, ..busy() };
    assert_eq!(demand.wanted(GOAL), 5, "8 a second over 2, of which 0.8 is used");
    assert_eq!(demand.wanted(ScaleGoal { utilization: 1.0, ..GOAL }), 4);
}

#[test]
fn the_backlog_is_gone_within_the_wanted_time() {
    let demand = Demand { backlog: 600.0, waiting: 600, ..busy() };
    assert_eq!(demand.wanted(GOAL), 10, "five more complete 10 a second for a minute");
    assert_eq!(demand.backlog_secs(), 100.0, "600 over three times 2");
    let measured = Demand { draining: Some(5.0), ..demand };
    assert_eq!(measured.backlog_secs(), 120.0, "the present rate goes first");
}

#[test]
fn no_more_backends_are_wanted_than_would_take_every_ask_at_once() {
    let demand = Demand { backlog: 1e9, waiting: 100, in_flight: 12, ..busy() };
    assert_eq!(demand.wanted(GOAL), 35, "112 asks, four at each, 0.8 of them used");
    let nowhere = Demand { places: None, ..demand };
    assert_eq!(nowhere.wanted(GOAL), 100_000, "and a bound where the places are unknown");
}

#[test]
fn before_a_rate_is_known_the_places_in_use_count() {
    let demand = Demand { carried: None, in_flight: 12, ..busy() };
    assert_eq!(demand.wanted(GOAL), 4, "three full backends, of which 0.8 should be used");
    let unknown = Demand { places: None, ..demand };
    assert_eq!(unknown.wanted(GOAL), 1);
}

#[test]
fn none_is_wanted_once_nothing_has_come_for_a_minute() {
    assert_eq!(IDLE.wanted(GOAL), 0);
    let lately = |secs| Demand { since_arrival: Some(Span::from_secs(secs)), ..IDLE };
    assert_eq!([59, 60].map(|secs| lately(secs).wanted(GOAL)), [1, 0]);
    let quiet = Span::from_secs(300);
    assert_eq!([299, 300].map(|secs| lately(secs).is_active(quiet)), [true, false]);
    assert!(Demand { in_flight: 1, ..lately(300) }.is_active(quiet));
    assert_eq!(Demand { waiting: 1, ..IDLE }.wanted(GOAL), 1, "one that waits needs one");
    let stalled = Demand { waiting: 3, stalled: Span::from_secs(7), ..IDLE };
    assert_eq!(stalled.backlog_secs(), 21.0, "three rounds of what nothing has ended in");
}

#[test]
fn numbers_out_of_range_ask_for_no_backend_too_many() {
    let odd = Demand { arriving: f64::INFINITY, carried: Some(0.0), ..busy() };
    assert_eq!(odd.wanted(GOAL), 4, "a rate of nothing is none");
    let odd = ScaleGoal { utilization: 0.0, drain: Span::ZERO };
    assert!(busy().wanted(odd) <= 100_000);
}

#[test]
fn what_one_backend_carries_is_measured_from_its_first_completion() {
    let mut meter = DemandMeter::default();
    meter.start();
    // Two backends that complete four a second together begin after half a minute.
    for count in 0..240 {
        assert!(count > 20 || meter.carried().is_none(), "not measured for long enough");
        meter.completed(1, at(30.0 + 0.25 * f64::from(count)), || 2);
    }
    let carried = meter.carried().unwrap();
    assert!((1.9..=2.1).contains(&carried), "two a second each: {carried}");
    meter.start();
    assert_eq!(meter.carried(), Some(carried), "remembered while none waits");
}

#[test]
fn a_high_estimate_is_corrected_when_the_cost_is_known() {
    let mut meter = DemandMeter::default();
    for count in 0..6000 {
        meter.arrived(100, at(f64::from(count) / 10.0));
        meter.corrected(-90, at(f64::from(count) / 10.0 + 0.05));
    }
    let arriving = meter.arriving(at(600.0));
    assert!((95.0..=105.0).contains(&arriving), "a hundred a second: {arriving}");
    assert_eq!(meter.since_arrival(at(650.0)), Some(Span::from_millis(50_100)));
    let later = meter.arriving(at(720.0));
    assert!(later < 20.0, "two time constants later: {later}");
}
