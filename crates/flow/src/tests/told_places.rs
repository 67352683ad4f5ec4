//! C10: an operator says how many requests a backend runs at once, where its metrics do not.

use super::fixture::{Fixture, MODEL, backend, limited_to};
use crate::{
    Ask, BackendId, BackendSupply, Band, EngineReading, ReserveLimits, Settings, Span, Ticket,
    Verdict,
};

/// A prompt longer than the allowance of unstarted prompt tokens.
const LONG: u64 = 5000;

/// One backend under `auto` that an operator says has so many places.
fn told(places: u32, settings: Settings) -> Fixture {
    let mut fixture = Fixture::new(settings, 1);
    tell(&mut fixture, Some(places));
    fixture
}

fn tell(fixture: &mut Fixture, places: Option<u32>) {
    fixture.supply(&[BackendSupply { places, ..backend(0, &[MODEL.0]) }]);
    fixture.collect();
}

/// Offers asks with long prompts that never expire and do not stream; returns those that were
/// granted.
fn crowd(fixture: &mut Fixture, band: Band, count: u32) -> Vec<Ticket> {
    let ttl = Some(Span::from_secs(9999));
    let streamed = false;
    let ask = Ask { prompt: LONG, tokens: LONG, ttl, band, streamed, ..fixture.ask("crowd") };
    let offered: Vec<Verdict> = (0..count).map(|_| fixture.offer(ask)).collect();
    let granted = offered.into_iter().filter_map(|verdict| match verdict {
        Verdict::Granted { ticket, .. } => Some(ticket),
        _ => None,
    });
    granted.chain(fixture.granted()).collect()
}

/// Without metrics and without streams nothing shows which asks have started: the number alone
/// bounds them, so that the engine is full and no ask waits inside it.
#[test]
fn c10_a_told_number_of_places_fills_a_backend_of_which_nothing_is_seen() {
    let mut fixture = told(16, Settings::default());
    let first = crowd(&mut fixture, Band::Normal, 40);
    assert_eq!(first.len(), 16);
    let watermark = |fixture: &Fixture| fixture.gate.backends().next().unwrap().limits.watermark;
    assert_eq!(watermark(&fixture), 16);
    fixture.pass(Span::from_secs(5));
    assert!(fixture.granted().is_empty(), "a place is not free before a response ends");
    fixture.settle(first[0], 1);
    assert_eq!(fixture.granted().len(), 1);
}

/// Streams show which asks have started. They do not raise the bound above the places.
#[test]
fn c10_a_told_number_of_places_is_never_exceeded_by_streams() {
    let mut fixture = told(16, Settings::default());
    let mut flying = crowd(&mut fixture, Band::Normal, 40);
    for at in 0..16 {
        fixture.gate.started(flying[at], fixture.now).unwrap();
        fixture.collect();
        flying.extend(fixture.granted());
    }
    assert_eq!(flying.len(), 16);
}

/// Of the operator's number and the one that the metrics report, the smaller one counts.
#[test]
fn c10_metrics_may_report_fewer_places_than_told() {
    let mut fixture = told(16, Settings::default());
    let slots = |fixture: &Fixture| fixture.gate.backends().next().unwrap().limits.slots.1;
    fixture.gate.reading(BackendId(0), EngineReading::default(), fixture.now);
    assert_eq!(slots(&fixture), 16.0);
    let reported = EngineReading { running_max: Some(8), ..EngineReading::default() };
    fixture.gate.reading(BackendId(0), reported, fixture.now);
    assert_eq!(slots(&fixture), 8.0);
    let mut larger = told(16, Settings::default());
    let reported = EngineReading { running_max: Some(64), ..EngineReading::default() };
    larger.gate.reading(BackendId(0), reported, larger.now);
    assert_eq!(slots(&larger), 16.0);
}

/// The number counts from the moment that it is given, also after the backend was away, until it is
/// taken back: then only what runs is known to fit.
#[test]
fn c10_a_told_number_of_places_can_change() {
    let mut fixture = told(16, Settings::default());
    let slots = |fixture: &Fixture| fixture.gate.backends().next().unwrap().limits.slots.1;
    assert_eq!(slots(&fixture), 16.0);
    fixture.supply(&[BackendSupply { ready: false, places: Some(16), ..backend(0, &[MODEL.0]) }]);
    tell(&mut fixture, Some(16));
    assert_eq!(slots(&fixture), 16.0);
    tell(&mut fixture, Some(20));
    assert_eq!(slots(&fixture), 20.0);
    crowd(&mut fixture, Band::Normal, 60);
    assert_eq!(fixture.gate.in_flight(), 20);
    tell(&mut fixture, None);
    assert_eq!((slots(&fixture), fixture.gate.in_flight()), (20.0, 20));
}

/// What the metrics have shown outlives the number, and a larger number than the engine reports
/// does not count.
#[test]
fn c10_a_told_number_of_places_does_not_hide_the_metrics() {
    let mut fixture = told(64, Settings::default());
    let reported = EngineReading { running_max: Some(8), ..EngineReading::default() };
    fixture.gate.reading(BackendId(0), reported, fixture.now);
    crowd(&mut fixture, Band::Normal, 60);
    for places in [Some(16), Some(128), None] {
        tell(&mut fixture, places);
        assert!(fixture.gate.in_flight() <= 8, "{places:?}: {}", fixture.gate.in_flight());
    }
}

/// A number that was told before `auto` was switched on counts at once.
#[test]
fn c10_a_told_number_of_places_outlives_fixed_bounds() {
    let mut fixture = told(8, limited_to(4.0));
    crowd(&mut fixture, Band::Normal, 40);
    fixture.gate.configure(Settings::default(), fixture.now);
    assert_eq!(fixture.gate.in_flight(), 8);
}

/// One slow stream says nothing of the requests after it that do not stream.
#[test]
fn c10_a_slow_stream_leaves_a_told_number_of_places_in_force() {
    let mut fixture = told(16, Settings::default());
    let slow = crowd(&mut fixture, Band::Normal, 1);
    fixture.pass(Span::from_secs(8));
    fixture.gate.started(slow[0], fixture.now).unwrap();
    fixture.settle(slow[0], 1);
    crowd(&mut fixture, Band::Normal, 40);
    for _ in 0..10 {
        fixture.pass(Span::from_millis(200));
    }
    assert_eq!(fixture.gate.in_flight(), 16);
}

/// Places that an operator has told are kept for higher bands without metrics, too.
#[test]
fn o01_told_places_are_kept_without_metrics() {
    let bounds = Settings::default().bounds;
    let reserve = ReserveLimits::usual(bounds, [0, 0, 0, 1]);
    let mut fixture = told(64, Settings { reserve, ..Settings::default() });
    assert_eq!(crowd(&mut fixture, Band::Normal, 80).len(), 62);
    assert_eq!(crowd(&mut fixture, Band::Critical, 8).len(), 2);
}

/// Fixed bounds count for themselves.
#[test]
fn c10_fixed_bounds_do_not_ask_for_places() {
    let mut fixture = told(16, limited_to(3.0));
    assert_eq!(crowd(&mut fixture, Band::Normal, 10).len(), 3);
}
