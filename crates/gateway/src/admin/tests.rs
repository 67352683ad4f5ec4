//! Tests of the admin pages.

use std::sync::Arc;

use bytes::Bytes;
use flow::{
    Ask, BackendId, BackendSupply, BackendTraits, Band, Bounds, Controller, EngineReading,
    FlowClass, Hysteresis, ModelId, Settings, Span, Time, Verdict, Weight,
};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::{backends, respond};
use crate::backend::{Attempt, BackendStatus, StateWord};
use crate::config::Config;
use crate::config::settings::BackendKind;
use crate::ingress::path::AdminPage;
use crate::observe::{Observer, RequestCounters};
use crate::state::{Standing, State};

const STANDING: Standing<'_> = Standing { instance: "tide-1", shutting_down: false };
const MODEL: ModelId = ModelId(1);

fn state(settings: Settings) -> Arc<State> {
    State::new(Config { flow: settings, ..Config::default() })
}

fn limited_to(limit: f64) -> Settings {
    Settings { bounds: Hysteresis::limit(limit).unwrap().into(), ..Settings::default() }
}

/// Gives the core one backend, ready or not.
fn supply(state: &State, ready: bool) {
    let backend = BackendSupply { ready, ..BackendSupply::new(BackendId(0), vec![MODEL]) };
    state.scheduler.with(|core, now| core.supply(&[backend], now));
}

fn send(state: &State, flow: &str, band: Band) -> Verdict {
    state.scheduler.with(|core: &mut Controller, now: Time| {
        let class = u32::from(flow.starts_with("paid"));
        let ask = Ask { band, ..Ask::new(core.flow(flow, class), MODEL) };
        core.offer(ask, now)
    })
}

fn body(response: Response<Full<Bytes>>) -> Bytes {
    let mut collected = std::pin::pin!(response.into_body().collect());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match Future::poll(collected.as_mut(), &mut context) {
        std::task::Poll::Ready(Ok(whole)) => whole.to_bytes(),
        _ => panic!("a full body is there at once"),
    }
}

fn page(state: &State, page: AdminPage) -> Value {
    let response = respond(state, page, STANDING);
    assert_eq!(response.headers()["content-type"], "application/json");
    serde_json::from_slice(&body(response)).unwrap()
}

fn ready(state: &State, standing: Standing<'_>) -> (StatusCode, String) {
    let response = respond(state, AdminPage::Ready, standing);
    let status = response.status();
    let page: Value = serde_json::from_slice(&body(response)).unwrap();
    assert_eq!(page["ready"], status == StatusCode::OK);
    (status, page["reason"].as_str().unwrap().to_owned())
}

#[test]
fn m03_the_stock_of_no_backend_has_no_sign() {
    for settings in [limited_to(8.0), Settings::default()] {
        let stock = page(&state(settings), AdminPage::Status)["stock"].to_string();
        assert!(!stock.contains('-'), "{stock}");
    }
}

/// R06: the shape that the source promises, with the right counts.
#[test]
fn r06_backends_are_an_array_with_depth_and_counts_per_band() {
    let state = state(limited_to(8.0));
    supply(&state, true);
    for band in [Band::BestEffort, Band::BestEffort, Band::Normal, Band::Critical] {
        assert!(matches!(send(&state, "a", band), Verdict::Granted { .. }));
    }
    let reading =
        EngineReading { running: 4, waiting: 1, kv_used: 0.5, ..EngineReading::default() };
    let status = BackendStatus {
        backend: BackendId(0),
        id: "ollama-npu".into(),
        url: "http://127.0.0.1:11434".into(),
        kind: BackendKind::Ollama,
        ready: true,
        state: StateWord::OnTrial,
        reason: Some("it answered 500".into()),
        returns_in: Some(Span::from_millis(2500)),
        list_failing: None,
        models: vec!["qwen2.5:0.5b".into()],
        last_check: Some((Span::from_millis(1500), "ok".into())),
        last_reading: Some((Span::from_millis(20), reading)),
        kv_reported: true,
        scrape_error: None,
        traits: BackendTraits { power_watts: 3.0, latency_ms: 800.0 },
        places: None,
        full_again: false,
        failures: 2,
        last_error: None,
        quiet: Span::ZERO,
        watched: 0,
        latency: Some(Span::from_millis(120)),
        stream_latency: None,
        stream_latency_now: None,
        usual_latency: None,
        drain: None,
    };
    let shown = serde_json::to_value(backends::join(&state, vec![status]).1).unwrap();
    let expected = json!([{
        "id": "ollama-npu",
        "url": "http://127.0.0.1:11434",
        "kind": "ollama",
        "state": "on_trial",
        "reason": "it answered 500",
        "returns_in_ms": 2500.0,
        "ready": true,
        "models": ["qwen2.5:0.5b"],
        "queue_depth": 4,
        "priority_counts": { "best_effort": 2, "normal": 1, "high": 0, "critical": 1 },
        "stock": 4,
        "avg_latency_ms": null,
        "first_byte_ms": 120.0,
        "power_watts": 3.0,
        "latency_ms": 800.0,
        "limits": { "mode": "fixed", "lower": 8.0, "watermark": 8.0, "upper": 8.0 },
        "kept_places": 0,
        "failures": 2,
        "last_check": { "ago_ms": 1500.0, "result": "ok" },
        "last_reading": {
            "ago_ms": 20.0, "running": 4, "waiting": 1, "kv_used": 0.5, "preemptions": 0,
        },
        "metrics_error": null,
    }]);
    assert_eq!(shown, expected);
}

