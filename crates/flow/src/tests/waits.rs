//! N02 as far as it is pure: predicted waits and Retry-After.

use super::fixture::{Fixture, MODEL, limited_to};
use crate::{
    Ask, Band, Event, Eviction, FlowClass, Refusal, Settings, Span, Ticket, Usage, Verdict,
};

fn full_at(total: u32) -> Settings {
    Settings {
        total_capacity: total,
        default_class: FlowClass { capacity: 10_000, ..FlowClass::default() },
        ..limited_to(1.0)
    }
}

/// One server that takes `millis` for each ask, with `depth` others waiting in `flows` flows.
fn steady(fixture: &mut Fixture, millis: u64, flows: usize, depth: u32, rounds: usize) {
    let running = fixture.start("flow-0");
    serve(fixture, running, (millis, flows), depth, rounds);
}

/// The same from a running ask on; returns the next one.
fn serve(
    fixture: &mut Fixture,
    mut running: Ticket,
    (millis, flows): (u64, usize),
    depth: u32,
    rounds: usize,
) -> Ticket {
    for round in 0..rounds {
        while fixture.gate.depth() < depth {
            let flow = format!("flow-{}", (round + fixture.gate.depth() as usize) % flows);
            fixture.queue(&flow, Band::Normal);
        }
        fixture.pass(Span::from_millis(millis));
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    running
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
    let mut fixture = Fixture::new(full_at(50), 1);
    steady(&mut fixture, 200, 1, 50, 200);
    fixture.queue("flow-0", Band::Normal);
    let told = retry_after(fixture.send("flow-0", Band::Normal)).secs_f64();
    assert!((9.0..=11.0).contains(&told), "50 asks at 5 a second: {told}");
}

/// N02: the rate itself. An idle server has none, because it completes only what comes.
#[test]
fn n02_the_drain_rate_is_known_while_asks_wait() {
    let mut fixture = Fixture::new(full_at(50), 1);
    assert_eq!(fixture.gate.drain_rate(MODEL), None);
    steady(&mut fixture, 200, 1, 50, 200);
    assert_eq!(fixture.gate.depth(), 49);
    let rate = fixture.gate.drain_rate(MODEL).unwrap();
    assert!((4.5..=5.5).contains(&rate), "5 a second: {rate}");
    fixture.pass(Span::from_secs(3600));
    assert_eq!((fixture.gate.depth(), fixture.gate.drain_rate(MODEL)), (0, None));
}

/// N02: the prediction for a flow with a small backlog follows fair queueing.
#[test]
fn n02_retry_after_of_a_small_flow_does_not_count_the_flood() {
    let mut fixture = Fixture::new(full_at(1000), 1);
    steady(&mut fixture, 200, 1, 200, 100);
    let small = fixture.gate.flow("small", 0);
    let predicted = fixture.gate.forecast(small, Band::Normal, MODEL).unwrap().secs_f64();
    assert!(predicted < 1.0, "it goes next: {predicted}");
}

/// N02: higher bands are ahead, lower ones are not.
#[test]
fn n02_bands_count_in_the_prediction() {
    let mut fixture = Fixture::new(full_at(1000), 1);
    steady(&mut fixture, 100, 1, 50, 100);
    fixture.fill("flow-0", Band::Critical, 100);
    let flow = fixture.gate.flow("flow-0", 0);
    let wait =
        |fixture: &mut Fixture, band| fixture.gate.forecast(flow, band, MODEL).unwrap().secs_f64();
    assert!(wait(&mut fixture, Band::High) >= 9.0, "the critical ones go first");
    assert!(wait(&mut fixture, Band::Critical) <= 11.0, "the normal ones do not");
}

/// N02: at least a second, less than a minute, also before anything was measured.
#[test]
fn n02_retry_after_stays_within_its_limits() {
    let mut fixture = Fixture::new(full_at(5), 1);
    let running = fixture.start("a");
    fixture.fill("a", Band::Normal, 5);
    assert_eq!(
        retry_after(fixture.send("a", Band::Normal)),
        Span::from_secs(5),
        "five at a second"
    );
    fixture.pass(Span::from_secs(2));
    assert_eq!(retry_after(fixture.send("a", Band::Normal)), Span::from_secs(10), "none has ended");
    fixture.settle(running, 1);
    fixture.queue("a", Band::Normal);
    fixture.pass(Span::from_secs(27));
    assert_eq!(retry_after(fixture.send("a", Band::Normal)), Span::from_secs(59), "nothing drains");
}

/// N02: asks that began together and end together are one measurement, not the first of them.
#[test]
fn n02_a_burst_that_ends_together_counts_as_a_whole() {
    let mut fixture = Fixture::new(limited_to(16.0), 1);
    let running: Vec<Ticket> = (0..16).map(|_| fixture.start("a")).collect();
    fixture.fill("a", Band::Normal, 60);
    fixture.pass(Span::from_millis(1360));
    running.into_iter().for_each(|ticket| fixture.settle(ticket, 1));
    let flow = fixture.gate.flow("a", 0);
    let predicted = fixture.gate.forecast(flow, Band::Normal, MODEL).unwrap().secs_f64();
    assert!((3.0..6.0).contains(&predicted), "44 asks at 12 a second: {predicted}");
}

/// The eviction of an expired ask says when to retry.
#[test]
fn n02_evictions_carry_a_prediction() {
    let mut fixture = Fixture::new(full_at(300), 1);
    steady(&mut fixture, 500, 1, 59, 50);
    fixture.events.clear();
    fixture.pass(Span::from_secs(31));
    let told = fixture.events.iter().filter_map(|event| match event {
        Event::Evicted { reason: Eviction::Expired, retry_after, .. } => Some(*retry_after),
        _ => None,
    });
    let told: Vec<Span> = told.collect();
    assert!(told.len() > 10);
    assert!(told.iter().all(|&span| span >= Span::from_secs(1) && span <= Span::from_secs(59)));
}

/// By option an ask that would expire anyway is refused at once.
#[test]
fn a_hopeless_wait_is_refused_by_option() {
    let settings = Settings { refuse_hopeless: true, ..full_at(1000) };
    let mut fixture = Fixture::new(settings, 1);
    steady(&mut fixture, 200, 1, 50, 100);
    let hasty = Ask { ttl: Some(Span::from_secs(5)), ..fixture.ask("flow-0") };
    let refused = fixture.offer(hasty);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::WaitTooLong, .. }));
    let patient = Ask { ttl: Some(Span::from_secs(20)), ..fixture.ask("flow-0") };
    assert!(matches!(fixture.offer(patient), Verdict::Queued { .. }));
}

