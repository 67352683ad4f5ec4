//! N02 as far as it is pure: predicted waits and Retry-After.

use super::bench::{Bench, MODEL, limited_to};
use crate::{Ask, Band, Event, Eviction, FlowClass, Refusal, Settings, Span, Ticket, Verdict};

fn full_at(total: u32) -> Settings {
    Settings {
        total_capacity: total,
        default_class: FlowClass { capacity: 10_000, ..FlowClass::default() },
        ..limited_to(1.0)
    }
}

/// One server that takes `millis` for each ask, with `depth` others waiting in `flows` flows.
fn steady(bench: &mut Bench, millis: u64, flows: usize, depth: u32, fair_queues: usize) {
    let mut running = bench.start("flow-0");
    for fair_queue in 0..fair_queues {
        while bench.gate.depth() < depth {
            let flow = format!("flow-{}", (fair_queue + bench.gate.depth() as usize) % flows);
            bench.queue(&flow, Band::Normal);
        }
        bench.pass(Span::from_millis(millis));
        bench.settle(running, 1);
        running = bench.granted()[0];
    }
}

fn retry_after(verdict: Verdict) -> Span {
    match verdict {
        Verdict::Refused { retry_after, .. } => retry_after,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// N02: depth over the measured drain rate, for the queue as a whole.
#[test]
fn n02_retry_after_is_cost_ahead_over_drain_rate() {
    let mut bench = Bench::new(full_at(50), 1);
    steady(&mut bench, 200, 1, 50, 200);
    bench.queue("flow-0", Band::Normal);
    let told = retry_after(bench.send("flow-0", Band::Normal)).secs_f64();
    assert!((9.0..=11.0).contains(&told), "50 asks at 5 a second: {told}");
}

/// N02: a flow with little backlog is told what fair queueing really gives it.
#[test]
fn n02_a_small_flow_is_not_told_to_wait_for_the_flood() {
    let mut bench = Bench::new(full_at(1000), 1);
    steady(&mut bench, 200, 1, 200, 100);
    let small = bench.gate.flow("small", 0);
    let predicted = bench.gate.forecast(small, Band::Normal, MODEL).unwrap().secs_f64();
    assert!(predicted < 1.0, "it goes next: {predicted}");
}

/// N02: higher bands are ahead, lower ones are not.
#[test]
fn n02_bands_count_in_the_prediction() {
    let mut bench = Bench::new(full_at(1000), 1);
    steady(&mut bench, 100, 1, 50, 100);
    bench.fill("flow-0", Band::Critical, 100);
    let flow = bench.gate.flow("flow-0", 0);
    let wait = |bench: &mut Bench, band| bench.gate.forecast(flow, band, MODEL).unwrap().secs_f64();
    assert!(wait(&mut bench, Band::High) >= 9.0, "the critical ones go first");
    assert!(wait(&mut bench, Band::Critical) <= 11.0, "the normal ones do not");
}

/// N02: at least a second, at most a minute, also before anything was measured.
#[test]
fn n02_retry_after_stays_within_its_limits() {
    let mut bench = Bench::new(full_at(5), 1);
    let running = bench.start("a");
    bench.fill("a", Band::Normal, 5);
    assert_eq!(retry_after(bench.send("a", Band::Normal)), Span::from_secs(1));
    bench.pass(Span::from_secs(2));
    bench.settle(running, 1);
    bench.queue("a", Band::Normal);
    bench.pass(Span::from_secs(27));
    assert_eq!(retry_after(bench.send("a", Band::Normal)), Span::from_secs(60), "nothing drains");
}

/// An expired ask's client is told when to come back.
#[test]
fn n02_evictions_carry_a_prediction() {
    let mut bench = Bench::new(full_at(300), 1);
    steady(&mut bench, 500, 1, 59, 50);
    bench.events.clear();
    bench.pass(Span::from_secs(31));
    let told = bench.events.iter().filter_map(|event| match event {
        Event::Evicted { reason: Eviction::Expired, retry_after, .. } => Some(*retry_after),
        _ => None,
    });
    let told: Vec<Span> = told.collect();
    assert!(told.len() > 10);
    assert!(told.iter().all(|&span| span >= Span::from_secs(1) && span <= Span::from_secs(60)));
}

/// By option an ask that would expire anyway is refused at once.
#[test]
fn a_hopeless_wait_is_refused_by_option() {
    let settings = Settings { refuse_hopeless: true, ..full_at(1000) };
    let mut bench = Bench::new(settings, 1);
    steady(&mut bench, 200, 1, 50, 100);
    let hasty = Ask { ttl: Some(Span::from_secs(5)), ..bench.ask("flow-0") };
    let refused = bench.offer(hasty);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::WaitTooLong, .. }));
    let patient = Ask { ttl: Some(Span::from_secs(20)), ..bench.ask("flow-0") };
    assert!(matches!(bench.offer(patient), Verdict::Queued { .. }));
}

/// The prediction is honest: told to wait, a client that comes back then is served about as soon
/// as it was told.
#[test]
fn n02_predictions_come_true() {
    let mut bench = Bench::new(full_at(10_000), 1);
    steady(&mut bench, 100, 4, 80, 300);
    let flow = bench.gate.flow("flow-2", 0);
    let predicted = bench.gate.forecast(flow, Band::Normal, MODEL).unwrap().secs_f64();
    let mine: Ticket = bench.queue("flow-2", Band::Normal);
    let began = bench.now;
    let mut running = in_flight(&bench);
    while running != mine {
        bench.pass(Span::from_millis(100));
        bench.settle(running, 1);
        running = bench.granted()[0];
    }
    let waited = bench.now.since(began).secs_f64();
    assert!((waited / predicted - 1.0).abs() < 0.3, "told {predicted}, waited {waited}");
}

fn in_flight(bench: &Bench) -> Ticket {
    let slots = bench.gate.asks.slots();
    let tickets = slots.map(|slot| bench.gate.asks.ticket(slot));
    tickets.into_iter().find(|&ticket| bench.gate.backend_of(ticket).is_some()).unwrap()
}

/// A server that has not completed anything yet is not a server that never will.
#[test]
fn a_cold_start_is_not_hopeless() {
    let settings = Settings { refuse_hopeless: true, ..full_at(100) };
    let mut bench = Bench::new(settings, 1);
    bench.start("a");
    bench.queue("a", Band::Normal);
    bench.pass(Span::from_secs(5));
    bench.queue("a", Band::Normal);
}

/// Whoever waits can be told its place and how long it will still take.
#[test]
fn an_ask_that_waits_is_told_its_place_and_its_wait() {
    let mut bench = Bench::new(full_at(1000), 1);
    steady(&mut bench, 200, 1, 20, 100);
    let last = bench.queue("flow-0", Band::Normal);
    let now = bench.now;
    let outlook = bench.gate.wait_forecast(last, now).unwrap();
    assert_eq!(outlook.position, bench.gate.depth());
    let wait = outlook.wait.unwrap().secs_f64();
    assert!((3.0..=5.0).contains(&wait), "20 asks at 5 a second: {wait}");
    bench.gate.cancel(last, now).unwrap();
    assert_eq!(bench.gate.wait_forecast(last, now), None);
}
