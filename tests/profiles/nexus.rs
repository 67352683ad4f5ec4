//! G01: request queuing and prioritization in Nexus.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::backend;
use crate::support::gateway::{CONFIGURED, ONE};
use crate::support::queueing::succeed;
use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// The section of `nexus.toml`, with these limits.
fn queue(max_size: u32, max_wait_seconds: u32) -> String {
    let limits = format!("max_size = {max_size}\nmax_wait_seconds = {max_wait_seconds}\n");
    format!("[queue]\nenabled = true\n{limits}{ONE}")
}

fn high(model: &str) -> HttpRequest {
    chat(model).header("X-Nexus-Priority", "HiGh")
}

/// The response of a request that has waited for this long.
fn timed_out(seconds: u32) -> serde_json::Value {
    json!({"error": {
        "message": format!("Request timed out after {seconds}s in queue"),
        "type": "service_unavailable",
        "code": "queue_timeout",
    }})
}

/// Stories 1 and 2, assumption 7: high before normal, and each in the order of arrival over all
/// models, whatever clients want.
#[test]
fn g01_q05_high_goes_before_normal_and_each_in_the_order_of_arrival() {
    let server = Backend::held();
    let served = backend(server.address(), &["a", "b"]);
    let gateway = Gateway::start(&format!("{}{served}", queue(100, 30)));
    let mut calls = vec![gateway.send(&chat("a").tag("running"))];
    server.await_running(1);
    let asks = [
        chat("a").tag("batch").priority("best_effort"),
        chat("a").tag("n1"),
        chat("a").tag("n2").header("x-slo-ttft-ms", "60000"),
        chat("b").tag("n3").header("x-slo-ttft-ms", "1"),
        high("a").tag("h1"),
        high("a").tag("h2"),
        high("b").tag("h3"),
        chat("a").tag("n4").header("X-Nexus-Priority", "urgent"),
        chat("a").tag("n5").priority("critical").with("service_tier", "flex"),
        chat("a").tag("n6").priority("asap"),
    ];
    for (others, ask) in asks.iter().enumerate() {
        calls.push(gateway.enqueue(ask, others));
    }
    assert_eq!(gateway.depth(), 10);
    // The value that its own header has wrong, and not that of a header that means nothing.
    assert_eq!(gateway.metrics().sum("tidegate_unknown_priorities_total"), 1.0);
    let log = gateway.process.await_log("names no band", 1);
    assert!(log.contains("x-nexus-priority") && log.contains("urgent"), "{log}");
    server.open();
    succeed(calls);
    let order = ["running", "h1", "h2", "h3", "n1", "n2", "n3", "n4", "n5", "n6", "batch"];
    assert_eq!(server.tags(), order, "batch work, which the document does not have, is last");
}

/// FR-006 and the first edge case: a full queue refuses, also a request of high priority, and its
/// depth stays.
#[test]
fn g01_n03_a_full_queue_refuses_high_requests_too_and_evicts_none() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&queue(2, 30), &backend, &chat("m"));
    let mut calls = vec![running, gateway.enqueue(&chat("m"), 0), gateway.enqueue(&chat("m"), 1)];
    for ask in [chat("m"), high("m"), chat("m").priority("critical")] {
        let refused = gateway.ask(&ask);
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(refused.text().contains("max_size"), "{}", refused.text());
        assert!(refused.retry_after() >= 1);
        assert_eq!(gateway.depth(), 2);
    }
    backend.release(1);
    backend.await_seen(2);
    calls.push(gateway.enqueue(&high("m"), 1));
    backend.open();
    succeed(calls);
}

/// Story 3: the time to wait, and the response after it to the letter.
#[test]
fn g01_n02_a_timeout_has_the_response_of_the_document() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 1), &backend, &chat("m"));
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.header("content-type")), (503, Some("application/json")));
    assert!(answer.retry_after() >= 1);
    assert_eq!(answer.json(), timed_out(1));
    assert_eq!(answer.json().as_object().unwrap().len(), 1);
}

/// The same if no backend has the model, however long Tidegate itself would hold the request.
#[test]
fn g01_n02_a_request_without_a_backend_waits_no_longer() {
    let limits = "[queue]\nenabled = true\nmax_size = 100\nmax_wait_seconds = 1\n";
    let gateway = Gateway::launch(&format!("{limits}{CONFIGURED}"));
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.json()), (503, timed_out(1)));
}

/// The last edge case: the request is dropped with a warning.
#[test]
fn g01_n09_a_client_that_leaves_while_it_waits_is_a_warning() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&queue(100, 30), &backend, &chat("m"));
    drop(gateway.enqueue(&chat("m").header("X-Request-Id", "leaver"), 0));
    let log = gateway.process.await_log("a client left", 1);
    let line = log.lines().find(|line| line.contains("a client left")).unwrap();
    assert!(line.contains("WARN") && line.contains("leaver"), "{line}");
    backend.open();
    succeed([running]);
}

/// Also those that are written before a request is read.
#[test]
fn g01_no_error_has_a_param() {
    let backend = Backend::quick();
    let gateway = Gateway::before(&queue(100, 1), &backend);
    let foreign = chat("m").header("origin", "https://attacker.example");
    let no_model = HttpRequest::get("/v1/models/none");
    let no_batch = HttpRequest::get("/v1/batches/none");
    for (ask, status) in
        [(HttpRequest::get("/none"), 404), (foreign, 403), (no_model, 404), (no_batch, 404)]
    {
        let answer = gateway.ask(&ask);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.json()["error"].get("param").is_none(), "{}", answer.text());
    }
}

