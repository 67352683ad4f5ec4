//! Checks of the queue that hold for the gateway and for the picker behind Envoy.

use std::collections::BTreeSet;

use super::backend::{Backend, Nowhere};
use super::call::Call;
use super::gateway::Gateway;
use super::http_request::{HttpRequest, chat};
use super::scripted_response::ScriptedResponse;

const BANDS: [&str; 4] = ["critical", "high", "normal", "best-effort"];

/// All of these requests succeed.
pub(crate) fn succeed(calls: impl IntoIterator<Item = Call>) {
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

/// While another request holds the backend, one whose client will have gone is not sent.
pub(crate) fn check_stated_timeouts(gateway: &Gateway) {
    let stated = [
        ("grpc-timeout", "300m"),
        ("x-stainless-read-timeout", "0.3"),
        ("x-stainless-timeout", "0"),
        ("x-request-timeout-ms", "300"),
    ];
    for (name, value) in stated {
        let answer = gateway.ask(&chat("m").header(name, value));
        assert_eq!((answer.status, answer.code().as_str()), (504, "deadline_exceeded"), "{name}");
    }
}

/// One at the backend and four places in the queue: responses state what is left of them.
pub(crate) fn check_headroom(gateway: &Gateway, backend: &Backend) {
    let first = gateway.send(&chat("m"));
    backend.await_running(1);
    let second = gateway.send(&chat("m"));
    gateway.await_depth(1);
    let third = gateway.send(&chat("m"));
    gateway.await_depth(2);
    backend.release(1);
    let answer = first.finish();
    gateway.await_depth(1);
    let headroom = answer.header("x-llm-d-flow-band-headroom-requests").unwrap();
    assert!(["2", "3"].contains(&headroom), "{headroom}");
    let load = answer.header("endpoint-load-metrics").unwrap();
    assert!(load.starts_with("TEXT application_utilization=0."), "{load}");
    backend.release(1);
    assert_eq!(second.finish().status, 200);
    gateway.await_depth(0);
    backend.open();
    let answer = third.finish();
    assert_eq!(answer.header("x-llm-d-flow-band-headroom-requests"), Some("4"));
    let load = answer.header("endpoint-load-metrics");
    assert_eq!(load, Some("TEXT application_utilization=0.000"));
    let told = answer.header("x-llm-d-flow-queue-duration-ms");
    assert_eq!(told, answer.header("x-queue-wait-ms"));
}

/// With a watermark of two, requests pass the queue up to three, and leave it up to two.
pub(crate) fn check_bypass_and_refill(gateway: &Gateway, backend: &Backend) {
    let mut calls = Vec::new();
    for running in 1..=3 {
        calls.push(gateway.send(&chat("m")));
        backend.await_running(running);
    }
    calls.push(gateway.enqueue(&chat("m"), 0));
    calls.push(gateway.enqueue(&chat("m"), 1));
    assert_eq!(backend.running(), 3);
    backend.release(1);
    backend.await_running(2);
    gateway.await_metrics("settled", |metrics| {
        let stock = metrics.sum("tidegate_stock_level");
        if stock == 2.0 { Ok(()) } else { Err(stock.to_string()) }
    });
    assert_eq!((gateway.depth(), backend.seen().len()), (2, 3), "two is not below 1.8");
    backend.release(1);
    backend.await_seen(4);
    assert_eq!((gateway.depth(), backend.running()), (1, 2));
    backend.open();
    succeed(calls);
    assert_eq!(backend.most(), 3);
}

/// Behind a running request, higher bands go first, and each band in the order of arrival.
pub(crate) fn check_bands(gateway: &Gateway, backend: &Backend, running: Call) {
    let mut calls = vec![running];
    for round in 0..2 {
        for (index, band) in BANDS.into_iter().rev().enumerate() {
            let ask = chat("m").tag(&format!("{band}{round}")).priority(band);
            calls.push(gateway.enqueue(&ask, 4 * round + index));
        }
    }
    backend.open();
    for call in calls {
        let response = call.finish();
        assert_eq!(response.status, 200);
        assert!(response.header("x-queue-wait-ms").is_some(), "{:?}", response.headers);
    }
    let order: Vec<String> =
        BANDS.iter().flat_map(|band| [format!("{band}0"), format!("{band}1")]).collect();
    assert_eq!(backend.tags()[1..], order);
    assert_eq!(backend.most(), 1);
    gateway.await_idle();
}

/// Behind a running request, a flow with few requests waits for its own share only.
pub(crate) fn check_fair_share(
    gateway: &Gateway,
    backend: &Backend,
    running: Call,
    ask: impl Fn(&str, usize) -> HttpRequest,
) {
    let mut calls = vec![running];
    for others in 0..9 {
        let flow = if others < 6 { "loud" } else { "quiet" };
        calls.push(gateway.enqueue(&ask(flow, others).tag(flow), others));
    }
    backend.open();
    succeed(calls);
    let order = backend.tags();
    let last = order.iter().rposition(|tag| tag == "quiet").unwrap();
    assert!(last <= 7, "the quiet flow waits for its own share only: {order:?}");
}

/// With `flow_capacity = 3`, all bands of a flow share three places. A request of a higher band
/// takes the place of the newest one of the lowest band.
pub(crate) fn check_flow_capacity(gateway: &Gateway, backend: &Backend, running: Call) {
    let ask = |band: &str| chat("m").priority(band);
    let [old, new] = [0, 1].map(|others| gateway.enqueue(&ask("best-effort"), others));
    let normal = gateway.enqueue(&ask("normal"), 2);
    gateway.ask(&ask("best-effort")).refused(503, "flow_full");
    let take = |band: &str, place: Call| {
        let call = gateway.send(&ask(band));
        place.finish().refused(503, "preempted");
        assert_eq!(gateway.depth(), 3);
        call
    };
    let (first, second) = (take("high", new), take("high", old));
    let mut critical = vec![take("critical", normal)];
    gateway.ask(&ask("high")).refused(503, "flow_full");
    critical.extend([second, first].map(|place| take("critical", place)));
    gateway.ask(&ask("critical")).refused(503, "flow_full");
    backend.open();
    succeed([running]);
    succeed(critical);
    gateway.await_idle();
}

/// In the order `workload`, the criticality of a request counts with and without an id, and the
/// access log has the id or a generated one. The log is in JSON.
pub(crate) fn check_workload_context(gateway: &Gateway, backend: &Backend, running: Call) {
    let contexts = [
        ("given", Some("{\"workload_id\": \"etl\", \"criticality\": 4}")),
        ("unknown", None),
        ("blank", Some("")),
        ("invalid", Some("{\"workload_id\": ")),
        ("number", Some("{\"workload_id\": 7, \"criticality\": 5}")),
        ("text", Some("{\"workload_id\": \"text\", \"criticality\": \"5\"}")),
        ("part", Some("{\"workload_id\": \"part\", \"criticality\": 4.5}")),
        ("cased", Some("{\"Workload_ID\": \"cased\", \"CRITICALITY\": 4}")),
        ("low", Some("{\"workload_id\": \"low\", \"criticality\": 1}")),
        ("no-id", Some("{\"criticality\": 5}")),
        ("empty", Some("{\"workload_id\": \"\", \"criticality\": 5}")),
        ("absurd", Some("{\"criticality\": 9}")),
    ];
    let mut calls = vec![running];
    for (others, (tag, context)) in contexts.into_iter().enumerate() {
        let ask = chat("m").tag(tag).header("x-request-id", tag);
        let ask = match context {
            Some(context) => ask.header("X-Workload-Context", context),
            None => ask,
        };
        calls.push(gateway.enqueue(&ask, others));
    }
    backend.open();
    succeed(calls);
    let critical = ["no-id", "empty", "given", "cased"];
    let usual = ["unknown", "blank", "invalid", "number", "text", "part", "absurd"];
    let order = [&critical[..], &usual[..]].concat();
    assert_eq!(backend.tags()[1..12], order, "the most critical first");
    let logged = [
        ("given", "etl", 4),
        ("unknown", "unknown-", 3),
        ("blank", "unknown-", 3),
        ("invalid", "invalid-", 3),
        ("number", "invalid-", 3),
        ("text", "invalid-", 3),
        ("part", "invalid-", 3),
        ("cased", "cased", 4),
        ("low", "low", 1),
        ("no-id", "empty-", 5),
        ("empty", "empty-", 5),
        ("absurd", "empty-", 3),
    ];
    let mut generated = BTreeSet::new();
    for (tag, workload, criticality) in logged {
        let line = gateway.access_of(tag);
        let found = line["workload"].as_str().unwrap_or_default();
        let number = found.strip_prefix(workload).unwrap_or_else(|| panic!("{tag}: {line}"));
        assert_eq!(line["criticality"], criticality, "{line}");
        if workload.ends_with('-') {
            assert!(number.parse::<u64>().is_ok(), "{line}");
            assert!(generated.insert(found.to_owned()), "no two requests share an id: {line}");
        } else {
            assert_eq!(number, "", "{line}");
        }
    }
    let registry = gateway.get("/workloads").json()["workloads"].clone();
    let mut known: Vec<&str> = registry
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["workload_id"].as_str())
        .collect();
    known.sort_unstable();
    assert_eq!(known, ["cased", "etl", "low"], "only ids that clients give");
}

