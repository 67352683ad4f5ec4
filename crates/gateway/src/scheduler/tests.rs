//! Permits end their asks on every path, and waiting requests are woken by time alone.

mod handoff;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use flow::{
    BackendId, BackendSupply, Band, Bounds, Hysteresis, ModelId, RequeuePosition, Settings, Span,
    Usage,
};
use http::HeaderValue;

use super::*;
use crate::ingress::{Preferences, WorkloadName};

const MODEL: ModelId = ModelId(7);
const TARGET: Target = Target { model: MODEL, adapter: None };

fn intent(flow: &str) -> Intent {
    Intent {
        blocks: flow::PromptBlocks::UNKNOWN,
        model: None,
        target: None,
        flow: flow.into(),
        class: 0,
        band: Band::Normal,
        band_clamped: false,
        unknown_priority: None,
        caller: None,
        workload: WorkloadName::default(),
        criticality: 3,
        cost: 1,
        prompt: 1,
        tokens: 1,
        claimed: 1,
        choices: 1,
        generates: true,
        measurable: true,
        streamed: false,
        ttl: None,
        preferences: Preferences::default(),
        session: None,
        flow_session: 0,
        request_id: HeaderValue::from_static("test"),
        queue_status: false,
        decoded: false,
        mislabelled: false,
        direct: false,
    }
}

// === impl Scheduler ===

impl Scheduler {
    /// Holds all further outcomes back until [`Scheduler::deliver_one`].
    fn hold_deliveries(&self) {
        *self.held.lock().unwrap() = Some(VecDeque::new());
    }

    /// The deliveries that are not held back.
    pub(super) fn hold(&self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        match &mut *self.held.lock().unwrap() {
            Some(held) => {
                held.extend(deliveries);
                Vec::new()
            }
            None => deliveries,
        }
    }

    /// How many outcomes are held back.
    fn held(&self) -> usize {
        self.held.lock().unwrap().as_ref().map_or(0, VecDeque::len)
    }

    fn deliver_one(&self) {
        let next = self.held.lock().unwrap().as_mut().and_then(VecDeque::pop_front);
        next.into_iter().for_each(deliver);
    }
}

/// A scheduler with one backend that takes so many at once.
fn scheduler(slots: f64) -> Arc<Scheduler> {
    let bounds = Bounds::Fixed(Hysteresis::limit(slots).unwrap());
    let settings = Settings { bounds, ..Settings::default() };
    let scheduler = Arc::new(Scheduler::new(settings, Clock::start()));
    let backends = [BackendSupply::new(BackendId(0), vec![MODEL])];
    scheduler.with(|controller, now| controller.supply(&backends, now));
    scheduler
}

fn offer(scheduler: &Arc<Scheduler>, intent: &Intent) -> Permit {
    scheduler.offer(intent, TARGET, scheduler.clock.now()).unwrap()
}

fn counts(scheduler: &Scheduler) -> (u32, u32) {
    scheduler.with(|controller, _| (controller.depth(), controller.in_flight()))
}

#[tokio::test]
async fn c01_a_dropped_permit_gives_its_place_to_the_next_request() {
    let scheduler = scheduler(1.0);
    let mut first = offer(&scheduler, &intent("a"));
    first.grant().await.unwrap();
    let mut second = offer(&scheduler, &intent("a"));
    assert!(second.waits());
    drop(first);
    assert_eq!(second.grant().await.unwrap().backend, BackendId(0));
    second.settle(Usage::Unknown, scheduler.clock.now());
    assert_eq!(counts(&scheduler), (0, 0));
}

