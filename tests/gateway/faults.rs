//! Faults that were reproduced in an existing gateway. Each has a test that would detect it here.

use std::thread;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::{
    Backend, Call, Gateway, HttpRequest, Nowhere, ScriptedResponse, Stopwatch, chat,
};

/// A healthy backend got all requests at once, however busy it was.
#[test]
fn fault1_a_busy_backend_is_not_sent_more_than_its_share() {
    let backend = Backend::held();
    let gateway = Gateway::before(TWO, &backend);
    let calls: Vec<_> = (0..60).map(|_| gateway.send(&chat("m"))).collect();
    backend.await_running(2);
    gateway.await_depth(58);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.most(), 2);
}

/// Requests that could never be served waited for the whole time to live.
#[test]
fn fault2_a_request_that_can_never_be_served_is_refused_at_once() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let waiting = gateway.enqueue(&chat("m"), 0);
    let watch = Stopwatch::start();
    for ask in [chat("unknown"), chat("unknown").streamed(), chat("unknown").priority("critical")] {
        let answer = gateway.ask(&ask);
        assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
    }
    assert!(watch.elapsed().as_secs() < 10, "no request waited for 30 s");
    assert_eq!(gateway.depth(), 1, "and none of them stood in the queue");
    // The backend judges tools, long prompts and streams.
    let tools = chat("m").with("tools", serde_json::json!([{"type": "function"}]));
    let long = chat("m").with("prompt", "x".repeat(20_000));
    let rest = [gateway.enqueue(&tools, 1), gateway.enqueue(&long.streamed(), 2)];
    backend.open();
    for call in [running, waiting].into_iter().chain(rest) {
        assert_eq!(call.finish().status, 200);
    }
}

/// Before a backend is found, the gateway cannot know that a model does not exist.
#[test]
fn fault2_without_any_backend_clients_get_retry_after() {
    let gateway = Gateway::launch("[discovery]\nendpoints_file = \"none.yaml\"\n");
    for ask in [chat("m"), chat("m").streamed(), HttpRequest::post("/v1/unknown", "")] {
        let answer = gateway.ask(&ask);
        assert_eq!((answer.status, answer.code().as_str()), (503, "no_backend"));
        assert_eq!(answer.header("retry-after"), Some("5"));
    }
}

/// The queue was drained one by one, by a loop that spun while no request could go.
#[test]
fn fault3_the_queue_drains_in_parallel_in_order_and_without_spinning() {
    let nowhere = Nowhere::reserve();
    let address = nowhere.address();
    // Without an objective, requests keep their order however long they wait.
    let bounds = "[queue]\nslo_ttft = \"0s\"\n[controller]\nlower_bound_per_backend = 3\n\
        watermark_per_backend = 3\nupper_bound_per_backend = 3\n[health]\ninterval = \"100ms\"\n";
    let gateway = Gateway::launch(&config(bounds, &[("one", address)]));
    let mut calls: Vec<Call> = Vec::new();
    for number in 0..6 {
        calls.push(gateway.enqueue(&chat("m").tag(&format!("n{number}")), number));
    }
    for number in 0..3 {
        let ask = chat("m").tag(&format!("h{number}")).priority("high");
        calls.push(gateway.enqueue(&ask, 6 + number));
    }
    // One second, measured by a request whose time to live it is.
    let before = gateway.process.ticks();
    let late = gateway.ask(&chat("m").header("X-Request-Timeout-Ms", "1000"));
    assert_eq!(late.code(), "deadline_exceeded");
    let spent = gateway.process.ticks() - before;
    assert!(spent < 40, "{spent} ticks of a hundred were spent on waiting");
    drop(nowhere);
    let backend = Backend::start_at(address, |_| ScriptedResponse::ok().held());
    backend.await_running(3);
    let first: Vec<String> = backend.tags();
    assert!(first.iter().all(|tag| tag.starts_with('h')), "{first:?}");
    for seen in 4..=9 {
        backend.release(1);
        backend.await_seen(seen);
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags()[3..], ["n0", "n1", "n2", "n3", "n4", "n5"]);
    assert_eq!(backend.most(), 3);
}