/// With `critical-only`, a request that would wait is refused unless it is critical.
pub(crate) fn check_critical_only(gateway: &Gateway, backend: &Backend, running: Call) {
    gateway.ask(&chat("m").priority("high")).refused(503, "not_critical");
    let waiting = gateway.enqueue(&chat("m").priority("critical"), 0);
    backend.open();
    succeed([running, waiting]);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "there is room for every band");
}

/// A configuration with the model `x` at one backend and `y` at another.
pub(crate) fn config_of_two_models(sections: &str, x: &Backend, y: &Backend) -> String {
    let entry = |id: &str, backend: &Backend, model: &str| {
        let url = format!("url = \"http://{}\"\nmodels = [\"{model}\"]", backend.address());
        format!("[[backends]]\nid = \"{id}\"\n{url}\n")
    };
    format!("{sections}{}{}", entry("a", x, "x"), entry("b", y, "y"))
}

/// Requests that wait for the model `x` do not delay requests for `y`.
pub(crate) fn check_models_do_not_block(gateway: &Gateway, x: &Backend) {
    let mut calls = vec![gateway.send(&chat("x"))];
    x.await_running(1);
    for others in 0..5 {
        calls.push(gateway.enqueue(&chat("x").priority("critical"), others));
    }
    for _ in 0..5 {
        let response = gateway.ask(&chat("y").priority("best-effort"));
        assert_eq!((response.status, response.header("x-backend-used")), (200, Some("b")));
    }
    x.open();
    succeed(calls);
}