/// P07: only the deadline of a critical ask ends its wait, whatever is predicted.
#[test]
fn p07_a_critical_ask_waits_even_if_that_is_hopeless() {
    let settings = Settings { refuse_hopeless: true, ..full_at(1000) };
    let mut fixture = Fixture::new(settings, 1);
    steady(&mut fixture, 200, 1, 50, 100);
    fixture.fill("flow-0", Band::Critical, 50);
    for (band, waits) in [(Band::Critical, true), (Band::High, false)] {
        let ask = Ask { band, ttl: Some(Span::from_secs(5)), ..fixture.ask("flow-0") };
        let verdict = fixture.offer(ask);
        assert_eq!(matches!(verdict, Verdict::Queued { .. }), waits, "{band:?}: {verdict:?}");
    }
}

/// N02: a server that fails what it gets does not serve fast, however fast it fails.
#[test]
fn n02_errors_that_come_at_once_promise_no_short_wait() {
    for error in [Usage::Cost(0), Usage::Failed] {
        let mut fixture = Fixture::new(full_at(50), 1);
        let running = fixture.start("flow-0");
        let mut running = serve(&mut fixture, running, (200, 1), 50, 200);
        for _ in 0..400 {
            fixture.queue("flow-0", Band::Normal);
            fixture.pass(Span::from_millis(5));
            fixture.gate.settle(running, error, fixture.now).unwrap();
            fixture.collect();
            running = fixture.granted()[0];
        }
        fixture.queue("flow-0", Band::Normal);
        let told = retry_after(fixture.send("flow-0", Band::Normal)).secs_f64();
        assert!((9.0..=14.0).contains(&told), "50 asks at 5 a second or less: {told}");
    }
}

