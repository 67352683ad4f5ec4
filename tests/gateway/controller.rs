//! C: how many requests are at the backends at once, and what happens to the others.

use std::time::Duration;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, Nowhere, ScriptedResponse, chat, queueing};

fn stock(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("tidegate_stock_level")
}

#[test]
fn c01_stock_counts_sent_requests_until_they_end_in_any_way() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "fails" => ScriptedResponse::json(400, "{}").held(),
        "dies" => ScriptedResponse::stream_begun("a").then(Step::Hold).then(Step::Reset),
        "streams" => ScriptedResponse::stream_held(&["a", "b"]),
        _ => ScriptedResponse::ok().held(),
    });
    let gateway = Gateway::before("[controller]\nwatermark_per_backend = 10\n", &backend);
    let tags = ["succeeds", "fails", "dies", "streams", "leaves"];
    let mut calls = Vec::new();
    for (count, tag) in tags.into_iter().enumerate() {
        calls.push(gateway.send(&chat("m").tag(tag)));
        backend.await_running(count + 1);
        assert_eq!(stock(&gateway), (count + 1) as f64);
    }
    drop(calls.pop());
    backend.await_left(1);
    gateway.await_metrics("settled", |metrics| {
        let stock = metrics.sum("tidegate_stock_level");
        if stock == 4.0 { Ok(()) } else { Err(stock.to_string()) }
    });
    backend.open();
    let ends: Vec<_> = calls.into_iter().map(|mut call| call.answer()).collect();
    assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 1, "the stream that died");
    gateway.await_idle();
}

#[test]
fn c02_and_c03_bypass_fills_to_three_and_refill_to_two() {
    let backend = Backend::held();
    let sections = "[controller]\nwatermark_per_backend = 2\n";
    queueing::check_bypass_and_refill(&Gateway::before(sections, &backend), &backend);
}

#[test]
fn c04_each_completion_releases_the_next_at_once() {
    let backend = Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::ok(),
    });
    let (gateway, running) =
        Gateway::occupied(&format!("[queue]\nmax_size = 1000\n{ONE}"), &backend, &chat("m"));
    let mut calls = vec![running];
    calls.extend((0..400).map(|_| gateway.send(&chat("m"))));
    gateway.await_depth(400);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.most(), 1);
    // The requests go one after another. Polling would separate all of them by its interval, of
    // which the sources' shortest is 10 ms. A busy machine may delay many of them, but not all.
    let arrivals: Vec<_> = backend.seen().iter().map(|seen| seen.at).collect();
    let mut gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    assert!(gaps[100] < Duration::from_millis(8), "a quarter takes {:?} and less", gaps[100]);
}

#[test]
fn c05_critical_only_refuses_requests_that_would_wait() {
    let backend = Backend::held();
    let sections = format!("[queue]\nadmission = \"critical-only\"\n{ONE}");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    queueing::check_critical_only(&gateway, &backend, running);
}

#[test]
fn c07_one_model_never_blocks_another() {
    let (slow, quick) = (Backend::held(), Backend::quick());
    let gateway = Gateway::start(&queueing::config_of_two_models(ONE, &slow, &quick));
    queueing::check_models_do_not_block(&gateway, &slow);
}

#[test]
fn c07_without_a_ready_backend_requests_wait_for_the_first() {
    let nowhere = Nowhere::reserve();
    let gateway = Gateway::launch(&config(TWO, &[("one", nowhere.address())]));
    queueing::check_wait_for_the_first_backend(&gateway, nowhere);
}

#[test]
fn c07_without_a_ready_backend_the_time_to_live_still_ends_the_wait() {
    let section = "[queue]\nqueue_ttl = \"1s\"\n";
    let nowhere = Nowhere::reserve();
    let gateway = Gateway::launch(&config(section, &[("one", nowhere.address())]));
    gateway.ask(&chat("m")).refused(503, "queue_timeout");
    gateway.await_depth(0);
}

#[test]
fn c09_every_refusal_has_its_own_code() {
    let backend = Backend::held();
    let section = "[queue]\ntotal_capacity = 3\nflow_capacity = 2\nqueue_ttl = \"2s\"\n\
        flow_by = [\"header:x-team\"]\n";
    let gateway = Gateway::before(&format!("{section}{ONE}"), &backend);
    let team = |team: &str| chat("m").header("x-team", team);
    let running = gateway.send(&team("a"));
    backend.await_running(1);
    let late = gateway.ask(&team("a").header("X-Request-Timeout-Ms", "50"));
    assert_eq!((late.status, late.code().as_str()), (504, "deadline_exceeded"));
    let mut waiting = vec![gateway.enqueue(&team("a"), 0), gateway.enqueue(&team("a"), 1)];
    gateway.ask(&team("a")).refused(503, "flow_full");
    waiting.push(gateway.enqueue(&team("b"), 2));
    gateway.ask(&team("c")).refused(503, "too_many_flows");
    gateway.ask(&team("b")).refused(503, "queue_full");
    let unknown = gateway.ask(&chat("nobody-has-it"));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "model_not_found"));
    for call in waiting {
        call.finish().refused(503, "queue_timeout");
    }
    drop(running);
    backend.await_left(1);
    gateway.await_idle();
    let log = || match gateway.process.access() {
        log if log.contains("client_closed") && log.contains("499") => Ok(()),
        log => Err(log),
    };
    crate::support::eventually("logged", log);
}

#[test]
fn c09_the_clients_deadline_ends_a_response_that_has_not_begun() {
    let backend = Backend::held();
    let gateway = Gateway::before(ONE, &backend);
    let late = gateway.ask(&chat("m").header("X-Request-Timeout-Ms", "100"));
    assert_eq!((late.status, late.code().as_str()), (504, "deadline_exceeded"));
    backend.await_left(1);
    gateway.await_idle();
}

/// Nothing shows how many requests the backend can run: it has no metrics, and its responses do not
/// stream. Without the key it gets a few that are presumed to have started.
#[test]
fn c10_a_backend_of_which_nothing_is_seen_gets_as_many_requests_as_it_has_places() {
    let backend = Backend::held();
    let gateway = Gateway::start(&(config("", &[("one", backend.address())]) + "places = 8\n"));
    let calls: Vec<_> = (0..20).map(|_| gateway.send(&chat("m"))).collect();
    backend.await_running(8);
    gateway.await_depth(12);
    assert_eq!(gateway.get("/backends").json()[0]["limits"]["watermark"], 8);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.most(), 8);
}

#[test]
fn q01_flows_share_fairly_by_the_configured_header() {
    let backend = Backend::held();
    let sections = format!("[queue]\nflow_by = [\"header:x-team\"]\n{ONE}");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m").tag("first"));
    let ask = |team: &str, _| chat("m").header("x-team", team);
    queueing::check_fair_share(&gateway, &backend, running, ask);
}
