//! Seats end what they began, on every path, and nobody waits for a clock that nobody hears.

use std::sync::Arc;
use std::time::Duration;

use flow::{
    BackendId, BackendSupply, Band, Bounds, Hysteresis, ModelId, RequeuePosition, Settings, Span,
    Usage,
};
use http::HeaderValue;

use super::*;

const MODEL: ModelId = ModelId(7);
const TARGET: Target = Target { model: MODEL, adapter: None };

fn intent(flow: &str) -> Intent {
    Intent {
        model: None,
        target: None,
        flow: flow.into(),
        class: 0,
        band: Band::Normal,
        workload: None,
        criticality: 3,
        cost: 1,
        prompt: 1,
        tokens: 1,
        streamed: false,
        ttl: None,
        deadline: None,
        latency_max: None,
        latency_critical: false,
        session: None,
        request_id: HeaderValue::from_static("test"),
        queue_status: false,
    }
}

/// A keeper with one backend that takes so many at once.
fn keeper(slots: f64) -> Arc<Keeper> {
    let bounds = Bounds::Fixed(Hysteresis::limit(slots).unwrap());
    let settings = Settings { bounds, ..Settings::default() };
    let keeper = Arc::new(Keeper::new(settings, Clock::start()));
    let backends = [BackendSupply::new(BackendId(0), vec![MODEL])];
    keeper.with(|controller, now| controller.supply(&backends, now));
    keeper
}

fn offer(keeper: &Arc<Keeper>, intent: &Intent) -> Seat {
    keeper.offer(intent, TARGET, keeper.clock.now()).unwrap()
}

fn counts(keeper: &Keeper) -> (u32, u32) {
    keeper.with(|controller, _| (controller.depth(), controller.in_flight()))
}

#[tokio::test]
async fn c01_a_seat_that_is_dropped_gives_its_place_to_the_next() {
    let keeper = keeper(1.0);
    let mut first = offer(&keeper, &intent("a"));
    first.grant().await.unwrap();
    let mut second = offer(&keeper, &intent("a"));
    assert!(second.waits());
    drop(first);
    assert_eq!(second.grant().await.unwrap().backend, BackendId(0));
    second.settle(Usage::Unknown, keeper.clock.now());
    assert_eq!(counts(&keeper), (0, 0));
}

#[tokio::test]
async fn q09_a_seat_that_is_dropped_while_it_waits_is_gone() {
    let keeper = keeper(1.0);
    let mut running = offer(&keeper, &intent("a"));
    running.grant().await.unwrap();
    let waiting = offer(&keeper, &intent("a"));
    assert_eq!(counts(&keeper), (1, 1));
    drop(waiting);
    assert_eq!(counts(&keeper), (0, 1));
    assert!(keeper.state().waiting.is_empty(), "its waiter is forgotten too");
}

/// A grant that comes while its client leaves must not be lost with it.
#[tokio::test]
async fn c01_a_grant_that_nobody_takes_is_given_back() {
    let keeper = keeper(1.0);
    let mut running = offer(&keeper, &intent("a"));
    running.grant().await.unwrap();
    let left = offer(&keeper, &intent("a"));
    running.settle(Usage::Unknown, keeper.clock.now());
    assert_eq!(counts(&keeper), (0, 1), "granted, and not yet heard of it");
    drop(left);
    assert_eq!(counts(&keeper), (0, 0));
}

#[tokio::test]
async fn n05_a_request_that_is_sent_back_waits_again() {
    let keeper = keeper(1.0);
    let mut seat = offer(&keeper, &intent("a"));
    seat.grant().await.unwrap();
    seat.requeue(RequeuePosition::Original);
    seat.grant().await.unwrap();
    assert_eq!(counts(&keeper), (0, 1));
}

#[tokio::test]
async fn a_panic_under_way_ends_the_ask() {
    let keeper = keeper(1.0);
    let mut seat = offer(&keeper, &intent("a"));
    seat.grant().await.unwrap();
    let broken = tokio::spawn(async move {
        let _held = seat;
        panic!("a handler broke");
    });
    assert!(broken.await.is_err());
    assert_eq!(counts(&keeper), (0, 0));
}

/// Q08: nobody calls anything, and still the waiter hears, because the keeper keeps the time.
#[tokio::test]
async fn q08_a_waiter_hears_when_its_time_is_up() {
    let keeper = keeper(1.0);
    let clock = Arc::clone(&keeper);
    let sleeper = tokio::spawn(async move { clock.keep_time().await });
    let mut running = offer(&keeper, &intent("a"));
    running.grant().await.unwrap();
    let hasty = Intent { ttl: Some(Span::from_millis(20)), ..intent("a") };
    let mut waiting = offer(&keeper, &hasty);
    let heard = tokio::time::timeout(Duration::from_secs(10), waiting.grant()).await.unwrap();
    assert_eq!(heard.unwrap_err().fault.code(), "queue_timeout");
    sleeper.abort();
}

#[tokio::test]
async fn n07_closing_tells_everyone_who_waits() {
    let keeper = keeper(1.0);
    let mut running = offer(&keeper, &intent("a"));
    running.grant().await.unwrap();
    let mut waiting = offer(&keeper, &intent("a"));
    keeper.with(Controller::close);
    assert_eq!(waiting.grant().await.unwrap_err().fault, Fault::ShuttingDown);
    let refused = keeper.offer(&intent("b"), TARGET, keeper.clock.now()).unwrap_err();
    assert_eq!(refused.fault, Fault::ShuttingDown);
}
