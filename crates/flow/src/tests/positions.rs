//! W03: a waiting ask is told the place at which it would be served now, in every order.

use super::fixture::{Dice, Fixture, limited_to};
use crate::{Ask, FlowClass, Order, Settings, Span, Ticket, Usage, Verdict, Workload, WorkloadId};

fn settings(order: Order) -> Settings {
    let ttl = Span::from_secs(100_000);
    let default_class = FlowClass { capacity: 1000, ttl, ..FlowClass::default() };
    Settings { order, total_capacity: 1000, default_class, ..limited_to(1.0) }
}

/// One flow in which some asks have gone, and many wait: fresh and late ones, with their own
/// deadlines, costs, sessions and workloads. Returns the ask in flight and those that wait.
fn crowd(fixture: &mut Fixture, dice: &mut Dice) -> (Ticket, Vec<Ticket>) {
    let mut running = fixture.start("flow");
    let mut waiting = Vec::new();
    for _ in 0..120 {
        fixture.pass(Span::from_millis(dice.below(900)));
        let id = match dice.below(6) {
            0 => WorkloadId::GENERATED,
            at => fixture.gate.workload(&format!("load-{at}"), fixture.now),
        };
        let ask = Ask {
            cost: 1 + dice.below(9),
            workload: Workload { id, criticality: 1 + dice.below(5) as u8 },
            ttl: Some(Span::from_secs(1000 + dice.below(30))),
            objective: dice.chance(40).then(|| Span::from_secs(1 + dice.below(60))),
            flow_session: dice.below(5) as u32,
            ..fixture.ask("flow")
        };
        let Verdict::Queued { ticket } = fixture.offer(ask) else { panic!("it must wait") };
        waiting.push(ticket);
        if dice.chance(40) {
            running = next(fixture, running);
            waiting.retain(|&ticket| ticket != running);
        }
    }
    (running, waiting)
}

/// The ask that goes when the one in flight ends.
fn next(fixture: &mut Fixture, running: Ticket) -> Ticket {
    fixture.gate.settle(running, Usage::Unknown, fixture.now).unwrap();
    fixture.collect();
    fixture.granted()[0]
}

#[test]
fn w03_told_positions_are_the_order_of_service() {
    for order in [Order::Fifo, Order::Deadline, Order::Workload, Order::Session] {
        for seed in 0..20 {
            let mut fixture = Fixture::new(settings(order), 1);
            let (mut running, waiting) = crowd(&mut fixture, &mut Dice(seed));
            let now = fixture.now;
            let mut told: Vec<(u32, Ticket)> = waiting
                .iter()
                .map(|&ticket| (fixture.gate.wait_forecast(ticket, now).unwrap().position, ticket))
                .collect();
            told.sort_unstable_by_key(|&(position, _)| position);
            for (at, (position, ticket)) in (1..).zip(told) {
                assert_eq!(position, at, "{order:?}, seed {seed}: two have one place");
                running = next(&mut fixture, running);
                assert_eq!(running, ticket, "{order:?}, seed {seed}: place {at}");
            }
        }
    }
}

/// The terms of the formula, as they are when an ask is granted.
#[test]
fn w03_the_terms_of_urgency_are_told() {
    let mut fixture = Fixture::new(settings(Order::Workload), 1);
    let running = fixture.start("flow");
    let id = fixture.gate.workload("fraud", fixture.now);
    for _ in 0..3 {
        let workload = Workload { id, criticality: 5 };
        let ask = Ask { workload, ..fixture.ask("flow") };
        fixture.offer(ask);
    }
    fixture.pass(Span::from_secs(30));
    let granted = next(&mut fixture, running);
    let terms = fixture.gate.urgency(granted, fixture.now).unwrap();
    assert_eq!((terms.wait, terms.criticality, terms.rate), (Span::from_secs(30), 5, 3.0 / 60.0));
    assert!((terms.urgency - (0.2 + 0.4 - 0.2 * 0.05 / 100.0)).abs() < 1e-12, "{terms:?}");
    let mut other = Fixture::new(settings(Order::Fifo), 1);
    let running = other.start("flow");
    assert_eq!(other.gate.urgency(running, other.now), None, "no order by urgency");
}

/// Rates that all differ: each dequeue looks at a few heads, however many wait.
#[test]
fn w04_a_dequeue_looks_at_few_heads_whatever_the_rates() {
    let mut fixture = Fixture::new(settings(Order::Workload), 1);
    let mut running = fixture.start("flow");
    let names: Vec<String> = (0..300).map(|at| format!("load-{at}")).collect();
    let offer = |fixture: &mut Fixture, at: usize| {
        let id = fixture.gate.workload(&names[at], fixture.now);
        let ask = Ask { workload: Workload { id, criticality: 3 }, ..fixture.ask("flow") };
        match fixture.gate.offer(ask, fixture.now) {
            Verdict::Queued { ticket } => ticket,
            verdict => panic!("{verdict:?}"),
        }
    };
    // The workload of number n has sent n before.
    for at in 0..names.len() {
        for _ in 0..at {
            let gone = offer(&mut fixture, at);
            fixture.gate.cancel(gone, fixture.now).unwrap();
        }
        offer(&mut fixture, at);
    }
    running = next(&mut fixture, running);
    let before = crate::queue::urgency::looks();
    for _ in 0..200 {
        running = next(&mut fixture, running);
    }
    let looks = crate::queue::urgency::looks() - before;
    assert!(looks <= 4 * 200, "{looks} looks for 200 dequeues");
}
