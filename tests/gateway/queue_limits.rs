//! N: the limits of the queue, and the edge cases of request queueing in Nexus.

use std::thread;
use std::time::Duration;

use crate::support::gateway::{ONE, TWO};
use crate::support::{Backend, Call, Gateway, ScriptedResponse, Stopwatch, chat, queueing};

#[test]
fn n01_the_section_of_the_source_means_capacity_and_time_to_live() {
    let backend = Backend::held();
    let section = "[queue]\nenabled = true\nmax_size = 150\nmax_wait_seconds = 1\n";
    let (gateway, _running) = Gateway::occupied(&format!("{section}{ONE}"), &backend, &chat("m"));
    // More than the default capacity of a flow: the only flow may use the whole queue.
    let calls: Vec<_> = (0..150).map(|_| gateway.send(&chat("m"))).collect();
    for call in calls {
        call.finish().refused(503, "queue_timeout");
    }
    assert_eq!(gateway.metrics().sum("tidegate_queue_capacity"), 150.0);
}

#[test]
fn r05_the_timeouts_of_client_libraries_end_the_wait() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    queueing::check_stated_timeouts(&gateway);
    // An Envoy in front of the gateway, and one that states no limit.
    let limit = "x-envoy-expected-rq-timeout-ms";
    let answer = gateway.ask(&chat("m").header(limit, "300"));
    assert_eq!((answer.status, answer.code().as_str()), (504, "deadline_exceeded"));
    let patient = gateway.enqueue(&chat("m").header(limit, "0"), 0);
    backend.open();
    assert_eq!([running, patient].map(|call| call.finish().status), [200, 200]);
}

#[test]
fn n03_a_full_queue_refuses_at_once_and_stays_as_it_is() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(&format!("[queue]\nmax_size = 3\n{ONE}"), &backend, &chat("m"));
    let mut calls = vec![running];
    for others in 0..3 {
        calls.push(gateway.enqueue(&chat("m"), others));
    }
    // There is one flow, which may use the whole queue, so both are full at once.
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let watch = Stopwatch::start();
        gateway.ask(&chat("m")).refused(503, "flow_full");
        times.push(watch.elapsed());
    }
    // The promise is 10 ms, which the benchmark measures. Here a busy machine adds its own delays.
    times.sort_unstable();
    assert!(times[4] < Duration::from_secs(1), "{times:?}");
    assert_eq!(gateway.depth(), 3);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

#[test]
fn q07_a_refusal_names_the_flow_and_its_limit() {
    let backend = Backend::held();
    let sections = "[queue]\nflow_by = [\"header:x-team\"]\nflow_capacity = 1\n\
        [[flows]]\nmatch = { \"header:x-team\" = \"lab\" }\ncapacity = 2\n";
    let of = |team: &str| chat("m").header("x-team", team);
    let (gateway, _running) = Gateway::occupied(&format!("{sections}{ONE}"), &backend, &of("lab"));
    let _waiting = [("lab", 0), ("lab", 1), ("b \"1\"", 2)]
        .map(|(team, others)| gateway.enqueue(&of(team), others));
    for (team, limit) in [("lab", "2 requests"), ("b \"1\"", "1 request")] {
        let refused = gateway.ask(&of(team));
        refused.refused(503, "flow_full");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        let expected = format!(
            "The flow '{team}' has {limit} waiting, which is its limit: send fewer at once."
        );
        assert_eq!(message, expected);
    }
}