/// Without streams the core presumes when a request begins. While none waits that is found out when
/// the next one comes, and the timekeeper is left alone.
#[tokio::test]
async fn a_request_that_passes_by_does_not_wake_the_timekeeper() {
    let scheduler = Arc::new(Scheduler::new(Settings::default(), Clock::start()));
    let backends = [BackendSupply::new(BackendId(0), vec![MODEL])];
    scheduler.with(|controller, now| controller.supply(&backends, now));
    let passing = offer(&scheduler, &intent("a"));
    let due = scheduler.inner().due.unwrap();
    assert_eq!((passing.waits(), scheduler.inner().wakes_at), (false, None));
    scheduler.locked_at(due.after(Span::from_secs(1)), |_, _| ());
    assert_ne!(scheduler.inner().due, Some(due), "it was caught up with");
    let mut others: Vec<Permit> = Vec::new();
    while !others.last().is_some_and(Permit::waits) {
        others.push(offer(&scheduler, &intent("a")));
    }
    assert!(scheduler.inner().wakes_at.is_some());
}

#[tokio::test]
async fn q09_a_permit_that_is_dropped_while_it_waits_leaves_the_queue() {
    let scheduler = scheduler(1.0);
    let mut running = offer(&scheduler, &intent("a"));
    running.grant().await.unwrap();
    let waiting = offer(&scheduler, &intent("a"));
    assert_eq!(counts(&scheduler), (1, 1));
    drop(waiting);
    assert_eq!(counts(&scheduler), (0, 1));
    assert!(scheduler.inner().waiting.is_empty(), "its waiter is forgotten too");
}

/// A grant that comes while its client leaves must not be lost with it.
#[tokio::test]
async fn c01_a_grant_that_is_not_taken_is_given_back() {
    let scheduler = scheduler(1.0);
    let mut running = offer(&scheduler, &intent("a"));
    running.grant().await.unwrap();
    let left = offer(&scheduler, &intent("a"));
    running.settle(Usage::Unknown, scheduler.clock.now());
    assert_eq!(counts(&scheduler), (0, 1), "granted, and not yet heard of it");
    drop(left);
    assert_eq!(counts(&scheduler), (0, 0));
}

#[tokio::test]
async fn n05_a_request_that_is_sent_back_waits_again() {
    let scheduler = scheduler(1.0);
    let mut permit = offer(&scheduler, &intent("a"));
    permit.grant().await.unwrap();
    permit.requeue(RequeuePosition::Original);
    permit.grant().await.unwrap();
    assert_eq!(counts(&scheduler), (0, 1));
}

#[tokio::test]
async fn a_panic_under_way_ends_the_ask() {
    let scheduler = scheduler(1.0);
    let mut permit = offer(&scheduler, &intent("a"));
    permit.grant().await.unwrap();
    let broken = tokio::spawn(async move {
        let _held = permit;
        panic!("a handler broke");
    });
    assert!(broken.await.is_err());
    assert_eq!(counts(&scheduler), (0, 0));
}

/// Q08: without any other call the waiting request is woken, because the scheduler keeps the time.
#[tokio::test]
async fn q08_a_waiting_request_is_evicted_when_its_time_is_up() {
    let scheduler = scheduler(1.0);
    let clock = Arc::clone(&scheduler);
    let sleeper = tokio::spawn(async move { clock.keep_time().await });
    let mut running = offer(&scheduler, &intent("a"));
    running.grant().await.unwrap();
    let hasty = Intent { ttl: Some(Span::from_millis(20)), ..intent("a") };
    let mut waiting = offer(&scheduler, &hasty);
    let heard = tokio::time::timeout(Duration::from_secs(10), waiting.grant()).await.unwrap();
    assert_eq!(heard.unwrap_err().fault.code(), "queue_timeout");
    sleeper.abort();
}

#[tokio::test]
async fn n07_closing_evicts_every_waiting_request() {
    let scheduler = scheduler(1.0);
    let mut running = offer(&scheduler, &intent("a"));
    running.grant().await.unwrap();
    let mut waiting = offer(&scheduler, &intent("a"));
    scheduler.with(Controller::close);
    assert_eq!(waiting.grant().await.unwrap_err().fault, Fault::ShuttingDown);
    let refused = scheduler.offer(&intent("b"), TARGET, scheduler.clock.now()).unwrap_err();
    assert_eq!(refused.fault, Fault::ShuttingDown);
}
