//! Bad input: each has a defined answer; none panics, corrupts a counter or grows memory.

use super::bench::{Bench, Dice, MODEL, limited_to};
use crate::{
    Ask, BackendId, Band, COST_MAX, FlowClass, Misuse, ModelId, Refusal, RequeuePosition, Settings,
    Span, Time, Usage, Verdict, Weight, Workload, WorkloadId, invariant,
};

#[test]
fn weights_that_are_no_weights_are_refused() {
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
    let mut bench = Bench::new(limited_to(1.0), 1);
    let running = bench.start("x");
    let mut turns = Vec::new();
    for (flow, cost) in [("free", 0), ("huge", u64::MAX), ("free", 0), ("huge", u64::MAX)] {
        let ask = Ask { cost, tokens: cost, ..bench.ask(flow) };
        let Verdict::Queued { ticket } = bench.offer(ask) else { panic!("full") };
        turns.push(ticket);
    }
    for _ in 0..30 {
        let ask = Ask { cost: 0, ..bench.ask("free") };
        bench.offer(ask);
    }
    let order = bench.run_dry(vec![running]);
    assert_eq!(order.len(), 34);
    bench.gate.charge(turns[0], 1, bench.now).unwrap_err();
}

#[test]
fn usage_beyond_the_cap_is_capped() {
    let mut bench = Bench::new(limited_to(4.0), 1);
    for cost in [u64::MAX, COST_MAX + 1, 0] {
        let ticket = bench.start("a");
        bench.gate.charge(ticket, cost, bench.now).unwrap();
        bench.settle(ticket, cost);
    }
    assert_eq!(bench.gate.in_flight(), 0);
}

#[test]
fn a_time_to_live_of_zero_may_go_but_not_wait() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let hasty = Ask { ttl: Some(Span::ZERO), ..bench.ask("a") };
    assert!(matches!(bench.offer(hasty), Verdict::Granted { .. }));
    let refused = bench.offer(hasty);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::NoTimeToWait, .. }));
}

#[test]
fn deadlines_in_the_past_are_refused() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    bench.pass(Span::from_secs(10));
    for deadline in [Time::ZERO, bench.now] {
        let ask = Ask { deadline: Some(deadline), ..bench.ask("a") };
        let verdict = bench.offer(ask);
        assert!(matches!(verdict, Verdict::Refused { reason: Refusal::DeadlineExceeded, .. }));
    }
}

#[test]
fn time_that_jumps_back_is_the_latest_time_again() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let running = bench.start("a");
    bench.pass(Span::from_secs(100));
    bench.now = Time::from_millis(5);
    bench.queue("a", Band::Normal);
    bench.gate.wake(Time::from_millis(129_999));
    bench.collect();
    assert_eq!(bench.gate.depth(), 1, "the wait began at 100 s");
    bench.now = Time::ZERO;
    bench.settle(running, 1);
    assert_eq!(bench.granted().len(), 1);
}

#[test]
fn time_at_the_end_of_its_range_is_harmless() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    bench.start("a");
    bench.queue("a", Band::Normal);
    bench.now = Time::NEVER;
    bench.gate.wake(bench.now);
    bench.collect();
    assert_eq!(bench.gate.depth(), 0);
    let forever = Ask { ttl: Some(Span::from_nanos(u64::MAX)), ..bench.ask("a") };
    bench.offer(forever);
    bench.gate.wake(bench.now);
    bench.collect();
}

#[test]
fn unknown_and_ended_tickets_change_nothing() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let ended = bench.start("a");
    bench.settle(ended, 1);
    let running = bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    let before = *bench.gate.counters();
    let now = bench.now;
    assert_eq!(bench.gate.settle(ended, Usage::Cost(1), now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.charge(ended, 9, now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.cancel(ended, now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.requeue(ended, RequeuePosition::Back, now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.moved(ended, BackendId(0), now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.settle(waiting, Usage::Cost(1), now), Err(Misuse::NotInFlight));
    assert_eq!(bench.gate.charge(waiting, 9, now), Err(Misuse::NotInFlight));
    assert_eq!(
        bench.gate.requeue(waiting, RequeuePosition::Original, now),
        Err(Misuse::NotInFlight)
    );
    assert_eq!(bench.gate.moved(waiting, BackendId(0), now), Err(Misuse::NotInFlight));
    let invented = crate::Ticket(u64::MAX);
    assert_eq!(bench.gate.cancel(invented, now), Err(Misuse::UnknownTicket));
    assert_eq!(*bench.gate.counters(), before);
    bench.settle(running, 1);
}

#[test]
fn an_unknown_model_is_refused_at_once() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let ask = Ask { model: ModelId(404), ..bench.ask("a") };
    let verdict = bench.offer(ask);
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::UnknownModel, .. }));
}

