//! Reserved places: the last free places of a pool are kept for asks that must not wait.

use super::fixture::{Fixture, backend, limited_to};
use crate::{
    Ask, BackendId, Band, Bounds, EngineReading, ReserveLimits, Settings, Span, Ticket, Verdict,
};

const PLACES: u32 = 64;

fn reserving() -> Settings {
    let reserve = ReserveLimits::new([0, 0, 0, 1], 0.1875).unwrap();
    let settings = limited_to(PLACES.into());
    let ttl = Span::from_secs(3600);
    let class = crate::FlowClass { capacity: 10_000, ttl, ..settings.default_class };
    Settings { reserve, total_capacity: 10_000, default_class: class, ..settings }
}

/// Offers `count` asks of a flow in a band; returns the tickets of those granted at once.
fn flood(fixture: &mut Fixture, flow: &str, band: Band, count: u32) -> Vec<Ticket> {
    let granted = |verdict| match verdict {
        Verdict::Granted { ticket, .. } => Some(ticket),
        _ => None,
    };
    (0..count).filter_map(|_| granted(fixture.send(flow, band))).collect()
}

fn is_granted(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Granted { .. })
}

/// A flood takes every place at once, and its responses last: what it leaves free serves a quiet
/// tenant and critical asks.
#[test]
fn o01_the_first_flood_leaves_places_for_others() {
    let mut fixture = Fixture::new(reserving(), 1);
    let taken = flood(&mut fixture, "flood", Band::Normal, 250);
    assert_eq!(taken.len(), 52, "a flow over its share leaves three sixteenths");
    let quiet = flood(&mut fixture, "quiet", Band::Normal, 20);
    assert_eq!(quiet.len(), 8, "a band leaves a sixteenth for the bands above");
    let critical = flood(&mut fixture, "pager", Band::Critical, 20);
    assert_eq!(critical.len(), 4, "critical asks take the last place");
    assert_eq!(fixture.gate.in_flight(), PLACES);
}

/// A flood that comes beside traffic finds as many places kept as the first one: while the pool is
/// nearly empty, ends say nothing about when the flood's responses will end.
#[test]
fn o01_a_flood_beside_traffic_leaves_places_for_others() {
    let mut fixture = Fixture::new(reserving(), 1);
    for _ in 0..100 {
        fixture.pass(Span::from_millis(300));
        let short = flood(&mut fixture, "quiet", Band::Normal, 1);
        fixture.settle(short[0], 1);
    }
    flood(&mut fixture, "flood", Band::Normal, 250);
    assert_eq!(fixture.gate.in_flight(), PLACES * 13 / 16);
    assert_eq!(flood(&mut fixture, "quiet", Band::Normal, 20).len(), 8);
}

/// A flood that comes right after another one finds as many places kept: how often responses ended
/// before does not say when those end that begin together now.
#[test]
fn o01_a_flood_right_after_another_leaves_places_for_others() {
    let mut fixture = Fixture::new(reserving(), 1);
    let mut running = flood(&mut fixture, "flood", Band::Normal, 200);
    while let Some(ticket) = running.pop() {
        fixture.pass(Span::from_millis(20));
        fixture.settle(ticket, 1);
        running.extend(fixture.granted());
    }
    fixture.pass(Span::from_millis(300));
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len(), 52);
    assert_eq!(flood(&mut fixture, "quiet", Band::Normal, 20).len(), 8);
}

/// Once responses end, a tenant that is alone loses one place, which is kept for critical asks.
#[test]
fn o01_a_lone_tenant_loses_only_the_least_reserve() {
    let mut fixture = Fixture::new(reserving(), 1);
    let mut running = flood(&mut fixture, "only", Band::Normal, 25);
    for step in 0..60 {
        // Its own asks, which come while it holds less than half, protect nobody from it.
        let count = if step == 50 { 400 } else { 1 };
        fixture.pass(Span::from_millis(100));
        fixture.settle(running.remove(0), 1);
        running.extend(flood(&mut fixture, "only", Band::Normal, count));
        running.extend(fixture.granted());
    }
    assert_eq!(running.len() as u32, PLACES - 1);
    assert!(is_granted(fixture.send("pager", Band::Critical)));
}

