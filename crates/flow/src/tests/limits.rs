//! P09: limits on the asks of a flow in flight.

use super::fixture::{Dice, Fixture, MODEL, backend, limited_to};
use crate::{Ask, Band, FlowClass, Settings, Ticket, Verdict};

fn with_class(class: FlowClass, slots: f64) -> Settings {
    Settings { classes: vec![class], ..limited_to(slots) }
}

impl Fixture {
    fn send_limited(&mut self, flow: &str) -> Verdict {
        let flow = self.gate.flow(flow, 1);
        self.offer(Ask::new(flow, MODEL))
    }

    fn queue_limited(&mut self, flow: &str) -> Ticket {
        match self.send_limited(flow) {
            Verdict::Queued { ticket } => ticket,
            other => panic!("{flow}: expected to wait, got {other:?}"),
        }
    }
}

/// P09: a flow at its limit is skipped without blocking others.
#[test]
fn p09_a_flow_at_its_limit_is_skipped() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut fixture = Fixture::new(with_class(class, 3.0), 1);
    let Verdict::Granted { ticket: running, .. } = fixture.send_limited("small") else {
        panic!("an idle backend takes it");
    };
    let kept = fixture.queue_limited("small");
    let large = fixture.start("large");
    fixture.start("large");
    let next = fixture.queue("large", Band::Normal);
    fixture.settle(large, 1);
    assert_eq!(fixture.granted(), [next], "the flow at its limit blocks no other flow");
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [kept], "its turn comes when its own ask ends");
}

/// P09: per backend: the flow goes to backends below its limit, and waits if there is none.
#[test]
fn p09_limits_per_backend_steer_and_then_hold() {
    let class = FlowClass { in_flight_per_backend_max: Some(1), ..FlowClass::default() };
    let mut fixture = Fixture::new(with_class(class, 4.0), 2);
    let mut running = Vec::new();
    for _ in 0..2 {
        let Verdict::Granted { ticket, .. } = fixture.send_limited("a") else { panic!("room") };
        running.push(ticket);
    }
    assert_ne!(fixture.gate.backend_of(running[0]), fixture.gate.backend_of(running[1]));
    let kept = fixture.queue_limited("a");
    fixture.start("b");
    let place = fixture.gate.backend_of(running[1]);
    fixture.settle(running[1], 1);
    assert_eq!(fixture.granted(), [kept]);
    assert_eq!(fixture.gate.backend_of(kept), place);
}

/// P09: a flow returns from its limit without saved-up credit.
#[test]
fn p09_no_credit_is_saved_up_at_the_limit() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut fixture = Fixture::new(with_class(class, 2.0), 1);
    let Verdict::Granted { ticket: held, .. } = fixture.send_limited("held") else {
        panic!("room")
    };
    let mut other = fixture.start("busy");
    let kept: Vec<_> = (0..3).map(|_| fixture.queue_limited("held")).collect();
    for _ in 0..90 {
        fixture.queue("busy", Band::Normal);
    }
    for _ in 0..50 {
        fixture.settle(other, 1);
        other = fixture.granted()[0];
    }
    fixture.settle(held, 1);
    assert_eq!(fixture.granted(), [kept[0]], "one turn, at the present");
    fixture.settle(kept[0], 1);
    assert!(!kept.contains(&fixture.granted()[0]), "the next turn is the other's");
}

/// P09: in any history no limit is exceeded, and no ask waits that may go.
#[test]
fn p09_random_limits_are_never_exceeded() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let class = FlowClass {
            in_flight_max: dice.chance(50).then(|| 1 + dice.below(4) as u32),
            in_flight_per_backend_max: Some(1 + dice.below(2) as u32),
            ..FlowClass::default()
        };
        let backends: Vec<_> = (0..3).map(|id| backend(id, &[1])).collect();
        let mut fixture = Fixture::with(with_class(class, 3.0), &backends);
        let mut running: Vec<(Ticket, usize)> = Vec::new();
        let mut owner = std::collections::BTreeMap::new();
        for step in 0..400 {
            let flow = dice.below(3) as usize;
            let verdict = (dice.chance(55) || running.is_empty())
                .then(|| fixture.send_limited(["a", "b", "c"][flow]));
            match verdict {
                Some(Verdict::Granted { ticket, .. }) => running.push((ticket, flow)),
                Some(Verdict::Queued { ticket }) => _ = owner.insert(ticket, flow),
                Some(Verdict::Refused { .. }) => {}
                None => {
                    let at = dice.below(running.len() as u64) as usize;
                    fixture.settle(running.swap_remove(at).0, 1);
                }
            }
            running.extend(fixture.granted().into_iter().map(|ticket| (ticket, owner[&ticket])));
            check_limits(&fixture, &running, &class, (seed, step));
        }
    }
}