#[test]
fn n03_and_n08_concurrent_arrivals_never_pass_the_limit() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(&format!("[queue]\nmax_size = 50\n{ONE}"), &backend, &chat("m"));
    let calls: Vec<_> = thread::scope(|scope| {
        let send = || (0..50).map(|_| gateway.send(&chat("m"))).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let refused = |metrics: &crate::support::metrics::Metrics| {
        metrics.sum_where("tidegate_offers_total", "refused")
    };
    gateway.await_metrics("all offered", |metrics| {
        assert!(metrics.sum("nexus_queue_depth") <= 50.0);
        let count = refused(metrics);
        if count == 150.0 { Ok(()) } else { Err(format!("{count} refused")) }
    });
    assert_eq!(gateway.depth(), 50);
    backend.open();
    assert_eq!(running.finish().status, 200);
    let answers: Vec<_> = calls.into_iter().map(|call| call.finish()).collect();
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(served, 50);
    answers.iter().filter(|answer| answer.status != 200).for_each(|answer| {
        answer.refused(503, "flow_full");
    });
    assert_eq!(backend.seen().len(), 51);
    gateway.await_idle();
}

#[test]
fn n08_hundreds_in_and_out_at_once_leave_no_drift() {
    let backend = Backend::quick();
    let gateway = Gateway::before(&format!("[queue]\nmax_size = 1000\n{TWO}"), &backend);
    let served: usize = thread::scope(|scope| {
        let burst = || {
            let calls: Vec<_> = (0..100).map(|_| gateway.send(&chat("m"))).collect();
            calls
                .into_iter()
                .map(|call| call.finish().status)
                .filter(|&status| status == 200)
                .count()
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(burst)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((served, backend.seen().len()), (600, 600));
    assert!(backend.most() <= 2, "{} at once", backend.most());
    gateway.await_idle();
}

#[test]
fn c08_and_edge_a_disabled_queue_refuses_requests_that_would_wait() {
    for section in ["[queue]\nenabled = false\n", "[queue]\nmax_size = 0\n"] {
        let backend = Backend::held();
        let (gateway, running) =
            Gateway::occupied(&format!("{section}{ONE}"), &backend, &chat("m"));
        gateway.ask(&chat("m")).refused(503, "queue_disabled");
        gateway.ask(&chat("m").streamed()).refused(503, "queue_disabled");
        backend.open();
        assert_eq!(running.finish().status, 200, "the rest works");
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        gateway.await_idle();
    }
}

/// Both ways to switch the queue off are one: what fails does not wait either.
#[test]
fn c08_with_the_queue_off_a_failed_request_waits_for_no_second_attempt() {
    for section in ["[queue]\nenabled = false\n", "[queue]\nmax_size = 0\n"] {
        for status in [500, 429] {
            let backend = Backend::start(move |_| ScriptedResponse::json(status, "{\"no\":1}"));
            let gateway = Gateway::before(&format!("{section}{ONE}"), &backend);
            let answer = gateway.ask(&chat("m"));
            let seen = (answer.status, answer.text());
            assert_eq!(seen, (status, "{\"no\":1}".into()), "{section}");
            assert_eq!(backend.seen().len(), 1);
        }
    }
}

#[test]
fn p02_and_edge_every_spelling_of_high_is_high() {
    let backend = Backend::held();
    let (gateway, _running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let mut calls = Vec::new();
    for (others, value) in ["HIGH", "high", "HiGh", " high "].into_iter().enumerate() {
        calls.push(gateway.enqueue(&chat("m").header("x-nexus-priority", value), others));
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum_where("tidegate_queue_length", "band=\"high\""), 4.0);
}

/// C09: a client that disconnects while it sends its body counts as gone, not as an error.
#[test]
fn c09_a_client_that_leaves_in_the_middle_of_its_body_is_counted_as_gone() {
    let backend = Backend::quick();
    let gateway = Gateway::before(ONE, &backend);
    let bytes = chat("m").bytes();
    drop(Call::open(gateway.address(), &bytes[..bytes.len() - 5]));
    gateway.await_metrics("counted as gone", |metrics| {
        let gone = metrics.sum_where("tidegate_requests_total", "outcome=\"client_closed\"");
        if gone == 1.0 { Ok(()) } else { Err(format!("{gone}")) }
    });
    gateway.await_idle();
}