/// One request that could not be routed blocked all requests behind it.
#[test]
fn fault3_a_request_that_cannot_go_blocks_no_other() {
    let backend = Backend::quick();
    let entry = |id: &str, address, model: &str| {
        format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{address}\"\nmodels = [\"{model}\"]\n")
    };
    let nowhere = Nowhere::reserve();
    let entries = entry("gone", nowhere.address(), "lost") + &entry("one", backend.address(), "m");
    let gateway = Gateway::launch(&format!("{ONE}{entries}"));
    gateway.await_ready(1);
    let _stuck = gateway.enqueue(&chat("lost").priority("critical"), 0);
    for _ in 0..3 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    assert_eq!(gateway.depth(), 1);
}

/// New requests took the places of waiting ones.
#[test]
fn fault4_new_requests_displace_none_in_a_full_queue() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(
        &format!("[queue]\nmax_size = 20\n{ONE}"),
        &backend,
        &chat("m").tag("running"),
    );
    let mut calls = vec![running];
    for number in 0..20 {
        calls.push(gateway.enqueue(&chat("m").tag(&number.to_string()), number));
    }
    let newcomers: Vec<_> = (0..10).map(|_| gateway.send(&chat("m").tag("newcomer"))).collect();
    for call in newcomers {
        call.finish().refused(503, "flow_full");
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    let order: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(backend.tags()[1..], order);
}

/// Shutdown waited until the time to live of all requests had passed.
#[test]
fn fault5_shutdown_does_not_wait_for_waiting_requests() {
    let nowhere = Nowhere::reserve();
    let section = "[queue]\nqueue_ttl = \"10m\"\n";
    let mut gateway = Gateway::launch(&config(section, &[("one", nowhere.address())]));
    let waiting: Vec<_> = (0..5).map(|others| gateway.enqueue(&chat("m"), others)).collect();
    gateway.process.signal("TERM");
    for call in waiting {
        call.finish().refused(503, "shutting_down");
    }
    assert!(gateway.process.exit().success());
}

/// Clients that left in the middle were counted as pending for ever.
#[test]
fn fault6_clients_that_leave_leave_nothing_behind() {
    let backend = Backend::start(|seen| match seen.number {
        0..3 => ScriptedResponse::ok().held(),
        3..6 => ScriptedResponse::stream_held(&["a", "b"]),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before("[controller]\nwatermark_per_backend = 8\n", &backend);
    let calls: Vec<_> = (0..6).map(|_| gateway.send(&chat("m"))).collect();
    backend.await_running(6);
    assert_eq!(gateway.backend("one")["queue_depth"], 6);
    drop(calls);
    backend.await_left(6);
    gateway.await_idle();
    assert_eq!(gateway.backend("one")["queue_depth"], 0);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}

/// Health checks and requests took two locks in opposite order.
#[test]
fn fault7_health_checks_under_load_stop_nothing() {
    let backends = [Backend::quick(), Backend::quick()];
    let [one, two] = &backends;
    let entry = |id: &str, backend: &Backend| {
        format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{}\"\n", backend.address())
    };
    let health = "[health]\ninterval = \"100ms\"\n[metrics]\ninterval = \"50ms\"\n";
    let entries = entry("one", one) + &entry("two", two);
    let gateway = Gateway::start(&format!("{health}{TWO}{entries}"));
    let loops = |number: usize| {
        let mut call = Call::open(gateway.address(), b"");
        for turn in 0..150 {
            call.send(&chat("m").bytes_kept()).unwrap();
            assert_eq!(call.answer().unwrap().status, 200);
            // Model lists change, and backends fail and recover, while requests go.
            one.set_healthy(!(turn + number).is_multiple_of(20));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|number| scope.spawn(move || loops(number))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(gateway.get("/health").status, 200);
    gateway.await_idle();
}

/// One 429 removed a backend for an hour, and reached the client as a 400.
#[test]
fn a_backend_that_was_full_once_is_not_shut_out() {
    let backend = Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::with_headers(429, &["retry-after: 1"], "{}"),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(TWO, &backend);
    for _ in 0..3 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    assert_eq!(backend.seen().len(), 4);
}