/// R06: the mean covers the time at the backend, without the wait before it.
#[test]
fn r06_the_mean_latency_follows_the_responses_without_their_waits() {
    use crate::observe::tests::served;
    let observer = Observer::default();
    assert_eq!(observer.latency_ms("gpu-a"), None);
    let mut record = served("chat", "chat");
    record.at_backend = Span::from_millis(500);
    let mut account = RequestCounters::default();
    observer.attempt("gpu-a", Attempt::Answered, &mut account);
    observer.ended(&record, &account);
    assert_eq!(observer.latency_ms("gpu-a"), Some(500.0), "900 ms, 400 of them elsewhere");
    record.at_backend = Span::from_millis(900);
    (0..200).for_each(|_| observer.ended(&record, &account));
    let mean = observer.latency_ms("gpu-a").unwrap();
    assert!((mean - 900.0).abs() < 1.0, "{mean}");
    record.status = 502;
    record.at_backend = Span::from_secs(60);
    observer.ended(&record, &account);
    assert_eq!(observer.latency_ms("gpu-a"), Some(mean), "a failure is not a response");
}

#[test]
fn r06_under_auto_the_page_says_which_bound_binds() {
    let state = state(Settings { bounds: Bounds::Auto, ..Settings::default() });
    supply(&state, true);
    while let Verdict::Granted { .. } = send(&state, "a", Band::Normal) {}
    let limits = &page(&state, AdminPage::Backends)[0]["limits"];
    assert_eq!(limits["mode"], "auto");
    assert_eq!(limits["binding"], "unstarted");
    assert!(limits["unstarted"]["now"].as_f64() >= limits["unstarted"]["most"].as_f64());
    assert_eq!(limits["tokens"]["most"], Value::Null, "there is no such bound yet");
}

#[test]
fn a_backend_that_is_leaving_is_shown_while_it_holds_something() {
    let state = state(limited_to(8.0));
    supply(&state, true);
    send(&state, "a", Band::Normal);
    state.scheduler.with(|core, now| core.supply(&[], now));
    let shown = page(&state, AdminPage::Backends);
    assert_eq!(shown[0]["state"], "leaving");
    assert_eq!(shown[0]["queue_depth"], 1);
}

#[test]
fn flows_show_weight_and_waiting_requests_per_band() {
    let paid = FlowClass { weight: Weight::new(3.0).unwrap(), ..FlowClass::default() };
    let state = state(Settings { classes: vec![paid], ..limited_to(1.0) });
    supply(&state, true);
    for band in [Band::Normal, Band::High, Band::High, Band::BestEffort] {
        send(&state, "paid-team", band);
    }
    send(&state, "small", Band::Normal);
    let shown = page(&state, AdminPage::Flows);
    let busiest = json!({
        "name": "paid-team", "class": 1, "capacity": 100, "weight": 3.0,
        "queue_depth": 3, "in_flight": 1, "refused": 0,
        "waiting": { "best_effort": 1, "normal": 0, "high": 2, "critical": 0 },
    });
    assert_eq!(shown["flows"][0], busiest);
    assert_eq!(shown["flows"][1]["name"], "small");
    assert_eq!(shown["truncated"], 0);
}

#[test]
fn flows_beyond_a_thousand_are_counted_not_listed() {
    let state = state(Settings { total_capacity: 5000, ..limited_to(1.0) });
    supply(&state, false);
    for number in 0..1500 {
        send(&state, &format!("flow-{number}"), Band::Normal);
    }
    (0..50).for_each(|_| _ = send(&state, "flow-1499", Band::Normal));
    let shown = page(&state, AdminPage::Flows);
    assert_eq!(shown["flows"].as_array().unwrap().len(), 1000);
    assert_eq!(shown["truncated"], 500);
    assert_eq!(shown["flows"][0]["name"], "flow-1499");
    assert_eq!(shown["flows"][0]["queue_depth"], 51);
    let status = page(&state, AdminPage::Status);
    assert_eq!(status["flows"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&status["flows_left_out"], &status["queue"]["flows"]),
        (&1400.into(), &1500.into())
    );
    assert_eq!(status["flows"][0]["name"], "flow-1499");
}

