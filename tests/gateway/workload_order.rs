//! W03: the order `workload` as clients and operators see it: told places, and the terms of
//! urgency.

use std::process::Command;

use serde_json::Value;

use crate::support::gateway::ONE;
use crate::support::tools::{python, run};
use crate::support::{Backend, Call, Gateway, HttpRequest, Process, chat, eventually};

const BY_URGENCY: &str = "[queue]\norder = \"workload\"\n[log]\nformat = \"json\"\n";

/// A request of a workload, with the workload as its request id.
fn ask(workload: &str, criticality: u8) -> HttpRequest {
    let context = format!("{{\"workload_id\":\"{workload}\",\"criticality\":{criticality}}}");
    chat("m").tag(workload).header("X-Workload-Context", &context).header("x-request-id", workload)
}

/// A request in flight, and behind it three that wait in the reverse order of their urgency.
fn three(sections: &str, backend: &Backend) -> (Gateway, Vec<Call>) {
    let (gateway, running) =
        Gateway::occupied(&format!("{sections}{ONE}"), backend, &ask("running", 3));
    let mut calls = vec![running];
    for (others, (id, criticality)) in [("low", 1), ("mid", 3), ("top", 5)].into_iter().enumerate()
    {
        calls.push(gateway.enqueue(&ask(id, criticality), others));
    }
    (gateway, calls)
}

