//! The load generator against the stand-in engine.

use std::time::Duration;

use super::{Arrivals, Class, LoadPlan, Quantiles, Report, Waits, run};
use crate::engine::{Engine, Fault, Pace, Running, Settings};

fn engine(millis: u64, at_once: u32) -> Running {
    let pace = Pace::Service { time: Duration::from_millis(millis), at_once };
    Engine::start(Settings { models: vec!["m".into()], pace, ..Settings::default() }).unwrap()
}

fn class(name: &str, arrivals: Arrivals) -> Class {
    Class {
        name: name.into(),
        path: "/v1/completions".into(),
        headers: vec![("x-team".into(), name.into())],
        body: r#"{"model":"m","prompt":"a","stream":true}"#.into(),
        arrivals,
        timeout: Duration::from_secs(30),
    }
}

fn plan(engines: &[&Running], classes: Vec<Class>) -> LoadPlan {
    LoadPlan {
        targets: engines.iter().map(|engine| engine.address()).collect(),
        classes,
        duration: Duration::from_millis(400),
        drain: Duration::from_secs(20),
        progress_every: Duration::from_millis(50),
        seed: 7,
    }
}

async fn load(engine: &Running, arrivals: Arrivals) -> Report {
    run(plan(&[engine], vec![class("only", arrivals)]), |_| ()).await.unwrap()
}

fn outstanding(count: usize) -> Arrivals {
    Arrivals::Outstanding { count, pause: Duration::from_millis(1) }
}

#[tokio::test]
async fn a_closed_class_keeps_so_many_outstanding_over_kept_connections() {
    let engine = engine(5, 3);
    let report = load(&engine, outstanding(3)).await;
    let seen = &report.classes[0];
    let counters = engine.control().counters();
    assert_eq!((counters.max_in_flight_seen, counters.in_flight), (3, 0));
    assert_eq!(counters.connections, 3, "one for each of them");
    assert!(seen.ok >= 3 && seen.ok == seen.sent && seen.unfinished == 0, "{seen:?}");
    assert_eq!((counters.completed, counters.last_headers[0].1.as_str()), (seen.ok, "only"));
    assert!(seen.latency.p50 >= Duration::from_millis(5), "{seen:?}");
    assert!(seen.latency.p50 <= seen.latency.p99 && seen.first_byte.p50 <= seen.latency.p50);
    assert!(seen.bytes > seen.ok * 100, "{seen:?}");
}

#[tokio::test]
async fn open_classes_send_at_their_own_pace_even_without_responses() {
    let engine = engine(60_000, 1);
    let mut plan = plan(&[&engine], vec![]);
    plan.classes = vec![
        class("steady", Arrivals::Every(Duration::from_millis(100))),
        class("random", Arrivals::Poisson(200.0)),
    ];
    plan.drain = Duration::ZERO;
    let report = run(plan, |_| ()).await.unwrap();
    let [steady, random] = &report.classes[..] else { panic!("two classes") };
    assert_eq!((steady.sent, steady.unfinished, steady.ok), (3, 3, 0), "at 100, 200 and 300 ms");
    assert!((40..140).contains(&random.sent), "80 or so with seed 7: {}", random.sent);
}

#[tokio::test]
async fn requests_alternate_between_targets_and_progress_is_reported() {
    let engines = [engine(1, 8), engine(1, 8)];
    let steady = class("steady", Arrivals::Every(Duration::from_millis(20)));
    let mut told = 0;
    let plan = plan(&[&engines[0], &engines[1]], vec![steady]);
    let report = run(plan, |_| told += 1).await.unwrap();
    let received = engines.each_ref().map(|engine| engine.control().counters().received);
    assert_eq!(received[0] + received[1], report.classes[0].ok);
    assert!(received[0].abs_diff(received[1]) <= 1, "{received:?}");
    assert!(told >= 2, "told {told} times");
}

#[tokio::test]
async fn failures_are_counted_by_their_codes() {
    let engine = engine(1, 8);
    let faults = [
        (Fault::Status(503, None), "503"),
        (Fault::Reset, "no_answer"),
        (Fault::ResetAfter(1), "cut"),
        (Fault::BadLength, "cut"),
        (Fault::Garbage, "no_answer"),
    ];
    for (fault, code) in faults {
        engine.control().fail(fault, Some(1));
        let report = load(&engine, outstanding(1)).await;
        let seen = &report.classes[0];
        assert_eq!(seen.failed.get(code), Some(&1), "{fault:?}: {seen:?}");
        assert_eq!((seen.ok + 1, seen.unfinished), (seen.sent, 0), "it goes on: {seen:?}");
    }
    engine.control().fail(Fault::Hang, Some(1));
    let hanging = class("hanging", outstanding(1));
    let hanging = Class { timeout: Duration::from_millis(50), ..hanging };
    let report = run(plan(&[&engine], vec![hanging]), |_| ()).await.unwrap();
    assert_eq!(report.classes[0].failed.get("timeout"), Some(&1));
    let address = engine.address();
    engine.stop().unwrap();
    let gone =
        LoadPlan { targets: vec![address], ..plan(&[], vec![class("only", outstanding(1))]) };
    let report = run(gone, |_| ()).await.unwrap();
    assert!(report.classes[0].failed.contains_key("no_connection"), "{report}");
}

#[tokio::test]
async fn a_plan_that_cannot_be_sent_is_an_error() {
    let engine = engine(1, 1);
    assert!(run(plan(&[], vec![]), |_| ()).await.is_err());
    let mut wrong = class("odd", outstanding(1));
    wrong.headers[0].1 = "a\nb".into();
    let error = run(plan(&[&engine], vec![wrong]), |_| ()).await.unwrap_err();
    assert!(error.to_string().starts_with("class odd: a\nb"), "{error}");
}

#[test]
fn quantiles_are_values_that_were_seen() {
    assert_eq!(Quantiles::of(&[]), Quantiles::default());
    let hundred: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
    let millis = Duration::from_millis;
    let [p50, p90, p99, max] = [millis(50), millis(90), millis(99), millis(100)];
    assert_eq!(Quantiles::of(&hundred), Quantiles { p50, p90, p99, max });
    let one = Quantiles::of(&hundred[..1]);
    assert_eq!((one.p50, one.max), (max, max));
}

#[test]
fn requests_without_a_response_count_among_the_waits() {
    let hundred: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
    let millis = |millis| Some(Duration::from_millis(millis));
    let all = Waits { half: millis(50), nine_tenths: millis(90) };
    assert_eq!(Waits::of(&hundred, 100), all);
    assert_eq!(Waits::of(&hundred, 120), Waits { half: millis(60), nine_tenths: None });
    assert_eq!(Waits::of(&hundred, 201), Waits { half: None, nine_tenths: None });
    assert_eq!(Waits::of(&[], 0), Waits::default());
}
