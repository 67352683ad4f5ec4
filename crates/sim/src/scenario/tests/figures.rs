//! Figures of outcomes, of first tokens and of the engines' samples.

use flow::{AutoBound, Time};

use super::{first, small};
use crate::measure::{History, Outcome};
use crate::policy::RefusalReason;
use crate::scenario::{Figure, Measure, Scenario, Scope, Traces};

/// Twice what four slots can carry, under `auto` and under a watermark of 1.
const OVERLOADED: &str = r#"
title = "overloaded"
duration = "80s"
warm_up = "40s"
drain = "60s"
metrics = { every = "200ms" }
seeds = [11]

[[engines]]
profile = "ollama-4"

[[traffic]]
tenant = "all"
arrivals = "poisson"
rate = 5.4
prompt = 800
prompt_cv = 1.0
output = 60
output_cv = 1.0
bands = { critical = 0.1, normal = 0.9 }

[[policies]]
name = "auto"
kind = "ours"
cost = "requests"
capacity = 1000000
flow_capacity = 1000000
objective = "0s"
ttl = "500h"

[[policies]]
name = "one"
kind = "ours"
cost = "requests"
watermark = 1
capacity = 1000000
flow_capacity = 1000000
objective = "0s"
ttl = "500h"
"#;

fn overloaded(policy: usize) -> (Scenario, History) {
    let scenario = Scenario::parse(OVERLOADED).unwrap();
    let history = scenario.run(&Traces::new(), scenario.cells()[policy]).unwrap();
    (scenario, history)
}

#[test]
fn outcomes_are_counted_each_by_its_name() {
    let scenario = small();
    let mut history = scenario.run(&Traces::new(), first(&scenario)).unwrap();
    let outcomes = [
        Outcome::Served,
        Outcome::GaveUp,
        Outcome::Refused(RefusalReason::Full),
        Outcome::Refused(RefusalReason::Hopeless),
        Outcome::Refused(RefusalReason::Expired),
        Outcome::Refused(RefusalReason::Preempted),
        Outcome::Refused(RefusalReason::NoEngine),
        Outcome::Failed,
        Outcome::Failed,
        Outcome::Open,
    ];
    history.records.truncate(outcomes.len());
    for (at, (record, outcome)) in history.records.iter_mut().zip(outcomes).enumerate() {
        record.outcome = outcome;
        // The first two had a first token.
        record.streamed = u32::from(at < 2);
    }
    let part = |measure| Figure::of_all(measure).value(&history, &scenario.slo).unwrap();
    let measures = [
        (Measure::Served, 0.1),
        (Measure::GaveUp, 0.1),
        (Measure::Refused, 0.5),
        (Measure::Failed, 0.2),
        (Measure::Open, 0.1),
        (Measure::Started, 0.2),
    ];
    for (measure, expected) in measures {
        assert_eq!(part(measure), expected, "{measure:?}");
    }
}

#[test]
fn bounds_and_requests_in_flight_are_sampled() {
    let (scenario, history) = overloaded(0);
    let value = |measure| Figure::of_all(measure).value(&history, &scenario.slo).unwrap();
    let bounds = [AutoBound::Unstarted, AutoBound::Tokens, AutoBound::Slots, AutoBound::Pace];
    let [unstarted, tokens, slots, pace] = bounds.map(|bound| value(Measure::Bound(bound)));
    assert!(slots > 0.9, "{slots}");
    assert!(unstarted + tokens + slots + pace <= 1.0, "{unstarted} {tokens} {slots} {pace}");
    let in_flight = value(Measure::InFlight);
    assert!((3.0..=5.0).contains(&in_flight), "{in_flight}");
    let moments = history.series.moments.iter().filter(|moment| history.window.holds(moment.at));
    let most = moments.map(|moment| moment.engines[0].in_flight).max().unwrap();
    assert_eq!(value(Measure::InFlightMax), f64::from(most));
    assert!(f64::from(most) > in_flight, "{most} and {in_flight}");
}

#[test]
fn samples_of_a_part_of_the_time_are_those_taken_then() {
    let (scenario, history) = overloaded(0);
    let at = |from: u64, until: u64| {
        let [from, until] = [from, until].map(|secs| Some(Time::from_millis(secs * 1000)));
        let scope = Scope { from, until, ..Scope::default() };
        Figure { measure: Measure::InFlight, scope }.value(&history, &scenario.slo)
    };
    let moment = &history.series.moments[50];
    assert_eq!(moment.at, Time::from_millis(50_000));
    assert_eq!(at(50, 51), Some(f64::from(moment.engines[0].in_flight)));
    assert_eq!(at(10, 11), None, "the window begins at 40 s");
}

/// Waits are those of requests that had a first token; `started` shows that others had none.
#[test]
fn a_request_that_never_had_a_token_has_not_started() {
    let started = |policy: usize| {
        let (scenario, history) = overloaded(policy);
        Figure::of_all(Measure::Started).value(&history, &scenario.slo).unwrap()
    };
    let (auto, one) = (started(0), started(1));
    assert!(one > 0.0 && one < 0.5 * auto && auto < 1.0, "{one} under 1, {auto} under auto");
}