fn end(backend: &Backend, calls: Vec<Call>) {
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

#[test]
fn w03_m03_told_places_are_those_of_the_order() {
    let backend = Backend::held();
    let (gateway, calls) = three(BY_URGENCY, &backend);
    for (id, place) in [("top", 1), ("mid", 2), ("low", 3)] {
        let page = gateway.get(&format!("/requests/{id}")).json();
        assert_eq!(page["position"], place, "{page}");
        assert_eq!(page["order"], "workload", "{page}");
        let text = page["text"].as_str().unwrap();
        assert!(text.contains(&format!("place {place} by its urgency")), "{text}");
        let mut explain = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let said = run(explain.args(["explain", id, "--url", &gateway.url()]));
        assert!(said.contains(&format!("place {place} by its urgency")), "{said}");
    }
    // The stream of a request that is more urgent than one of them.
    let mut told = gateway.send(&ask("stream", 4).streamed().header("X-Queue-Status", "sse"));
    assert_eq!(told.head().status, 200);
    let comment = String::from_utf8(told.chunk().unwrap()).unwrap();
    assert!(comment.contains("position=2 waiting=4"), "{comment}");
    drop(told);
    gateway.await_depth(3);
    end(&backend, calls);
    assert_eq!(backend.tags(), ["running", "top", "mid", "low"]);
}

#[test]
fn w03_told_places_follow_deadlines_and_sessions() {
    let backend = Backend::held();
    let sections = "[queue]\norder = \"deadline\"\n";
    let (gateway, running) =
        Gateway::occupied(&format!("{sections}{ONE}"), &backend, &chat("m").tag("running"));
    let within = |id: &str, ttl: &str| {
        let ask = chat("m").tag(id).header("x-request-id", id);
        ask.header("x-llm-d-inference-ttl", ttl)
    };
    let asks = [("patient", "25s"), ("hasty", "10s"), ("usual", "20s")];
    let mut calls = vec![running];
    for (others, (id, ttl)) in asks.into_iter().enumerate() {
        calls.push(gateway.enqueue(&within(id, ttl), others));
    }
    for (id, place) in [("hasty", 1), ("usual", 2), ("patient", 3)] {
        let page = gateway.get(&format!("/requests/{id}")).json();
        assert_eq!((&page["position"], &page["order"]), (&place.into(), &"deadline".into()));
    }
    end(&backend, calls);
    assert_eq!(backend.tags(), ["running", "hasty", "usual", "patient"]);
    let backend = Backend::held();
    let sections = "[queue]\nsession_by = [\"session\"]\n";
    let (gateway, running) =
        Gateway::occupied(&format!("{sections}{ONE}"), &backend, &chat("m").tag("running"));
    let of = |session: &str, id: &str| {
        chat("m").tag(id).header("x-request-id", id).header("x-session-id", session)
    };
    let asks = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")];
    let mut calls = vec![running];
    for (others, (session, id)) in asks.into_iter().enumerate() {
        calls.push(gateway.enqueue(&of(session, id), others));
    }
    let place = |id: &str| {
        let page = gateway.get(&format!("/requests/{id}")).json();
        (page["position"].as_u64().unwrap(), id.to_owned())
    };
    let mut told = ["a1", "a2", "a3", "b1"].map(place);
    told.sort();
    end(&backend, calls);
    assert_eq!(backend.tags()[1..], told.map(|(_, id)| id));
}

#[test]
fn w03_m02_the_terms_of_urgency_are_logged_counted_and_traced() {
    let receiver = Process::run(python("otlp_receiver.py"), &["listening on http://"]);
    let traces = format!("[traces]\nendpoint = \"http://{}\"\n", receiver.address());
    let sections = format!("{BY_URGENCY}decisions = true\n{traces}");
    let backend = Backend::held();
    let (gateway, calls) = three(&sections, &backend);
    end(&backend, calls);
    let line = gateway.access_of("top");
    assert_eq!((&line["workload"], &line["criticality"]), (&"top".into(), &5.into()));
    // One request within a minute.
    assert_eq!(line["workload_rate"], 0.017, "{line}");
    let urgency = line["urgency"].as_f64().unwrap();
    assert!((0.399..0.6).contains(&urgency), "{line}");
    let log = gateway.process.access();
    let decided = "[Workload] Request ordered: workload=top criticality=5 wait=";
    assert!(log.contains(decided), "{log}");
    let metrics = gateway.metrics();
    for (criticality, count) in [(1, 1.0), (3, 2.0), (5, 1.0)] {
        let labels = format!("criticality=\"{criticality}\"");
        let name = "tidegate_workload_wait_seconds_count";
        assert_eq!(metrics.sum_where(name, &labels), count, "{criticality}");
        assert!(metrics.sum_where("tidegate_workload_rate", &labels) > 0.0);
    }
    let told = metrics.sum_where("tidegate_workload_urgency", "criticality=\"5\"");
    assert!((told - urgency).abs() < 1e-6, "{told} and {urgency}");
    let root = eventually("traced", || {
        let lines = receiver.access();
        let mut spans = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        spans.find(|span| span["attributes"]["tidegate.workload.id"] == "top").ok_or(lines)
    });
    let of_root = &root["attributes"];
    assert_eq!(of_root["tidegate.workload.criticality"], 5);
    let told = of_root["tidegate.workload.urgency"].as_f64().unwrap();
    assert!((told - urgency).abs() < 1e-6, "{told} and {urgency}");
    assert!(of_root["tidegate.workload.wait"].as_f64().unwrap() > 0.0);
    assert!((of_root["tidegate.workload.rate"].as_f64().unwrap() - 1.0 / 60.0).abs() < 1e-9);
}

/// A context that nothing reads is told: in the log once, in the status and as a metric.
#[test]
fn w03_m03_a_context_without_effect_is_told() {
    let backend = Backend::quick();
    let found = |gateway: &Gateway| gateway.get("/status").json()["findings"].to_string();
    let gateway = Gateway::before(ONE, &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    assert!(!found(&gateway).contains("workload_context_unused"));
    for _ in 0..3 {
        assert_eq!(gateway.ask(&ask("fraud", 5)).status, 200);
    }
    // A request is counted when its response has ended, which its client may see before.
    eventually("told", || {
        let findings = found(&gateway);
        let told = ["workload_context_unused", "3 requests had X-Workload-Context"];
        if told.iter().all(|part| findings.contains(part)) { Ok(()) } else { Err(findings) }
    });
    assert_eq!(gateway.metrics().sum("tidegate_workload_contexts_unused_total"), 3.0);
    let told = "requests have X-Workload-Context";
    let log = gateway.process.await_log(told, 1);
    assert_eq!(log.matches(told).count(), 1, "{log}");
    for queue in ["order = \"workload\"", "flow_by = [\"workload\"]"] {
        let gateway = Gateway::before(&format!("[queue]\n{queue}\n{ONE}"), &backend);
        assert_eq!(gateway.ask(&ask("fraud", 5)).status, 200);
        assert!(!found(&gateway).contains("workload_context_unused"), "{queue}");
    }
}
