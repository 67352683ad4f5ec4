//! Tests of the whole fleet with servers that change, and under many threads.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use flow::{Ask, ModelId, Span, Stage, Usage, Verdict};

use super::super::{Attempt, BegunRequest, StateWord};
use super::*;

const LIST: &str = r#"{"data":[{"id":"m"}]}"#;
const METRICS: &str = "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\n";

async fn vllm(metrics: &str) -> Fake {
    Fake::start(&[("/health", 200, ""), ("/v1/models", 200, LIST), ("/metrics", 200, metrics)])
        .await
}

/// One of its backends.
fn backend(fleet: &Fleet, id: u32) -> Arc<Endpoint> {
    fleet.roster().endpoint(BackendId(id)).cloned().unwrap()
}

#[tokio::test]
async fn r07_a_server_that_fails_and_returns_is_tracked() {
    let fake = vllm(METRICS).await;
    let (fleet, scheduler) = fleet(&quick(vec![spec("a", fake.port, BackendKind::Vllm, &[])]));
    let mut models_changed = fleet.models_changed();
    assert!(matches!(fleet.roster().lookup("m"), Lookup::NotYet(_)));
    let watching = tokio::spawn(fleet.clone().watch(GatewayIdentity::default()));
    models_changed.changed().await.unwrap();
    let model = fleet.roster().lookup("m").known();
    assert!(is_ready(&scheduler, 1));
    until("its metrics are read", || fleet.statuses()[0].last_reading.is_some()).await;
    assert_eq!(fleet.statuses()[0].last_reading.as_ref().unwrap().1.waiting, 2);

    let port = fake.stop().await;
    fleet.report(&backend(&fleet, 1), Attempt::Refused, "");
    assert!(!is_ready(&scheduler, 1), "at once, though it is the last");
    assert_eq!(fleet.statuses()[0].state, StateWord::Unready);
    assert_eq!(fleet.statuses()[0].reason.as_deref(), Some("connection refused"));
    assert_eq!(fleet.roster().lookup("m"), Lookup::Known(model), "requests wait for it");
    let waiting = scheduler.with(|controller, now| {
        let flow = controller.flow("x", 0);
        match controller.offer(Ask::new(flow, model), now) {
            Verdict::Queued { ticket } => ticket,
            other => panic!("expected to wait, got {other:?}"),
        }
    });
    let other = r#"{"data":[{"id":"m"},{"id":"n"}]}"#;
    let pages = [("/health", 200, ""), ("/v1/models", 200, other)];
    let _fake = Fake::on(port, &pages).await;
    until("it is back", || is_ready(&scheduler, 1)).await;
    assert!(matches!(fleet.roster().lookup("n"), Lookup::Known(_)), "with what it serves now");
    let stage = scheduler.with(|controller, now| controller.cancel(waiting, now));
    assert_ne!(stage, Ok(Stage::Waiting), "its return has let the request go");
    watching.abort();
}

#[tokio::test]
async fn r07_an_unhealthy_server_is_not_used_until_it_recovers() {
    let fake = vllm("").await;
    let (fleet, scheduler) = fleet(&quick(vec![spec("a", fake.port, BackendKind::Vllm, &["m"])]));
    let watching = tokio::spawn(fleet.clone().watch(GatewayIdentity::default()));
    until("it is ready", || is_ready(&scheduler, 1)).await;
    fake.set("/health", 503, "loading");
    until("it is left out", || !is_ready(&scheduler, 1)).await;
    assert_eq!(fleet.statuses()[0].state, StateWord::Unready);
    assert_eq!(
        fleet.statuses()[0].reason.as_deref(),
        Some("/health answered 503 Service Unavailable")
    );
    fake.set("/health", 200, "");
    until("it is back", || is_ready(&scheduler, 1)).await;
    watching.abort();
}

#[tokio::test]
async fn n05_a_pause_and_an_ejection_end_by_themselves() {
    let [a, b] = [vllm("").await, vllm("").await];
    let backends = vec![
        spec("a", a.port, BackendKind::Vllm, &["m"]),
        spec("b", b.port, BackendKind::Vllm, &["m"]),
    ];
    let eject_for = Duration::from_millis(100);
    let (fleet, scheduler) = fleet(&FleetSettings { eject_for, ..quick(backends) });
    let watching = tokio::spawn(fleet.clone().watch(GatewayIdentity::default()));
    until("both are ready", || is_ready(&scheduler, 1) && is_ready(&scheduler, 2)).await;
    let first = backend(&fleet, 1);
    fleet.report(&first, Attempt::Full(Some(Duration::from_millis(50))), "");
    assert!(!is_ready(&scheduler, 1));
    until("the pause ends", || is_ready(&scheduler, 1)).await;
    (0..3).for_each(|_| fleet.report(&first, Attempt::Failed, ""));
    assert!(!is_ready(&scheduler, 1));
    until("the ejection ends", || is_ready(&scheduler, 1)).await;
    watching.abort();
}

#[tokio::test]
async fn c10_a_generic_server_is_asked_for_metrics_once() {
    let [with, without] = [vllm(METRICS).await, vllm("nothing known 1\n").await];
    let backends = [("a", &with), ("b", &without)]
        .map(|(id, at)| spec(id, at.port, BackendKind::Generic, &["m"]));
    let (fleet, scheduler) = fleet(&quick(backends.to_vec()));
    let watching = tokio::spawn(fleet.clone().watch(GatewayIdentity::default()));
    until("one is read", || fleet.statuses()[0].last_reading.is_some()).await;
    until("the other is tried", || fleet.statuses()[1].scrape_error.is_some()).await;
    assert!(scheduler.with(|controller, _| {
        controller.backends().find(|view| view.id == BackendId(1)).unwrap().limits.by_metrics
    }));
    without.set("/metrics", 200, METRICS);
    let last = || fleet.statuses()[0].last_reading.as_ref().unwrap().0;
    for _ in 0..3 {
        let before = last();
        until("the first is read again", || last() < before).await;
    }
    assert!(fleet.statuses()[1].last_reading.is_none());
    watching.abort();
}

