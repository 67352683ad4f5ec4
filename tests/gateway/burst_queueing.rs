//! N: the acceptance scenarios of request queueing in Nexus; `n_s1_2` is scenario 2 of story 1.

use std::thread;
use std::time::Duration;

use crate::support::gateway::ONE;
use crate::support::{Backend, Gateway, ScriptedResponse, Stopwatch, chat};

/// A queue section in the source's form.
fn queue(max_size: u32, max_wait_seconds: u32) -> String {
    let sizes = format!("max_size = {max_size}\nmax_wait_seconds = {max_wait_seconds}");
    format!("[queue]\nenabled = true\n{sizes}\n{ONE}")
}

fn waiting_in(gateway: &Gateway, band: &str) -> f64 {
    let band = format!("band=\"{band}\"");
    gateway.metrics().sum_where("tidegate_queue_length", &band)
}

#[test]
fn n_s1_1_a_request_beyond_capacity_waits_and_is_served() {
    let backend = Backend::held();
    let (gateway, first) = Gateway::occupied(&queue(100, 30), &backend, &chat("m").tag("first"));
    let second = gateway.enqueue(&chat("m").tag("second"), 0);
    assert_eq!(backend.running(), 1);
    backend.release(1);
    assert_eq!(first.finish().status, 200);
    backend.await_seen(2);
    backend.release(1);
    let second = second.finish();
    assert_eq!(second.status, 200, "{}", second.text());
    assert_eq!(backend.tags(), ["first", "second"]);
    gateway.await_idle();
}

#[test]
fn n_s1_2_with_capacity_to_spare_the_queue_is_passed_by() {
    let backend = Backend::quick();
    let gateway = Gateway::before(&queue(100, 30), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.header("x-queue-wait-ms")), (200, Some("0")));
    let metrics = gateway.metrics();
    let offers = |result: &str| metrics.sum_where("tidegate_offers_total", result);
    assert_eq!((offers("bypassed"), offers("queued")), (1.0, 0.0));
}

#[test]
fn n_s1_3_when_room_comes_high_goes_first_and_then_normal() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(&queue(100, 30), &backend, &chat("m").tag("running"));
    let mut calls = vec![running];
    for (others, (tag, priority)) in
        [("n1", "normal"), ("n2", "normal"), ("h1", "high"), ("h2", "high")].into_iter().enumerate()
    {
        let ask = chat("m").tag(tag).header("X-Nexus-Priority", priority);
        calls.push(gateway.enqueue(&ask, others));
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags(), ["running", "h1", "h2", "n1", "n2"]);
}

#[test]
fn n_s2_1_the_next_one_taken_is_always_a_high_one() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(&queue(100, 30), &backend, &chat("m").tag("running"));
    let mut calls = vec![running];
    calls.push(gateway.enqueue(&chat("m").tag("normal"), 0));
    for number in 0..3 {
        let high = chat("m").tag("high").header("X-Nexus-Priority", "high");
        calls.push(gateway.enqueue(&high, 1));
        backend.release(1);
        backend.await_seen(number + 2);
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags(), ["running", "high", "high", "high", "normal"]);
}

#[test]
fn n_s2_2_the_header_puts_a_request_into_the_high_queue() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 30), &backend, &chat("m"));
    let _high = gateway.enqueue(&chat("m").header("X-Nexus-Priority", "high"), 0);
    assert_eq!((waiting_in(&gateway, "high"), waiting_in(&gateway, "normal")), (1.0, 0.0));
}

#[test]
fn n_s2_3_without_a_known_value_a_request_is_normal() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 30), &backend, &chat("m"));
    let _without = gateway.enqueue(&chat("m"), 0);
    let values = ["urgent", "", "1", "critical", "\u{e9}"];
    let mut calls = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        calls.push(gateway.enqueue(&chat("m").header("X-Nexus-Priority", value), index + 1));
    }
    assert_eq!(waiting_in(&gateway, "normal"), 6.0);
}