/// Nor has one inside a stream, which tells no cause of a timeout either.
#[test]
fn g01_no_error_in_a_stream_has_a_param() {
    let told = |ask: HttpRequest| ask.streamed().header("X-Queue-Status", "sse");
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "broken" => ScriptedResponse::stream_begun("tide").then(Step::Close),
        "running" => ScriptedResponse::json(500, "{}").held(),
        _ => ScriptedResponse::json(500, "{}"),
    });
    let gateway = Gateway::before(&queue(100, 2), &backend);
    let broken = gateway.send(&chat("m").tag("broken").streamed()).read_until_cut();
    let (_, broken) = broken.rsplit_once("data: ").unwrap();
    let running = gateway.send(&chat("m").tag("running"));
    backend.await_running(1);
    let late = gateway.enqueue(&told(chat("m")), 0);
    backend.open();
    let late = late.finish().text();
    let (_, late) = late.split_once("event: error\ndata: ").unwrap();
    assert_eq!(parsed(late), timed_out(2));
    let broken = parsed(broken);
    assert_eq!(broken["error"]["code"], "backend_error");
    assert!(broken["error"].get("param").is_none(), "{broken}");
    assert!(running.finish().status >= 500);
}

fn parsed(event: &str) -> serde_json::Value {
    serde_json::from_str(event.trim()).unwrap()
}

/// FR-009, SC-010: a request whose backend fails waits again until its time is over, and is served
/// as soon as the backend is well.
#[test]
fn g01_n05_a_failing_request_is_tried_again_until_it_succeeds() {
    let backend = Backend::start(|seen| match seen.number {
        0..6 => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&queue(100, 30), &backend);
    let answer = gateway.ask(&chat("m").tag("patient"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(backend.tags(), ["patient"; 7]);
}

/// FR-005 after an outage: high requests that have failed go before normal ones that have not.
#[test]
fn g01_n05_after_an_outage_high_requests_go_first_although_they_have_failed() {
    let (over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(String::new())));
    let (ended, serves) = (Arc::clone(&over), Arc::clone(&served));
    let backend = Backend::start(move |seen| {
        if !ended.load(Ordering::SeqCst) {
            return ScriptedResponse::json(500, "{}");
        }
        serves.lock().unwrap().push_str(&seen.tag());
        ScriptedResponse::ok()
    });
    // A health check that passes would end the ejection.
    let sections = format!("[health]\ninterval = \"1h\"\n{}", queue(100, 30));
    let gateway = Gateway::before(&sections, &backend);
    let mut calls: Vec<_> = (0..3).map(|_| gateway.send(&high("m").tag("h"))).collect();
    eventually("ejected", || match gateway.backend("one")["state"].as_str() {
        Some("ejected") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    calls.extend((3..6).map(|others| gateway.enqueue(&chat("m").tag("n"), others)));
    over.store(true, Ordering::SeqCst);
    succeed(calls);
    assert_eq!(*served.lock().unwrap(), "hhhnnn");
}

/// FR-005, FR-013: between the attempts of a high request at a backend that serves others, normal
/// ones go for as long as the queue of the document rests.
#[test]
fn g01_n05_a_high_request_that_fails_is_back_before_many_normal_ones_have_gone() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "h" if counted.fetch_add(1, Ordering::SeqCst) < 9 => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok().after_ms(30),
    });
    let gateway = Gateway::before(&queue(100, 30), &backend);
    let failing = gateway.send(&high("m").tag("h"));
    while attempts.load(Ordering::SeqCst) < 10 {
        assert_eq!(gateway.ask(&chat("m").tag("n")).status, 200);
    }
    succeed([failing]);
    // Two fit into a pause, and one is there at its end.
    let normal = backend.tags().iter().filter(|tag| *tag == "n").count();
    assert!(normal <= 9 * 3 + 1, "{normal} normal requests passed");
}

/// The same edge case: also a request that a full backend refuses goes to the back.
#[test]
fn g01_n05_a_refused_request_goes_to_the_back_of_its_queue() {
    let backend = Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::json(503, "{}").held(),
        _ => ScriptedResponse::ok(),
    });
    let (gateway, first) = Gateway::occupied(&queue(100, 30), &backend, &chat("m").tag("a"));
    let second = gateway.enqueue(&chat("m").tag("b"), 0);
    backend.open();
    succeed([first, second]);
    assert_eq!(backend.tags(), ["a", "b", "a"]);
}

/// The same edge case: if its time is over, it gets the response of a timeout.
#[test]
fn g01_n05_a_request_that_fails_to_the_end_has_timed_out() {
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    let gateway = Gateway::before(&queue(100, 2), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.json()), (503, timed_out(2)));
    assert!(backend.seen().len() > 3, "{}", backend.seen().len());
}

/// The edge case of a disabled queue, in both ways.
#[test]
fn g01_c08_a_disabled_queue_refuses_what_would_wait() {
    for section in ["enabled = false\nmax_size = 100\n", "max_size = 0\n"] {
        let backend = Backend::held();
        let config = format!("[queue]\n{section}{ONE}");
        let (gateway, running) = Gateway::occupied(&config, &backend, &chat("m"));
        gateway.ask(&high("m")).refused(503, "queue_disabled");
        backend.open();
        succeed([running]);
    }
}