fn check_limits(fixture: &Fixture, running: &[(Ticket, usize)], class: &FlowClass, at: (u64, u32)) {
    for flow in 0..3 {
        let own = running.iter().filter(|&&(_, of)| of == flow).map(|&(ticket, _)| ticket);
        let places: Vec<_> = own.map(|ticket| fixture.gate.backend_of(ticket)).collect();
        let most = class.in_flight_max.unwrap_or(u32::MAX) as usize;
        assert!(places.len() <= most, "seed and step {at:?}");
        for place in &places {
            let held = places.iter().filter(|other| *other == place).count();
            let most = class.in_flight_per_backend_max.unwrap_or(u32::MAX) as usize;
            assert!(held <= most, "seed and step {at:?}");
        }
    }
}

/// A limit below the number of asks in flight opens no backend until enough asks have ended, also
/// while another backend is allowed but has no room.
#[test]
fn p09_a_shrunken_limit_holds_until_enough_has_ended() {
    let limited =
        |most| FlowClass { in_flight_per_backend_max: Some(most), ..FlowClass::default() };
    let down = crate::BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut fixture = Fixture::with(with_class(limited(3), 3.0), &[down, backend(1, &[1])]);
    (0..3).for_each(|_| _ = fixture.start("other"));
    fixture.supply(&[backend(0, &[1]), backend(1, &[1])]);
    let mut running = Vec::new();
    for _ in 0..3 {
        let Verdict::Granted { ticket, .. } = fixture.send_limited("a") else { panic!("room") };
        running.push(ticket);
    }
    let kept = fixture.queue_limited("a");
    fixture.gate.configure(with_class(limited(1), 3.0), fixture.now);
    fixture.collect();
    fixture.settle(running[0], 1);
    fixture.settle(running[1], 1);
    assert_eq!(fixture.granted(), [], "one is still in flight");
    fixture.settle(running[2], 1);
    assert_eq!(fixture.granted(), [kept]);
}

/// P09: a flow whose backends have no room while others go earns no credit.
#[test]
fn p09_no_credit_is_saved_up_at_full_backends() {
    let class = FlowClass { in_flight_per_backend_max: Some(3), ..FlowClass::default() };
    let down = crate::BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut fixture = Fixture::with(with_class(class, 4.0), &[down, backend(1, &[1])]);
    let far: Vec<_> = (0..4).map(|_| fixture.start("busy")).collect();
    fixture.supply(&[backend(0, &[1]), backend(1, &[1])]);
    (0..3).for_each(|_| _ = fixture.send_limited("held"));
    let mut near = fixture.start("busy");
    let kept: Vec<_> = (0..30).map(|_| fixture.queue_limited("held")).collect();
    fixture.fill("busy", Band::Normal, 99);
    for _ in 0..50 {
        fixture.settle(near, 1);
        near = fixture.granted()[0];
    }
    let mut served = 0;
    for ticket in far {
        fixture.settle(ticket, 1);
        served += usize::from(kept.contains(&fixture.granted()[0]));
    }
    assert_eq!(served, 2, "turn about, not all that its limit allows");
}

/// A flow that moves into a class without limits goes at once.
#[test]
fn p09_a_lifted_limit_releases_the_waiting_asks() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut fixture = Fixture::new(with_class(class, 3.0), 1);
    fixture.send_limited("a");
    let kept = fixture.queue_limited("a");
    fixture.gate.flow("a", 0);
    fixture.collect();
    assert_eq!(fixture.granted(), [kept]);
}

/// A rebuild gives no credit to flows that a limit has excluded from their first ask on.
#[test]
fn p09_a_rebuild_gives_no_credit_to_excluded_flows() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut fixture = Fixture::with(with_class(class, 2.0), &[backend(0, &[1]), backend(1, &[2])]);
    let flow = fixture.gate.flow("held", 1);
    fixture.offer(Ask::new(flow, crate::ModelId(2)));
    let mut running = fixture.start("busy");
    fixture.start("busy");
    let kept: Vec<_> = (0..20).map(|_| fixture.queue_limited("held")).collect();
    fixture.fill("busy", Band::Normal, 60);
    for _ in 0..10 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    let class = FlowClass { in_flight_max: None, ..class };
    fixture.gate.configure(with_class(class, 2.0), fixture.now);
    fixture.collect();
    let mut served = 0;
    for _ in 0..20 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served += usize::from(kept.contains(&running));
    }
    assert!((9..=11).contains(&served), "{served} of 20");
}