#[test]
fn a_stale_flow_is_refused() {
    let settings = Settings { idle_flows_max: 2, ..limited_to(1.0) };
    let mut bench = Bench::new(settings, 1);
    let old = bench.ask("old");
    for other in 0..9 {
        bench.ask(&format!("other-{other}"));
    }
    let verdict = bench.offer(old);
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::UnknownFlow, .. }));
    bench.start("old");
}

#[test]
fn an_invented_workload_counts_as_none() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let workload = Workload { id: WorkloadId { slot: 4_000_000, generation: 0 }, criticality: 77 };
    let ask = Ask { workload, ..bench.ask("a") };
    assert!(matches!(bench.offer(ask), Verdict::Granted { .. }));
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
    let mut gate = Bench::new(settings, 1).gate;
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

/// An id that was given out once and forgotten since neither counts for its successor nor panics.
#[test]
fn a_stale_workload_counts_as_none() {
    let mut bench = Bench::new(limited_to(2.0), 1);
    let stale = Workload { id: bench.gate.workload("old", bench.now), criticality: 3 };
    bench.pass(Span::from_secs(301));
    bench.gate.workload("other", bench.now);
    let ask = Ask { workload: stale, ..bench.ask("a") };
    let Verdict::Granted { ticket, .. } = bench.offer(ask) else { panic!("room") };
    let fresh = Workload { id: bench.gate.workload("new", bench.now), criticality: 3 };
    assert_ne!(fresh.id, stale.id);
    bench.gate.cancel(ticket, bench.now).unwrap();
    bench.collect();
    let counted: Vec<_> = bench.gate.workloads(bench.now).iter().map(|view| view.total).collect();
    assert_eq!(counted, Vec::<u64>::new(), "nobody was charged for it");
}

/// A wait without end: its deadline is beyond what the wheel can reach at once.
#[test]
fn an_endless_time_to_live_does_not_hang_the_wheel() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    bench.pass(Span::from_millis(2));
    let endless = Ask { ttl: Some(Span::from_nanos(u64::MAX)), ..bench.ask("a") };
    bench.offer(endless);
    bench.offer(endless);
    bench.pass(Span::from_millis(1));
    bench.pass(Span::from_secs(1_000_000_000));
    assert_eq!(bench.gate.depth(), 1);
}

/// With room for no idle flow at all, a flow's name is still good until its first ask.
#[test]
fn a_fresh_flow_is_never_forgotten_at_once() {
    let mut bench = Bench::new(Settings { idle_flows_max: 0, ..limited_to(1.0) }, 1);
    for name in ["a", "b", "c"] {
        let ticket = bench.start(name);
        bench.settle(ticket, 1);
    }
}

/// Refused offers leave nothing behind.
#[test]
fn refused_offers_make_no_claims() {
    let models: Vec<u32> = (0..50).collect();
    let backends = [super::bench::backend(0, &models)];
    let settings = Settings { enabled: false, ..limited_to(1.0) };
    let mut bench = Bench::with(settings, &backends);
    bench.start("first");
    for model in 0..50 {
        let ask = Ask { model: ModelId(model), ..bench.ask("refused") };
        assert!(matches!(bench.offer(ask), Verdict::Refused { .. }));
    }
    assert_eq!(bench.gate.flow_queues.ids().count(), 1);
}

/// Names are kept only so far.
#[test]
fn long_names_are_cut() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let long = "ü".repeat(100_000);
    let id = bench.gate.workload(&long, bench.now);
    let ask = Ask { workload: Workload { id, criticality: 3 }, ..bench.ask(&long) };
    bench.offer(ask);
    let most = crate::identity::NAME_MAX;
    assert!(bench.gate.flows().all(|flow| flow.name.len() <= most));
    assert!(bench.gate.workloads(bench.now).iter().all(|load| load.name.len() <= most));
}
