//! Bad input: each has a defined result; none panics, corrupts a counter or grows memory.

use super::fixture::{Dice, Fixture, MODEL, limited_to};
use crate::{
    Ask, BackendId, Band, COST_MAX, FlowClass, Misuse, ModelId, Refusal, RequeuePosition, Settings,
    Span, Time, Usage, Verdict, Weight, Workload, WorkloadId, invariant,
};

#[test]
fn invalid_weights_are_refused() {
    for bad in
        [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.009, 1000.1, f64::MIN_POSITIVE]
    {
        let error = Weight::new(bad).unwrap_err();
        assert_eq!((error.what, error.allowed), ("weight", "0.01 to 1000"));
        assert!(error.to_string().starts_with("weight is "));
    }
    for good in [0.01, 0.3, 1.0, 3.0, 7.7, 1000.0] {
        let value = Weight::new(good).unwrap().value();
        assert!((value / good - 1.0).abs() < 1.0 / 30_000.0, "{good} became {value}");
    }
}

#[test]
fn a_cost_of_zero_counts_as_one_and_the_largest_as_the_cap() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("x");
    let mut turns = Vec::new();
    for (flow, cost) in [("free", 0), ("huge", u64::MAX), ("free", 0), ("huge", u64::MAX)] {
        let ask = Ask { cost, tokens: cost, ..fixture.ask(flow) };
        let Verdict::Queued { ticket } = fixture.offer(ask) else { panic!("full") };
        turns.push(ticket);
    }
    for _ in 0..30 {
        let ask = Ask { cost: 0, ..fixture.ask("free") };
        fixture.offer(ask);
    }
    let order = fixture.run_dry(vec![running]);
    assert_eq!(order.len(), 34);
    fixture.gate.charge(turns[0], 1, fixture.now).unwrap_err();
}

#[test]
fn usage_beyond_the_cap_is_capped() {
    let mut fixture = Fixture::new(limited_to(4.0), 1);
    for cost in [u64::MAX, COST_MAX + 1, 0] {
        let ticket = fixture.start("a");
        fixture.gate.charge(ticket, cost, fixture.now).unwrap();
        fixture.settle(ticket, cost);
    }
    assert_eq!(fixture.gate.in_flight(), 0);
}

#[test]
fn a_time_to_live_of_zero_may_go_but_not_wait() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let hasty = Ask { ttl: Some(Span::ZERO), ..fixture.ask("a") };
    assert!(matches!(fixture.offer(hasty), Verdict::Granted { .. }));
    let refused = fixture.offer(hasty);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::NoTimeToWait, .. }));
}

#[test]
fn deadlines_in_the_past_are_refused() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    fixture.pass(Span::from_secs(10));
    for deadline in [Time::ZERO, fixture.now] {
        let ask = Ask { deadline: Some(deadline), ..fixture.ask("a") };
        let verdict = fixture.offer(ask);
        assert!(matches!(verdict, Verdict::Refused { reason: Refusal::DeadlineExceeded, .. }));
    }
}

#[test]
fn time_that_jumps_back_is_the_latest_time_again() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("a");
    fixture.pass(Span::from_secs(100));
    fixture.now = Time::from_millis(5);
    fixture.queue("a", Band::Normal);
    fixture.gate.wake(Time::from_millis(129_999));
    fixture.collect();
    assert_eq!(fixture.gate.depth(), 1, "the wait began at 100 s");
    fixture.now = Time::ZERO;
    fixture.settle(running, 1);
    assert_eq!(fixture.granted().len(), 1);
}

#[test]
fn time_at_the_end_of_its_range_is_harmless() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    fixture.start("a");
    fixture.queue("a", Band::Normal);
    fixture.now = Time::NEVER;
    fixture.gate.wake(fixture.now);
    fixture.collect();
    assert_eq!(fixture.gate.depth(), 0);
    let forever = Ask { ttl: Some(Span::from_nanos(u64::MAX)), ..fixture.ask("a") };
    fixture.offer(forever);
    fixture.gate.wake(fixture.now);
    fixture.collect();
}

#[test]
fn unknown_and_ended_tickets_change_nothing() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let ended = fixture.start("a");
    fixture.settle(ended, 1);
    let running = fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    let before = *fixture.gate.counters();
    let now = fixture.now;
    assert_eq!(fixture.gate.settle(ended, Usage::Cost(1), now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.charge(ended, 9, now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.cancel(ended, now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.requeue(ended, RequeuePosition::Back, now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.moved(ended, BackendId(0), now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.settle(waiting, Usage::Cost(1), now), Err(Misuse::NotInFlight));
    assert_eq!(fixture.gate.charge(waiting, 9, now), Err(Misuse::NotInFlight));
    assert_eq!(
        fixture.gate.requeue(waiting, RequeuePosition::Original, now),
        Err(Misuse::NotInFlight)
    );
    assert_eq!(fixture.gate.moved(waiting, BackendId(0), now), Err(Misuse::NotInFlight));
    let invented = crate::Ticket(u64::MAX);
    assert_eq!(fixture.gate.cancel(invented, now), Err(Misuse::UnknownTicket));
    assert_eq!(*fixture.gate.counters(), before);
    fixture.settle(running, 1);
}

#[test]
fn an_unknown_model_is_refused_at_once() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let ask = Ask { model: ModelId(404), ..fixture.ask("a") };
    let verdict = fixture.offer(ask);
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::UnknownModel, .. }));
}