#[test]
fn r06_the_mean_of_first_bytes_is_kept_without_a_lock() {
    let (fleet, _) = fleet(&quick(vec![spec("a", 1, BackendKind::Vllm, &["m"])]));
    assert_eq!(fleet.statuses()[0].latency, None);
    let first = backend(&fleet, 1);
    let sent = BegunRequest { model: ModelId(2), sent: Time::ZERO };
    first.note(sent, Span::from_millis(80), true);
    assert_eq!(fleet.statuses()[0].latency, Some(Span::from_millis(80)));
    first.note(sent, Span::from_millis(160), true);
    assert_eq!(fleet.statuses()[0].latency, Some(Span::from_millis(90)));
    let held = fleet.state();
    fleet.answered(&first, sent);
    first.note(sent, Span::from_millis(1), true);
    drop(held);
}

/// The work of each thread, until `is_done`.
fn bustle(fleet: &Fleet, scheduler: &Scheduler, seed: u64, is_done: impl Fn() -> bool) {
    let mut draw = seed;
    for turn in 1.. {
        if turn % 500 == 0 && is_done() {
            return;
        }
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = draw >> 33;
        let backend = BackendId((number % 4) as u32);
        let attempt = match number / 4 % 8 {
            0 => Attempt::Refused,
            1 => Attempt::Failed,
            2 => Attempt::Full(Some(Duration::from_micros(number % 100))),
            _ => Attempt::Answered,
        };
        let endpoint = fleet.roster().endpoint(backend).cloned();
        endpoint.iter().for_each(|endpoint| fleet.report(endpoint, attempt, ""));
        let model = match fleet.roster().lookup("m") {
            Lookup::Known(model) | Lookup::Configured(model) | Lookup::NotYet(model) => model,
            Lookup::Unknown => ModelId(9),
        };
        scheduler.with(|controller, now| {
            let flow = controller.flow("x", 0);
            match controller.offer(Ask::new(flow, model), now) {
                Verdict::Granted { ticket, .. } => {
                    controller.settle(ticket, Usage::Cost(1), now).unwrap();
                }
                Verdict::Queued { ticket } => _ = controller.cancel(ticket, now).unwrap(),
                Verdict::Refused { .. } => {}
            }
            while controller.poll_event().is_some() {}
            // A page reads both states at one moment.
            if number.is_multiple_of(64) {
                fleet.statuses();
            }
        });
    }
}

/// Watches servers whose lists change all the time.
async fn watch_changing_lists(fleet: Arc<Fleet>, fakes: &[Fake], done: &AtomicBool) {
    let watching = tokio::spawn(fleet.watch(GatewayIdentity::default()));
    let lists = [LIST, r#"{"data":[{"id":"n"}]}"#];
    for turn in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        fakes[turn % 3].set("/v1/models", 200, lists[turn % 2]);
        tokio::task::yield_now().await;
    }
    watching.abort();
}

/// The source deadlocks when requests meet a health check that updates a list. Here many threads do
/// everything at once, and all of them must end.
#[test]
fn fault7_no_deadlock_under_health_checks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fakes: Vec<Fake> = runtime
        .block_on(async { [vllm(METRICS).await, vllm(METRICS).await, vllm(METRICS).await].into() });
    let specs: Vec<BackendSpec> = ["a", "b", "c"]
        .into_iter()
        .zip(&fakes)
        .map(|(id, fake)| spec(id, fake.port, BackendKind::Vllm, &[]))
        .collect();
    let settings = FleetSettings {
        health_interval: Duration::from_millis(1),
        scrape_interval: Duration::from_millis(1),
        eject_for: Duration::from_millis(1),
        slow_start: Duration::from_millis(2),
        ..quick(specs)
    };
    let (fleet, scheduler) = fleet(&settings);
    let done = AtomicBool::new(false);
    let (turned, turns) = mpsc::channel();
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (fleet, scheduler, done, turned) = (&fleet, &scheduler, &done, turned.clone());
            let is_done = move || {
                _ = turned.send(());
                done.load(Ordering::Relaxed)
            };
            scope.spawn(move || bustle(fleet, scheduler, seed, is_done));
        }
        scope.spawn(|| {
            let mut fewer = settings.clone();
            fewer.backends.pop();
            while !done.load(Ordering::Relaxed) {
                fleet.configure(&fewer);
                fleet.configure(&settings);
                std::thread::yield_now();
            }
        });
        let watched =
            scope.spawn(|| runtime.block_on(watch_changing_lists(fleet.clone(), &fakes, &done)));
        let asked = || fakes.iter().map(|fake| fake.asked.load(Ordering::Relaxed)).sum::<u64>();
        while asked() < 1000 {
            // A thread that never ends would hang this test, so the test fails first.
            if turns.recv_timeout(Duration::from_secs(60)).is_err() {
                eprintln!("threads wait for each other");
                std::process::abort();
            }
        }
        done.store(true, Ordering::Relaxed);
        watched.join().unwrap();
    });
    scheduler.with(|controller, _| flow::invariant::check(controller).unwrap());
}