/// The more asks of higher bands come, the more places are kept for them, up to the largest share.
#[test]
fn o01_the_reserve_follows_the_protected_asks() {
    let kept_at = |critical_every: u64| {
        let mut fixture = Fixture::new(reserving(), 1);
        let mut running = flood(&mut fixture, "flood", Band::Normal, 3000);
        for step in 0..400u64 {
            fixture.pass(Span::from_millis(100));
            if step.is_multiple_of(critical_every) {
                match fixture.send("pager", Band::Critical) {
                    Verdict::Granted { ticket, .. } => running.push(ticket),
                    other => panic!("{other:?}"),
                }
            }
            fixture.settle(running.remove(0), 1);
            running.extend(fixture.granted());
        }
        PLACES as usize - running.len()
    };
    let (rare, often) = (kept_at(40), kept_at(2));
    assert!(rare <= 2, "{rare} places for one ask in four seconds");
    assert!((4..=12).contains(&often), "{often} places for five asks a second");
}

/// A flow that holds no more than its share is never held back for others.
#[test]
fn o01_a_flow_below_its_share_is_not_held_back() {
    let mut fixture = Fixture::new(reserving(), 1);
    let first = flood(&mut fixture, "a", Band::Normal, 400);
    let second = flood(&mut fixture, "b", Band::Normal, 400);
    // All responses of the first flow end; both flows wait.
    let mut of_a = 0;
    for ticket in first.into_iter().chain(second) {
        fixture.pass(Span::from_millis(50));
        fixture.settle(ticket, 1);
        of_a += fixture.granted().len();
    }
    assert!(of_a > 0);
    let flows: Vec<u32> = fixture.gate.flows().map(|flow| flow.in_flight).collect();
    assert!(flows.iter().all(|&count| count >= PLACES / 3), "{flows:?}");
}

/// Q03: flows that wait all the time share equally although places are kept from them.
#[test]
fn q03_kept_places_leave_backlogged_flows_equal() {
    let mut fixture = Fixture::new(reserving(), 1);
    let mut running = flood(&mut fixture, "a", Band::Normal, 4000);
    running.extend(flood(&mut fixture, "b", Band::Normal, 4000));
    let mut counts = std::collections::BTreeMap::new();
    for step in 0..2400 {
        fixture.pass(Span::from_millis(20));
        fixture.settle(running.remove(0), 1);
        for ticket in fixture.granted() {
            // At first the second flow holds less than its share, and may go ahead.
            *counts.entry(flow_of(&fixture, ticket)).or_insert(0) += i32::from(step >= 400);
            running.push(ticket);
        }
    }
    let counts: Vec<i32> = counts.into_values().collect();
    assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
}

fn flow_of(fixture: &Fixture, ticket: Ticket) -> u32 {
    let slot = fixture.gate.asks.find(ticket).unwrap();
    fixture.gate.flow_queues[fixture.gate.asks[slot].flow_queue].flow
}

/// An ask that goes ahead of a flow which is held back does not move virtual time past that flow,
/// and its own lead stays one step: it neither takes nor saves up credit.
#[test]
fn q03_going_ahead_of_a_held_flow_earns_and_costs_at_most_one_step() {
    let mut fixture = Fixture::new(reserving(), 1);
    flood(&mut fixture, "flood", Band::Normal, 250);
    let clock = |fixture: &Fixture| fixture.gate.fair_queues[0][Band::Normal.index()].clock.now();
    let before = clock(&fixture);
    for _ in 0..8 {
        let ask = Ask { cost: 1000, ..fixture.ask("quiet") };
        assert!(is_granted(fixture.offer(ask)));
    }
    assert_eq!(clock(&fixture), before, "virtual time passed a flow that is held back");
    let quiet = fixture.gate.flow_queues.ids().map(|at| &fixture.gate.flow_queues[at]);
    let tags: Vec<u64> = quiet.map(|flow_queue| flow_queue.tag - before).collect();
    let step = crate::Weight::ONE.stretch(1000);
    assert!(tags.iter().all(|&lead| lead <= 2 * step), "{tags:?} beyond {step}");
}

/// Switched off, the last place is as free as the first.
#[test]
fn o01_without_a_reserve_one_flow_takes_every_place() {
    let settings = Settings { reserve: ReserveLimits::OFF, ..reserving() };
    let mut fixture = Fixture::new(settings, 1);
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len() as u32, PLACES);
}

