//! G01: the Inference Gateway's queuing proposal.

use serde_json::json;

use super::backend;
use crate::support::gateway::{CONFIGURED, config};
use crate::support::queueing::{check_fair_share, succeed};
use crate::support::{Backend, Gateway, HttpRequest, Metrics, chat, eventually};

/// One request at a time, in the keys of the proposal.
const ONE: &str = "[request_queue_controller]\nwatermark_per_backend = 1\n\
    lower_bound_per_backend = 1\nupper_bound_per_backend = 1\n";

fn critical(model: &str) -> HttpRequest {
    chat(model).priority("critical")
}

/// A critical question about a long document.
fn about(document: &str, tag: &str) -> HttpRequest {
    let text = format!("{document} ").repeat(2000);
    let user = json!({"role": "user", "content": tag});
    let messages = json!([{"role": "system", "content": text}, user]);
    critical("m").with("messages", messages).tag(tag)
}

/// A value of a family that is told apart by both names of a model.
fn of_model(metrics: &Metrics, name: &str, model: &str) -> f64 {
    let labels = format!("model=\"{model}\",targetModel=\"{model}\"");
    assert!(metrics.has_where(name, &labels), "{name}{{{labels}}}");
    metrics.sum_where(name, &labels)
}

/// Request lifecycle 1 to 8, dynamic stock management, and the metrics of both.
#[test]
fn g01_c03_c05_a_request_passes_waits_or_is_refused_as_the_proposal_says() {
    let backend = Backend::held();
    let gateway = Gateway::before("[fair_request_queue]\nqueue_ttl = \"90s\"\n", &backend);
    let metrics = gateway.metrics();
    let bounds = ["lower_bound", "watermark", "upper_bound"].map(|name| metrics.sum(name));
    assert_eq!(bounds, [1.8, 2.0, 2.2]);
    let mut calls = Vec::new();
    for running in 1..=3 {
        calls.push(gateway.send(&chat("m")));
        backend.await_running(running);
    }
    gateway.ask(&chat("m")).refused(503, "not_critical");
    calls.push(gateway.enqueue(&critical("m"), 0));
    gateway.ask(&chat("m").priority("high")).refused(503, "not_critical");
    let metrics = gateway.metrics();
    let counts = ["queue_length", "stock_level"];
    assert_eq!(counts.map(|name| of_model(&metrics, name, "m")), [1.0, 3.0]);
    assert_eq!(metrics.sum("active_flows"), 1.0);
    backend.release(1);
    gateway.await_metrics("settled", |metrics| match of_model(metrics, "stock_level", "m") {
        2.0 => Ok(()),
        found => Err(found.to_string()),
    });
    assert_eq!((gateway.depth(), backend.seen().len()), (1, 3), "two is not below 1.8");
    backend.release(1);
    backend.await_seen(4);
    let metrics = gateway.metrics();
    let attempts = ["popper_dequeue_attempts", "popper_dequeue_successes"];
    assert_eq!(attempts.map(|name| metrics.sum(name)), [1.0, 1.0]);
    backend.open();
    succeed(calls);
    gateway.await_metrics("counted", |metrics| {
        let waits = metrics.sum_where("queue_latency_seconds_count", "success=\"true\"");
        let found = (waits, of_model(metrics, "bypass_rate", "m"));
        if found == (1.0, 3.0) { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

/// Invariant 1: first in, first out within a flow, whatever is cached and whatever clients want.
#[test]
fn g01_q05_a_flow_is_served_first_come_first_served() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &about("tide", "first"));
    let mut calls = vec![running];
    let cold = about("moon", "cold");
    let warm = about("tide", "warm");
    let hurried = about("tide", "hurried").header("x-slo-ttft-ms", "1");
    for (others, ask) in [cold, warm, hurried].into_iter().enumerate() {
        calls.push(gateway.enqueue(&ask, others));
    }
    backend.open();
    succeed(calls);
    assert_eq!(backend.tags(), ["first", "cold", "warm", "hurried"]);
}

/// Weighted fair queuing: each model has its share, however many requests another one has.
#[test]
fn g01_q02_models_share_by_weighted_fair_queuing() {
    let server = Backend::held();
    let models = ["loud", "quiet"];
    let gateway = Gateway::start(&format!("{ONE}{}", backend(server.address(), &models)));
    let running = gateway.send(&critical("loud").tag("loud"));
    server.await_running(1);
    check_fair_share(&gateway, &server, running, |model, _| critical(model));
}

/// Invariant 3 and the table of errors: the total keeps out new flows only, a flow has its own
/// limit, and no request that waits loses its place.
#[test]
fn g01_q07_c09_the_limits_of_the_queue_are_those_of_the_proposal() {
    let server = Backend::held();
    let limits = "[fair_request_queue]\ntotal_capacity = 2\nflow_capacity = 2\n";
    let served = backend(server.address(), &["a", "b", "c"]);
    let gateway = Gateway::start(&format!("{limits}{ONE}{served}"));
    let mut calls = vec![gateway.send(&critical("a"))];
    server.await_running(1);
    calls.push(gateway.enqueue(&critical("a"), 0));
    calls.push(gateway.enqueue(&critical("b"), 1));
    gateway.ask(&critical("c")).refused(503, "too_many_flows");
    calls.push(gateway.enqueue(&critical("b"), 2));
    gateway.ask(&critical("b")).refused(503, "flow_full");
    let metrics = gateway.metrics();
    let errors = |error: &str| metrics.sum_where("queue_push_errors", error);
    assert_eq!((errors("ErrTooManyFlows"), errors("ErrInsufficientFlowCapacity")), (1.0, 1.0));
    server.open();
    succeed(calls);
}

/// Invariant 4 and the timeouts: 503 by the time to live, 504 by the client's deadline, and 499 for
/// one that leaves.
#[test]
fn g01_q08_c09_a_wait_ends_as_the_proposal_says() {
    let backend = Backend::held();
    let ttl = "[fair_request_queue]\nqueue_ttl = \"4s\"\n";
    let (gateway, running) = Gateway::occupied(&format!("{ttl}{ONE}"), &backend, &critical("m"));
    gateway.ask(&critical("m")).refused(503, "queue_timeout");
    let late = gateway.ask(&critical("m").header("X-Request-Timeout-Ms", "50"));
    assert_eq!((late.status, late.code().as_str()), (504, "deadline_exceeded"));
    drop(gateway.enqueue(&critical("m").header("X-Request-Id", "leaver"), 0));
    gateway.await_metrics("cancelled", |metrics| {
        let counts = ["requests_expired", "requests_cancelled"];
        let found = counts.map(|name| of_model(metrics, name, "m"));
        if found == [1.0, 2.0] { Ok(()) } else { Err(format!("{found:?}")) }
    });
    eventually("logged", || match gateway.process.access() {
        log if log.lines().any(|line| line.contains("leaver") && line.contains("499")) => Ok(()),
        log => Err(log),
    });
    // A client that leaves a backend has not left the queue.
    drop(running);
    gateway.await_metrics("left", |metrics| {
        match metrics.sum_where("tidegate_requests_cancelled_total", "in_flight") {
            1.0 => Ok(()),
            found => Err(found.to_string()),
        }
    });
    assert_eq!(of_model(&gateway.metrics(), "requests_cancelled", "m"), 2.0);
}

/// "You can disable queueing entirely and the Inference Extension will still work."
#[test]
fn g01_c08_without_a_queue_every_request_passes() {
    for off in ["enabled = false", "total_capacity = 0"] {
        let backend = Backend::held();
        let gateway = Gateway::before(&format!("[fair_request_queue]\n{off}\n{ONE}"), &backend);
        let calls: Vec<_> = (1..=5)
            .map(|running| {
                let call = gateway.send(&chat("m"));
                backend.await_running(running);
                call
            })
            .collect();
        backend.open();
        succeed(calls);
    }
}

/// A refusal does not call a backend busy that is not ready.
#[test]
fn g01_c09_a_refusal_says_whether_a_backend_is_ready() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &critical("m"));
    let busy = gateway.ask(&chat("m"));
    busy.refused(503, "not_critical");
    assert!(busy.text().contains("All backends are busy"), "{}", busy.text());
    backend.open();
    succeed([running]);
    backend.stop();
    eventually("unready", || match gateway.ask(&chat("m")) {
        answer if answer.text().contains("No backend is ready") => Ok(answer.code()),
        answer => Err(answer.text()),
    });
    let off = Gateway::launch(&config("[queue]\nenabled = false\n", &[("one", backend.address())]));
    let answer = off.ask(&chat("m"));
    answer.refused(503, "queue_disabled");
    assert!(answer.text().contains("No backend is ready"), "{}", answer.text());
}