#[test]
fn n_s2_4_normal_can_be_said_outright() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 30), &backend, &chat("m"));
    let _normal = gateway.enqueue(&chat("m").header("X-Nexus-Priority", "normal"), 0);
    assert_eq!((waiting_in(&gateway, "normal"), waiting_in(&gateway, "high")), (1.0, 0.0));
}

#[test]
fn n_s3_1_and_n02_a_wait_that_is_too_long_ends_with_the_response_of_the_source() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 1), &backend, &chat("m"));
    let watch = Stopwatch::start();
    let answer = gateway.ask(&chat("m"));
    assert!(watch.elapsed() >= Duration::from_secs(1), "{:?}", watch.elapsed());
    answer.refused(503, "queue_timeout");
    let error = &answer.json()["error"];
    assert_eq!(error["message"], "Request timed out after 1s in queue");
    assert_eq!(error["type"], "service_unavailable");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn n_s3_2_a_request_that_was_taken_in_time_may_take_its_time() {
    let backend = Backend::held();
    let (gateway, first) = Gateway::occupied(&queue(100, 1), &backend, &chat("m").tag("first"));
    let second = gateway.enqueue(&chat("m").tag("second"), 0);
    backend.release(1);
    assert_eq!(first.finish().status, 200);
    backend.await_seen(2);
    // The third request came after the second. When the third has expired, so has the second.
    gateway.ask(&chat("m").tag("third")).refused(503, "queue_timeout");
    backend.release(1);
    assert_eq!(second.finish().status, 200);
    assert_eq!(backend.tags(), ["first", "second"]);
}

#[test]
fn n_s3_3_the_time_to_wait_is_the_configured_one() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 2), &backend, &chat("m"));
    let watch = Stopwatch::start();
    let answer = gateway.ask(&chat("m").streamed());
    let waited = watch.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
    answer.refused(503, "queue_timeout");
    assert_eq!(answer.json()["error"]["message"], "Request timed out after 2s in queue");
}

#[test]
fn n_s4_1_and_n06_the_gauge_is_the_number_that_waits() {
    let backend = Backend::held();
    let gateway = Gateway::before(&queue(100, 30), &backend);
    assert_eq!(gateway.depth(), 0);
    assert!(gateway.metrics().has("nexus_queue_depth"), "it is there before anything waits");
    let mut calls = vec![gateway.send(&chat("m"))];
    backend.await_running(1);
    for others in 0..7 {
        calls.push(gateway.enqueue(&chat("m"), others));
    }
    assert_eq!(gateway.depth(), 7);
    assert_eq!(gateway.get("/health").json()["queue"]["depth"], 7);
}

#[test]
fn n_s4_2_and_n_s4_3_the_gauge_follows_each_step_at_once() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&queue(100, 30), &backend, &chat("m"));
    let mut calls = vec![running];
    for others in 0..4 {
        calls.push(gateway.enqueue(&chat("m"), others));
    }
    for left in (0..4).rev() {
        backend.release(1);
        backend.await_seen(5 - left);
        // The backend has the request, so it no longer waits: the first read must show it.
        assert_eq!(gateway.depth(), left);
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
}

/// The counters that dashboards of Nexus use, beside its gauge.
#[test]
fn n06_the_counters_of_nexus_follow_the_queue() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&queue(7, 1), &backend, &chat("m"));
    let figures = || {
        let metrics = gateway.metrics();
        let names = ["max_size", "enqueued_total", "dequeued_total", "timeouts_total"];
        names.map(|name| {
            let name = format!("nexus_queue_{name}");
            assert!(metrics.has(&name), "{name}");
            metrics.sum(&name) as u64
        })
    };
    assert_eq!(figures(), [7, 0, 0, 0], "the running request did not wait");
    gateway.ask(&chat("m")).refused(503, "queue_timeout");
    assert_eq!(figures(), [7, 1, 0, 1]);
    let waiting = gateway.enqueue(&chat("m"), 0);
    backend.open();
    assert!([running, waiting].into_iter().all(|call| call.finish().status == 200));
    assert_eq!(figures(), [7, 2, 1, 1]);
}