/// Predictions come true: a client that retries after the predicted wait is served about then.
#[test]
fn n02_predictions_come_true() {
    let mut fixture = Fixture::new(full_at(10_000), 1);
    steady(&mut fixture, 100, 4, 80, 300);
    let flow = fixture.gate.flow("flow-2", 0);
    let predicted = fixture.gate.forecast(flow, Band::Normal, MODEL).unwrap().secs_f64();
    let mine: Ticket = fixture.queue("flow-2", Band::Normal);
    let began = fixture.now;
    let mut running = in_flight(&fixture);
    while running != mine {
        fixture.pass(Span::from_millis(100));
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    let waited = fixture.now.since(began).secs_f64();
    assert!((waited / predicted - 1.0).abs() < 0.3, "told {predicted}, waited {waited}");
}

fn in_flight(fixture: &Fixture) -> Ticket {
    let slots = fixture.gate.asks.slots();
    let tickets = slots.map(|slot| fixture.gate.asks.ticket(slot));
    tickets.into_iter().find(|&ticket| fixture.gate.backend_of(ticket).is_some()).unwrap()
}

/// A server that has not completed anything yet is not a server that never will.
#[test]
fn a_cold_start_is_not_hopeless() {
    let settings = Settings { refuse_hopeless: true, ..full_at(100) };
    let mut fixture = Fixture::new(settings, 1);
    fixture.start("a");
    fixture.queue("a", Band::Normal);
    fixture.pass(Span::from_secs(5));
    fixture.queue("a", Band::Normal);
}

/// A waiting ask has a position and a predicted remaining wait.
#[test]
fn a_waiting_ask_has_a_position_and_a_predicted_wait() {
    let mut fixture = Fixture::new(full_at(1000), 1);
    steady(&mut fixture, 200, 1, 20, 100);
    let last = fixture.queue("flow-0", Band::Normal);
    let now = fixture.now;
    let outlook = fixture.gate.wait_forecast(last, now).unwrap();
    assert_eq!(outlook.position, fixture.gate.depth());
    let wait = outlook.wait.unwrap().secs_f64();
    assert!((3.0..=5.0).contains(&wait), "20 asks at 5 a second: {wait}");
    fixture.gate.cancel(last, now).unwrap();
    assert_eq!(fixture.gate.wait_forecast(last, now), None);
}

/// Fresh asks that come later go before a late one, so no wait can be predicted for it.
#[test]
fn an_ask_that_will_be_late_has_a_least_wait_only() {
    let objectives = [Span::from_secs(2); crate::BANDS];
    let mut fixture = Fixture::new(Settings { objectives, ..full_at(1000) }, 1);
    steady(&mut fixture, 200, 1, 3, 100);
    let soon = fixture.queue("flow-0", Band::Normal);
    for _ in 0..20 {
        fixture.queue("flow-0", Band::Normal);
    }
    let last = fixture.queue("flow-0", Band::Normal);
    let now = fixture.now;
    let [soon, last] = [soon, last].map(|ask| fixture.gate.wait_forecast(ask, now).unwrap());
    assert!(!soon.becomes_late && soon.wait.is_some() && soon.least <= soon.wait, "{soon:?}");
    assert!(last.becomes_late && !last.late && last.wait.is_none(), "{last:?}");
    let least = last.least.unwrap().secs_f64();
    assert!((3.5..=5.5).contains(&least), "some 24 asks at 5 a second: {least}");
}

/// A server that was slow for a while may be fast again.
#[test]
fn a_least_wait_follows_the_highest_rate() {
    let mut fixture = Fixture::new(full_at(1000), 1);
    let running = fixture.start("flow-0");
    let running = serve(&mut fixture, running, (200, 1), 20, 100);
    serve(&mut fixture, running, (1000, 1), 20, 20);
    let last = fixture.queue("flow-0", Band::Normal);
    let now = fixture.now;
    let forecast = fixture.gate.wait_forecast(last, now).unwrap();
    let (wait, least) = (forecast.wait.unwrap().secs_f64(), forecast.least.unwrap().secs_f64());
    assert!(wait > 12.0, "20 asks at little more than one a second: {wait}");
    assert!((3.5..=7.0).contains(&least), "20 asks at 5 a second, which fade slowly: {least}");
}