/// No request waits longer than its time to live because its model has no backend.
#[test]
fn g01_q08_a_request_without_a_backend_waits_no_longer() {
    let ttl = "[fair_request_queue]\nqueue_ttl = \"1s\"\n";
    let gateway = Gateway::launch(&format!("{ttl}{CONFIGURED}"));
    gateway.ask(&critical("m")).refused(503, "queue_timeout");
}

/// Nor are fewer let in, and none loses its place to a higher band.
#[test]
fn g01_q07_without_a_backend_the_queue_has_its_usual_limits() {
    for (queue, own, higher) in [
        ("[fair_request_queue]\nflow_capacity = 102\n", "critical", "critical"),
        ("[queue]\nmax_size = 102\n", "normal", "high"),
    ] {
        let gateway = Gateway::launch(&format!("{queue}{CONFIGURED}"));
        let ask = |band: &str| chat("m").priority(band).header("X-Nexus-Priority", band);
        let calls: Vec<_> = (0..101).map(|_| gateway.send(&ask(own))).collect();
        gateway.await_depth(101);
        let last = gateway.send(&ask(higher));
        gateway.await_depth(102);
        let refused = gateway.ask(&ask(higher));
        assert_eq!((refused.status, refused.code() == "no_backend"), (503, false));
        let server = Backend::quick();
        gateway.list(&[&server]);
        succeed(calls.into_iter().chain([last]));
    }
}

/// The wait of a client that leaves counts as long as it was.
#[test]
fn g01_m01_the_wait_of_a_client_that_leaves_is_in_the_latency_and_in_the_log() {
    let backend = Backend::held();
    let log = "[log]\nformat = \"json\"\n";
    let (gateway, running) = Gateway::occupied(&format!("{log}{ONE}"), &backend, &critical("m"));
    let leaver = gateway.enqueue(&critical("m").header("X-Request-Id", "leaver"), 0);
    let waited = gateway.get("/requests/leaver").json()["age_seconds"].as_f64().unwrap();
    drop(leaver);
    gateway.await_metrics("counted", |metrics| {
        let at = |name: &str| metrics.sum_where(name, "success=\"false\"");
        let found = ["count", "sum"].map(|part| at(&format!("queue_latency_seconds_{part}")));
        if found[0] == 1.0 && found[1] >= waited { Ok(()) } else { Err(format!("{found:?}")) }
    });
    let line = gateway.access_of("leaver");
    assert!(line["wait_ms"].as_f64().unwrap() >= 1e3 * waited, "{line}");
    backend.open();
    succeed([running]);
}
