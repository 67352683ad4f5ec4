//! The demand for backends as the controller measures it.

use super::fixture::{Fixture, MODEL, backend, limited_to};
use crate::{Band, Demand, ModelId, ScaleGoal, Span, Ticket};

/// Lets `arrivals` asks a second arrive for `secs`, and each backend complete its two asks every
/// second.
fn run(fixture: &mut Fixture, secs: u32, arrivals: u32, mut in_flight: Vec<Ticket>) -> Vec<Ticket> {
    for _ in 0..secs {
        for _ in 0..arrivals {
            if let crate::Verdict::Granted { ticket, .. } = fixture.send("flow", Band::Normal) {
                in_flight.push(ticket);
            }
        }
        fixture.pass(Span::from_secs(1));
        for ticket in std::mem::take(&mut in_flight) {
            fixture.settle(ticket, 1);
        }
        in_flight.extend(fixture.granted());
    }
    in_flight
}

fn demand(fixture: &mut Fixture) -> Demand {
    let now = fixture.now;
    fixture.gate.demand(MODEL, now).unwrap()
}

/// Three times what one backend carries needs four backends, and the same after the fleet has
/// changed: nothing measured is lost.
#[test]
fn the_demand_outlives_a_change_of_the_fleet() {
    let mut fixture = Fixture::new(limited_to(2.0), 1);
    let in_flight = run(&mut fixture, 60, 6, Vec::new());
    let before = demand(&mut fixture);
    assert!((5.5..=6.5).contains(&before.arriving), "{before:?}");
    assert!(before.carried.is_some_and(|each| (1.8..=2.2).contains(&each)), "{before:?}");
    assert_eq!((before.ready, before.in_flight), (1, 2), "{before:?}");
    assert!(before.backlog_secs() > 40.0, "{before:?}");
    let goal = ScaleGoal { utilization: 1.0, drain: Span::from_secs(3600) };
    assert_eq!(before.wanted(goal), 4, "{before:?}");
    fixture.supply(&(0..4).map(|id| backend(id, &[MODEL.0])).collect::<Vec<_>>());
    let after = demand(&mut fixture);
    assert_eq!((after.ready, after.carried), (4, before.carried), "{after:?}");
    assert!((after.arriving - before.arriving).abs() < 0.1, "{after:?}");
    run(&mut fixture, 200, 0, in_flight);
    let over = demand(&mut fixture);
    assert_eq!((over.waiting, over.backlog_secs(), over.wanted(goal)), (0, 0.0, 0), "{over:?}");
}

/// A configured model without any backend has a demand as soon as an ask waits for it.
#[test]
fn an_ask_without_a_backend_wants_one() {
    let mut fixture = Fixture::with(limited_to(2.0), &[]);
    assert_eq!(fixture.gate.demand(ModelId(7), fixture.now), None, "no such model");
    fixture.gate.expect_models([MODEL].into_iter(), fixture.now);
    assert_eq!(demand(&mut fixture).wanted(ScaleGoal::default()), 0);
    fixture.fill("flow", Band::Normal, 3);
    let held = demand(&mut fixture);
    assert_eq!((held.waiting, held.ready, held.wanted(ScaleGoal::default())), (3, 0, 2));
    fixture.supply(&[backend(0, &[MODEL.0])]);
    let served = demand(&mut fixture);
    assert_eq!((served.waiting, served.in_flight, served.ready), (1, 2, 1));
}

/// Models that share backends have one demand, which counts once.
#[test]
fn models_that_share_backends_have_one_demand() {
    let mut fixture = Fixture::with(limited_to(2.0), &[backend(0, &[1, 2])]);
    run(&mut fixture, 30, 2, Vec::new());
    let one = demand(&mut fixture);
    let now = fixture.now;
    assert_eq!(fixture.gate.demand(ModelId(2), now), Some(one));
    fixture.supply(&[backend(0, &[1, 2]), backend(1, &[1, 2])]);
    let two = demand(&mut fixture);
    assert!((two.arriving - one.arriving).abs() < 0.1, "{one:?} {two:?}");
}