/// A p99 between 10 s and 30 s, where waits end, is known to 2.5 s.
#[test]
fn m01_the_buckets_are_narrow_where_waits_end() {
    let backend = Backend::quick();
    let gateway = Gateway::before(&queue(100, 30), &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let text = gateway.get("/metrics").text();
    for name in ["tidegate_request_duration_seconds", "tidegate_time_to_first_byte_seconds"] {
        let series = text.lines().filter(|line| line.starts_with(&format!("{name}_bucket")));
        let bound = |line: &str| line.split("le=\"").nth(1)?.split('"').next()?.parse().ok();
        let bounds: Vec<f64> =
            series.filter_map(bound).filter(|bound: &f64| bound.is_finite()).collect();
        let inside: Vec<f64> =
            bounds.iter().copied().filter(|bound| (10.0..=30.0).contains(bound)).collect();
        assert_eq!((inside.first(), inside.last()), (Some(&10.0), Some(&30.0)), "{bounds:?}");
        assert!(inside.windows(2).all(|pair| pair[1] - pair[0] <= 2.5), "{name}: {bounds:?}");
    }
}

#[test]
fn n09_streams_wait_like_any_other_request() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["the ", "tide"]));
    let (gateway, first) = Gateway::occupied(&queue(100, 30), &backend, &chat("m").streamed());
    let second = gateway.enqueue(&chat("m").streamed(), 0);
    backend.open();
    for call in [first, second] {
        let answer = call.finish();
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    }
    assert_eq!(backend.most(), 1);
}

#[test]
fn n09_and_q09_a_client_that_leaves_while_waiting_costs_nothing_further() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(&queue(100, 30), &backend, &chat("m").tag("running"));
    let leaver = gateway.enqueue(&chat("m").tag("leaver"), 0);
    let stream = gateway.enqueue(&chat("m").tag("stream").streamed(), 1);
    let stayer = gateway.enqueue(&chat("m").tag("stayer"), 2);
    drop(leaver);
    gateway.await_depth(2);
    drop(stream);
    gateway.await_depth(1);
    backend.open();
    assert_eq!(running.finish().status, 200);
    assert_eq!(stayer.finish().status, 200);
    assert_eq!(backend.tags(), ["running", "stayer"]);
    gateway.await_idle();
    assert_eq!(gateway.metrics().sum("tidegate_requests_cancelled_total"), 2.0);
}

/// The promise is 200 ms, which the core keeps in virtual time. Here a busy machine adds its own
/// delays.
#[test]
fn q08_a_client_hears_of_its_end_at_once() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(&queue(100, 1), &backend, &chat("m"));
    let wait = || {
        let watch = Stopwatch::start();
        gateway.ask(&chat("m")).refused(503, "queue_timeout");
        watch.elapsed().checked_sub(Duration::from_secs(1)).expect("not before its time")
    };
    let mut late: Vec<Duration> = thread::scope(|scope| {
        let waits: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
        waits.into_iter().map(|wait| wait.join().unwrap()).collect()
    });
    late.sort_unstable();
    eprintln!("late by {late:?}");
    assert!(late[2] < Duration::from_secs(2), "{late:?}");
}

#[test]
fn q08_an_expired_request_is_never_sent() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&queue(100, 1), &backend, &chat("m").tag("running"));
    gateway.ask(&chat("m").tag("expired")).refused(503, "queue_timeout");
    backend.open();
    assert_eq!(running.finish().status, 200);
    assert_eq!(gateway.ask(&chat("m").tag("later")).status, 200);
    assert_eq!(backend.tags(), ["running", "later"]);
}