/// Fewer than six places are too few to keep one free.
#[test]
fn o01_small_pools_keep_no_place() {
    let mut fixture = Fixture::new(Settings { bounds: limited_to(5.0).bounds, ..reserving() }, 1);
    assert_eq!(flood(&mut fixture, "flood", Band::BestEffort, 20).len(), 5);
}

/// A share beyond one half is refused.
#[test]
fn o01_a_share_has_a_limit() {
    assert_eq!(ReserveLimits::new([0; 4], 0.6).unwrap_err().what, "reserve_share_max");
    assert!(ReserveLimits::new([0; 4], f64::NAN).is_err());
}

/// Under `auto`, with an engine that reports these metrics.
fn reserving_auto(reading: EngineReading) -> Fixture {
    let mut fixture = Fixture::new(Settings { bounds: Bounds::Auto, ..reserving() }, 1);
    read(&mut fixture, reading);
    fixture
}

fn read(fixture: &mut Fixture, reading: EngineReading) {
    fixture.pass(Span::from_millis(200));
    fixture.gate.reading(BackendId(0), reading, fixture.now);
    fixture.collect();
}

fn slots(fixture: &Fixture) -> f64 {
    fixture.gate.backends().next().unwrap().limits.slots.1
}

/// An engine that reports how many requests it runs has known places before any ask.
#[test]
fn o01_under_auto_the_places_that_an_engine_reports_are_kept() {
    let told = EngineReading { running_max: Some(PLACES), ..EngineReading::default() };
    let mut fixture = reserving_auto(told);
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len(), 52);
    assert_eq!(flood(&mut fixture, "quiet", Band::Normal, 20).len(), 8);
    assert_eq!(flood(&mut fixture, "pager", Band::Critical, 20).len(), 4);
}

/// Bands that share by weight each get their part although places are kept.
#[test]
fn p04_kept_places_put_no_weighted_band_off() {
    let weights = [1.0; 4].map(|weight| crate::Weight::new(weight).unwrap());
    let settings = Settings { cascade: crate::Cascade::Weighted(weights), ..reserving() };
    let mut fixture = Fixture::new(settings, 1);
    let mut running = flood(&mut fixture, "a", Band::Normal, 2000);
    running.extend(flood(&mut fixture, "b", Band::BestEffort, 2000));
    running.extend(flood(&mut fixture, "c", Band::Critical, 2000));
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..1500 {
        fixture.pass(Span::from_millis(20));
        fixture.settle(running.remove(0), 1);
        for ticket in fixture.granted() {
            *counts.entry(flow_of(&fixture, ticket)).or_insert(0) += 1;
            running.push(ticket);
        }
    }
    assert!(counts.len() == 3 && counts.values().all(|&count| count > 300), "{counts:?}");
}

/// Two models share a backend, and the other backend of the second one is down. The second one's
/// requests of a higher band go first.
#[test]
fn p03_kept_places_of_pools_that_share_a_backend_put_no_band_off() {
    let (first, second) = (crate::ModelId(1), crate::ModelId(2));
    let shared = backend(0, &[1, 2]);
    let down = crate::BackendSupply { ready: false, ..backend(1, &[2]) };
    let mut fixture = Fixture::with(reserving(), &[shared, down]);
    let send = |fixture: &mut Fixture, flow: &str, model, band| {
        let ask = Ask { model, band, ..fixture.ask(flow) };
        match fixture.offer(ask) {
            Verdict::Granted { ticket, .. } => Some(ticket),
            _ => None,
        }
    };
    let mut running = Vec::new();
    for _ in 0..2000 {
        running.extend(send(&mut fixture, "low", first, Band::Normal));
        running.extend(send(&mut fixture, "high", second, Band::High));
    }
    let mut high = 0;
    for _ in 0..500 {
        fixture.pass(Span::from_millis(20));
        fixture.settle(running.remove(0), 1);
        send(&mut fixture, "pager", second, Band::Critical).into_iter().for_each(|ticket| {
            running.push(ticket);
        });
        for ticket in fixture.granted() {
            let slot = fixture.gate.asks.find(ticket).unwrap();
            high += u32::from(fixture.gate.asks[slot].band != Band::Normal);
            running.push(ticket);
        }
    }
    assert_eq!(high, 500, "a request of the lower band went first");
}