/// Without a ready backend, requests wait for the first one that becomes ready.
pub(crate) fn check_wait_for_the_first_backend(gateway: &Gateway, nowhere: Nowhere) {
    let address = nowhere.address();
    let calls: Vec<_> = (0..4).map(|_| gateway.send(&chat("m"))).collect();
    gateway.await_depth(4);
    drop(nowhere);
    let backend = Backend::start_at(address, |_| ScriptedResponse::ok().held());
    backend.await_running(2);
    assert_eq!(gateway.depth(), 2);
    backend.open();
    succeed(calls);
    assert_eq!(backend.most(), 2);
}

/// A client that leaves its stream makes room for the next request.
pub(crate) fn check_client_leaves_stream(gateway: &Gateway, backend: &Backend) {
    let mut call = gateway.send(&chat("m").streamed());
    backend.release(1);
    assert!(call.chunk().is_some());
    let next = gateway.enqueue(&chat("m").streamed(), 0);
    drop(call);
    backend.await_left(1);
    backend.open();
    succeed([next]);
    gateway.await_idle();
}

/// Behind a running request, a request of this band that wants its first token within a millisecond
/// waits until it is late, if it can be. Then one comes that has a minute. Returns the order in
/// which they are served.
pub(crate) fn order_by_objective(
    gateway: &Gateway,
    backend: &Backend,
    running: Call,
    (band, late): (&str, bool),
) -> Vec<String> {
    let ask = |tag: &str| chat("m").tag(tag).priority(band);
    let hasty = gateway.enqueue(&ask("hasty").header("x-slo-ttft-ms", "1"), 0);
    gateway.await_metrics("late", |metrics| {
        let found = metrics.sum("tidegate_queue_late");
        if (found == 1.0) == late { Ok(()) } else { Err(format!("{found} late")) }
    });
    let patient = gateway.enqueue(&ask("patient").header("x-llm-d-slo-ttft-ms", "60000"), 1);
    backend.open();
    succeed([running, hasty, patient]);
    backend.tags()[1..].to_vec()
}

/// The tags in the order of service, without that of the request that occupies the backend.
pub(crate) fn order_of(sections: &str, backend: &Backend, asks: &[HttpRequest]) -> Vec<String> {
    let first = chat("m").tag("first").header("x-team", "first").priority("critical");
    let (gateway, running) = Gateway::occupied(sections, backend, &first);
    let mut calls: Vec<Call> = vec![running];
    for (others, ask) in asks.iter().enumerate() {
        calls.push(gateway.enqueue(ask, others));
    }
    backend.open();
    succeed(calls);
    gateway.await_idle();
    backend.tags().split_off(1)
}

/// How often a tag was served.
pub(crate) fn count(order: &[String], tag: &str) -> usize {
    order.iter().filter(|found| *found == tag).count()
}
