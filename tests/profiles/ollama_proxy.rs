//! G01: priorities in an Ollama proxy.

use std::fs;

use serde_json::{Value, json};

use crate::support::dbus::MessageBus;
use crate::support::queueing::succeed;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Gateway, chat, eventually};

/// The section of `config/config.yaml`.
const ROUTER: &str = "router:
  priority_scoring:
    critical_boost: 500.0      # Default: 500
    high_boost: 200.0          # Default: 200
    normal_boost: 0.0          # Default: 0
    best_effort_penalty: -100.0 # Default: -100
";

/// The gateway before backends that run one request at a time, on this bus.
fn start(bus: &MessageBus, backends: &[(&str, &Backend)]) -> Gateway {
    start_with_places(bus, backends, 1)
}

fn start_with_places(bus: &MessageBus, backends: &[(&str, &Backend)], places: u32) -> Gateway {
    let entry = |(id, backend): &(&str, &Backend)| {
        let url = backend.address();
        format!("  - {{ id: {id}, url: \"http://{url}\", models: [m], places: {places} }}\n")
    };
    let entries: String = backends.iter().map(entry).collect();
    let config = format!("{ROUTER}backends:\n{entries}");
    let gateway = Gateway::launch_yaml(&config, &[("DBUS_SESSION_BUS_ADDRESS", &bus.address())]);
    gateway.await_ready(backends.len());
    gateway
}

/// What the document's alert prints.
fn alerts(gateway: &Gateway) -> String {
    let page = gateway.folder().join("backends.json");
    fs::write(&page, gateway.get("/backends").text()).unwrap();
    let alert = ".[] | select(.priority_counts.critical > 2) | \
                 {backend: .id, critical_queue: .priority_counts.critical}";
    run(tool("jq").arg("-c").arg(alert).arg(page))
}

/// Priorities, order, pages, alert, D-Bus, response headers and log of one backend.
#[test]
fn g01_r06_the_pages_the_bus_and_the_log_of_the_proxy_show_its_queue() {
    let bus = MessageBus::start();
    let backend = Backend::held();
    let gateway = start(&bus, &[("ollama-npu", &backend)]);
    let mut calls = vec![gateway.send(&chat("m").priority("critical").tag("running"))];
    backend.await_running(1);
    assert_eq!(alerts(&gateway), "");
    let waiting = ["best-effort", "normal", "critical", "best-effort", "critical", "critical"];
    for (others, band) in waiting.into_iter().enumerate() {
        let ask = chat("m").priority(band).tag(&format!("{band}{others}"));
        calls.push(gateway.enqueue(&ask, others));
    }
    let shown = gateway.backend("ollama-npu");
    let counts = json!({"best_effort": 2, "normal": 1, "high": 0, "critical": 4});
    assert_eq!((&shown["queue_depth"], &shown["priority_counts"]), (&json!(7), &counts));
    assert_eq!(alerts(&gateway), "{\"backend\":\"ollama-npu\",\"critical_queue\":4}\n");
    let name = "ie.fio.OllamaProxy.Routing";
    let call = ["call", name, "/ie/fio/OllamaProxy/Routing", name, "GetQueueStats"];
    let stats = eventually("on the bus", || {
        let output = bus.busctl().arg("--json=short").args(call).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).map_err(|error| error.to_string())
    });
    assert_eq!(stats["data"][2]["ollama-npu"]["critical"], 4, "{stats}");
    let pending = gateway.metrics().sum_where("tidegate_backend_in_flight", "ollama-npu");
    assert_eq!(pending, 7.0, "the depth of the page");
    backend.open();
    let first = calls.remove(0).finish();
    assert_eq!(first.header("x-priority-boost"), Some("500"));
    assert_eq!(first.header("x-backend-used"), Some("ollama-npu"));
    let next = calls.remove(2).finish();
    assert_eq!(next.header("x-queue-depth"), Some("5"), "those that wait are pending there");
    succeed(calls);
    let order = ["critical2", "critical4", "critical5", "normal1", "best-effort0", "best-effort3"];
    assert_eq!(backend.tags()[1..], order);
    let lines = [
        "[Priority] Request routed: priority=critical backend=ollama-npu boost=+500",
        "[Priority] Request routed: priority=best_effort backend=ollama-npu boost=-100",
        "[Queue] Backend ollama-npu: depth=0",
        "[Queue] Backend ollama-npu: depth=5 (best_effort=2, normal=1, critical=2)",
        "[Queue] MarkRequestEnd: backend=ollama-npu priority=critical",
        "[Queue] MarkRequestEnd: backend=ollama-npu priority=best_effort",
        "[Routing] Selected ollama-npu: score=",
        "(priority_boost=500, queue_penalty=0)",
    ];
    eventually("logged", || {
        let log = gateway.process.access();
        if lines.iter().all(|line| log.contains(line)) { Ok(()) } else { Err(log) }
    });
}

/// In the document each pending request is at one backend, so that the depths add up.
#[test]
fn g01_r06_waiting_requests_are_divided_among_the_backends() {
    let bus = MessageBus::start();
    let (npu, igpu) = (Backend::held(), Backend::held());
    let gateway = start(&bus, &[("ollama-npu", &npu), ("ollama-igpu", &igpu)]);
    let critical = chat("m").priority("critical");
    let mut calls = vec![gateway.send(&critical), gateway.send(&critical)];
    npu.await_running(1);
    igpu.await_running(1);
    for others in 0..3 {
        calls.push(gateway.enqueue(&critical, others));
    }
    let mut depths: Vec<u64> =
        gateway.backends().iter().map(|shown| shown["queue_depth"].as_u64().unwrap()).collect();
    depths.sort_unstable();
    assert_eq!(depths, [2, 3]);
    assert_eq!(alerts(&gateway).lines().count(), 1);
    npu.open();
    igpu.open();
    succeed(calls);
    gateway.await_idle();
}

/// Each pending request costs 50 points, however many the backend takes at once.
#[test]
fn g01_r02_a_pending_request_costs_the_points_of_the_document() {
    let bus = MessageBus::start();
    let backend = Backend::held();
    let gateway = start_with_places(&bus, &[("ollama-npu", &backend)], 4);
    let mut calls = Vec::new();
    for running in 1..=4 {
        calls.push(gateway.send(&chat("m").priority("critical")));
        backend.await_running(running);
    }
    eventually("logged", || {
        let log = gateway.process.access();
        let told = |penalty: u32| log.contains(&format!("queue_penalty={penalty})"));
        if [0, 50, 100, 150].into_iter().all(told) { Ok(()) } else { Err(log) }
    });
    backend.open();
    succeed(calls);
}