/// New settings in the middle of a flood do not give the kept places to it.
#[test]
fn o01_new_settings_and_backends_leave_the_kept_places() {
    let mut fixture = Fixture::new(reserving(), 1);
    flood(&mut fixture, "flood", Band::Normal, 250);
    let before = fixture.gate.in_flight();
    fixture.gate.configure(Settings { refuse_hopeless: true, ..reserving() }, fixture.now);
    assert!(fixture.gate.in_flight() <= before, "{} in flight", fixture.gate.in_flight());
    fixture.supply(&[backend(0, &[1]), backend(1, &[7])]);
    assert!(fixture.gate.in_flight() <= before, "{} in flight", fixture.gate.in_flight());
    assert!(is_granted(fixture.send("pager", Band::Critical)));
}

/// Unless the operator sets a share, automatic bounds keep 1/32, for higher bands alone:
/// flows of a band wait in the order of their tags.
#[test]
fn o01_automatic_bounds_keep_a_few_places_for_higher_bands() {
    let reserve = ReserveLimits::usual(Bounds::Auto, [0, 0, 0, 1]);
    let mut fixture = Fixture::new(Settings { bounds: Bounds::Auto, reserve, ..reserving() }, 1);
    read(&mut fixture, EngineReading { running_max: Some(PLACES), ..EngineReading::default() });
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len(), 62);
    assert_eq!(flood(&mut fixture, "quiet", Band::Normal, 20).len(), 0);
    assert_eq!(flood(&mut fixture, "pager", Band::Critical, 20).len(), 2);
    assert!(!fixture.gate.flow_queues.iter_mut().any(|flow_queue| flow_queue.over_share));
}

/// Whoever gives bounds has counted the places, and all of them are used.
#[test]
fn o01_fixed_bounds_keep_no_place_by_default() {
    let bounds = limited_to(PLACES.into()).bounds;
    let reserve = ReserveLimits::usual(bounds, [0, 0, 0, 1]);
    let mut fixture = Fixture::new(Settings { bounds, reserve, ..reserving() }, 1);
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len() as u32, PLACES);
}

/// A bound that is not known yet must be found, so no place stays free.
#[test]
fn o01_under_auto_unknown_places_are_not_kept() {
    let running = EngineReading { running: PLACES, ..EngineReading::default() };
    let mut fixture = reserving_auto(running);
    assert_eq!(flood(&mut fixture, "flood", Band::Normal, 250).len() as u32, PLACES + 2);
}

/// Without metrics the bound on slots is the most streams that ran: if some of it stayed free, it
/// would fall.
#[test]
fn o01_under_auto_places_that_streams_have_shown_are_not_kept() {
    let mut fixture = Fixture::new(Settings { bounds: Bounds::Auto, ..reserving() }, 1);
    let mut running = flood(&mut fixture, "flood", Band::Normal, 250);
    let mut at = 0;
    while at < 40 {
        fixture.gate.started(running[at], fixture.now).unwrap();
        fixture.collect();
        running.extend(fixture.granted());
        at += 1;
    }
    assert_eq!(slots(&fixture), 43.0);
    fixture.pass(Span::from_millis(300));
    fixture.settle(running[0], 1);
    assert_eq!(fixture.gate.in_flight(), 43, "a place that comes free is taken at once");
}

/// A bound on slots that fell below what the engine runs grows again although places of it stay
/// free, and no further than what the engine was seen to run.
#[test]
fn o01_kept_places_do_not_stop_the_growth_of_auto() {
    let calm = EngineReading { running: PLACES, ..EngineReading::default() };
    let mut fixture = reserving_auto(calm);
    let mut running = flood(&mut fixture, "flood", Band::Normal, 250);
    for &ticket in &running[..60] {
        fixture.gate.started(ticket, fixture.now).unwrap();
    }
    fixture.collect();
    running.extend(fixture.granted());
    for _ in 0..10 {
        read(&mut fixture, EngineReading { running: 50, waiting: 20, ..calm });
    }
    let cut = slots(&fixture);
    assert!((50.0..=60.0).contains(&cut), "{cut}");
    for ticket in running.drain(..30) {
        fixture.settle(ticket, 1);
    }
    assert!(f64::from(fixture.gate.in_flight()) < cut, "places are kept");
    for _ in 0..150 {
        read(&mut fixture, EngineReading { running: 50, ..calm });
    }
    assert_eq!(slots(&fixture), f64::from(PLACES));
    let in_flight = fixture.gate.in_flight();
    assert!((PLACES - 12..PLACES).contains(&in_flight), "{in_flight} in flight");
}