/// W02, W04: total, active and rate of each workload, and at most a thousand entries.
#[test]
fn w02_workloads_are_shown_and_bounded() {
    let state = state(Settings { total_capacity: 5000, ..limited_to(1.0) });
    supply(&state, false);
    let arrive = |name: &str| {
        state.scheduler.with(|core, now| {
            let mut ask = Ask::new(core.flow(name, 0), MODEL);
            ask.workload.id = core.workload(name, now);
            core.offer(ask, now)
        })
    };
    (0..1200).for_each(|number| _ = arrive(&format!("job-{number}")));
    (0..59).for_each(|_| _ = arrive("job-7"));
    let shown = page(&state, AdminPage::Workloads);
    let first = &shown["workloads"][0];
    assert_eq!(first["workload_id"], "job-7");
    assert_eq!((&first["total"], &first["active"]), (&json!(60), &json!(60)));
    assert_eq!(first["rate_per_second"], 1.0, "sixty in a window of sixty seconds");
    assert!(first["last_seen_ms"].as_u64().unwrap() < 60_000);
    assert_eq!(shown["workloads"].as_array().unwrap().len(), 1000);
    assert_eq!(shown["truncated"], 200);
}

#[test]
fn health_responds_in_every_state_with_the_queue() {
    let state = state(limited_to(1.0));
    assert_eq!(page(&state, AdminPage::Health)["status"], "no_backend_ready");
    supply(&state, true);
    for band in [Band::Normal, Band::Normal, Band::Critical] {
        send(&state, "a", band);
    }
    let shown = page(&state, AdminPage::Health);
    assert_eq!(shown["status"], "ok");
    assert_eq!(shown["tidegate"], "tide-1");
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert!(shown["uptime_seconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(shown["backends"], json!({ "ready": 1, "total": 1 }));
    let queue = json!({
        "depth": 2, "capacity": 1000, "flow_capacity": 100, "in_flight": 1,
        "waiting": { "best_effort": 0, "normal": 1, "high": 0, "critical": 1 },
        "headroom": { "best_effort": 998, "normal": 998, "high": 999, "critical": 999 },
    });
    assert_eq!(shown["queue"], queue);
    let closing = respond(&state, AdminPage::Health, Standing { shutting_down: true, ..STANDING });
    assert_eq!(closing.status(), StatusCode::OK);
}

#[test]
fn ready_fails_before_the_first_backend_and_after_the_last_day() {
    let state = state(limited_to(1.0));
    assert_eq!(ready(&state, STANDING).0, StatusCode::SERVICE_UNAVAILABLE);
    supply(&state, true);
    assert_eq!(ready(&state, STANDING), (StatusCode::OK, "ok".into()));
    let closing = ready(&state, Standing { shutting_down: true, ..STANDING });
    assert_eq!(closing, (StatusCode::SERVICE_UNAVAILABLE, "shutting down".into()));
}

/// C11: by option a full queue makes the gateway unready, judged by the normal band.
#[test]
fn c11_ready_fails_while_saturated_where_that_is_wanted() {
    let state = state(Settings { total_capacity: 2, ..limited_to(1.0) });
    supply(&state, true);
    let mut config = Config::default();
    for band in [Band::Normal, Band::BestEffort, Band::Normal] {
        send(&state, "a", band);
    }
    assert_eq!(ready(&state, STANDING).0, StatusCode::OK);
    config.admin.ready_fails_when_saturated = true;
    state.config.store(Arc::new(config));
    assert_eq!(ready(&state, STANDING).0, StatusCode::OK, "a normal one may take a place");
    send(&state, "a", Band::Normal);
    assert_eq!(ready(&state, STANDING).0, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn metrics_are_served_as_text_that_prometheus_knows() {
    let state = state(Settings::default());
    let response = respond(&state, AdminPage::Metrics, STANDING);
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let body = body(response);
    assert!(std::str::from_utf8(&body).unwrap().contains("\nnexus_queue_depth 0\n"));
}

#[test]
fn m03_the_time_of_a_whole_response_is_that_of_the_last_ones() {
    use crate::observe::tests::served;
    let observer = Observer::default();
    let mut account = RequestCounters::default();
    observer.attempt("gpu-a", Attempt::Answered, &mut account);
    let mut record = served("chat", "chat");
    let responded = |millis: u64, record: &mut crate::observe::Record| {
        record.at_backend = Span::from_millis(millis);
        observer.ended(record, &account);
        account.responded(record, Time::from_millis(9000));
    };
    (0..50).for_each(|_| responded(500, &mut record));
    (0..20).for_each(|_| responded(4500, &mut record));
    record.status = 502;
    (0..20).for_each(|_| responded(1, &mut record));
    let now = observer.latency_now("gpu-a", Time::from_millis(10_000)).unwrap();
    assert_eq!(now.taken, Span::from_millis(4500), "a failure is not a response");
    assert!(observer.latency_ms("gpu-a").unwrap() < 4000.0, "the mean comes later");
    assert_eq!(observer.latency_now("gpu-a", Time::from_millis(200_000)), None);
}