#[test]
fn a_stale_flow_is_refused() {
    let settings = Settings { idle_flows_max: 2, ..limited_to(1.0) };
    let mut fixture = Fixture::new(settings, 1);
    let old = fixture.ask("old");
    for other in 0..9 {
        fixture.ask(&format!("other-{other}"));
    }
    let verdict = fixture.offer(old);
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::UnknownFlow, .. }));
    fixture.start("old");
}

#[test]
fn an_invented_workload_counts_as_none() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let workload = Workload { id: WorkloadId { slot: 4_000_000, generation: 0 }, criticality: 77 };
    let ask = Ask { workload, ..fixture.ask("a") };
    assert!(matches!(fixture.offer(ask), Verdict::Granted { .. }));
}

/// A million distinct flow and workload ids: memory stays bounded, everything still reconciles.
#[test]
fn a_million_invented_ids_do_not_grow_anything() {
    let settings = Settings {
        total_capacity: 200,
        default_class: FlowClass { ttl: Span::from_millis(50), ..FlowClass::default() },
        idle_flows_max: 1000,
        ..limited_to(8.0)
    };
    let mut gate = Fixture::new(settings, 1).gate;
    let mut dice = Dice(11);
    let mut running = Vec::new();
    for step in 0..1_000_000u64 {
        let now = Time::from_nanos(step * 100_000);
        let flow = gate.flow(&format!("flow-{step}"), 0);
        let workload = Workload { id: gate.workload(&format!("load-{step}"), now), criticality: 3 };
        match gate.offer(Ask { workload, ..Ask::new(flow, MODEL) }, now) {
            Verdict::Granted { ticket, .. } => running.push(ticket),
            Verdict::Queued { .. } | Verdict::Refused { .. } => {}
        }
        if dice.chance(60) && !running.is_empty() {
            let at = dice.below(running.len() as u64) as usize;
            gate.settle(running.swap_remove(at), Usage::Unknown, now).unwrap();
        }
        gate.wake(now);
        while let Some(event) = gate.poll_event() {
            if let crate::Event::Granted { ticket, .. } = event {
                running.push(ticket);
            }
        }
    }
    assert!(gate.flows().count() <= 1000 + 1 + 200 + 8, "{} flows", gate.flows().count());
    let now = Time::from_nanos(100_000_000_000);
    assert!(gate.workloads(now).len() <= gate.settings().workloads.count_max as usize + 1);
    invariant::check(&gate).unwrap();
}

/// An id that was forgotten neither counts for its successor nor panics.
#[test]
fn a_stale_workload_counts_as_none() {
    let mut fixture = Fixture::new(limited_to(2.0), 1);
    let stale = Workload { id: fixture.gate.workload("old", fixture.now), criticality: 3 };
    fixture.pass(Span::from_secs(301));
    fixture.gate.workload("other", fixture.now);
    let ask = Ask { workload: stale, ..fixture.ask("a") };
    let Verdict::Granted { ticket, .. } = fixture.offer(ask) else { panic!("room") };
    let fresh = Workload { id: fixture.gate.workload("new", fixture.now), criticality: 3 };
    assert_ne!(fresh.id, stale.id);
    fixture.gate.cancel(ticket, fixture.now).unwrap();
    fixture.collect();
    let counted: Vec<_> =
        fixture.gate.workloads(fixture.now).iter().map(|view| view.total).collect();
    assert_eq!(counted, Vec::<u64>::new(), "no flow was charged for it");
}

/// An endless wait: its deadline is beyond the reach of the timing wheel.
#[test]
fn an_endless_time_to_live_does_not_hang_the_wheel() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    fixture.pass(Span::from_millis(2));
    let endless = Ask { ttl: Some(Span::from_nanos(u64::MAX)), ..fixture.ask("a") };
    fixture.offer(endless);
    fixture.offer(endless);
    fixture.pass(Span::from_millis(1));
    fixture.pass(Span::from_secs(1_000_000_000));
    assert_eq!(fixture.gate.depth(), 1);
}

/// With room for no idle flow at all, a flow's id is still valid until its first ask.
#[test]
fn a_fresh_flow_is_never_forgotten_at_once() {
    let mut fixture = Fixture::new(Settings { idle_flows_max: 0, ..limited_to(1.0) }, 1);
    for name in ["a", "b", "c"] {
        let ticket = fixture.start(name);
        fixture.settle(ticket, 1);
    }
}

/// Refused offers leave nothing behind.
#[test]
fn refused_offers_create_no_flow_queues() {
    let models: Vec<u32> = (0..50).collect();
    let backends = [super::fixture::backend(0, &models)];
    let settings = Settings { enabled: false, ..limited_to(1.0) };
    let mut fixture = Fixture::with(settings, &backends);
    fixture.start("first");
    for model in 0..50 {
        let ask = Ask { model: ModelId(model), ..fixture.ask("refused") };
        assert!(matches!(fixture.offer(ask), Verdict::Refused { .. }));
    }
    assert_eq!(fixture.gate.flow_queues.ids().count(), 1);
}

/// Long names are cut.
#[test]
fn long_names_are_cut() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let long = "ü".repeat(100_000);
    let id = fixture.gate.workload(&long, fixture.now);
    let ask = Ask { workload: Workload { id, criticality: 3 }, ..fixture.ask(&long) };
    fixture.offer(ask);
    let most = crate::identity::NAME_MAX;
    assert!(fixture.gate.flows().all(|flow| flow.name.len() <= most));
    assert!(fixture.gate.workloads(fixture.now).iter().all(|load| load.name.len() <= most));
}
