//! M02: traces, as a receiver of OpenTelemetry gets them.

use serde_json::Value;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::tools::python;
use crate::support::{Backend, Gateway, Nowhere, Process, ScriptedResponse, chat, eventually};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A receiver that decodes with the official messages.
struct Receiver(Process);

// === impl Receiver ===

impl Receiver {
    fn start() -> Self {
        Self::run("otlp_receiver.py")
    }

    fn run(script: &str) -> Self {
        Self(Process::run(python(script), &["listening on http://"]))
    }

    /// The section of a configuration that sends traces here.
    fn section(&self, more: &str) -> String {
        format!("[traces]\nendpoint = \"http://{}\"\n{more}\n", self.0.address())
    }

    fn spans(&self) -> Vec<Value> {
        let lines = self.0.access();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The spans, once there are this many.
    fn await_spans(&self, count: usize) -> Vec<Value> {
        eventually("traced", || {
            let spans = self.spans();
            if spans.len() >= count { Ok(spans) } else { Err(format!("{} spans", spans.len())) }
        })
    }
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let found: Vec<&Value> = spans.iter().filter(|span| span["name"] == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

fn time(span: &Value, field: &str) -> u64 {
    span[field].as_u64().unwrap()
}

#[test]
fn m02_a_request_is_one_tree_with_its_wait_its_attempts_and_its_first_token() {
    let receiver = Receiver::start();
    let backend = Backend::held();
    let sections = format!("{}{ONE}", receiver.section("service_name = \"door\""));
    let (gateway, first) = Gateway::occupied(&sections, &backend, &chat("m"));
    let ask = chat("m")
        .header("traceparent", PARENT)
        .header("tracestate", "vendor=1,other=2")
        .header("x-request-id", "traced");
    let second = gateway.enqueue(&ask, 0);
    backend.open();
    assert_eq!([first, second].map(|call| call.finish().status), [200, 200]);
    let spans = receiver.await_spans(5);
    let spans: Vec<Value> = spans.into_iter().filter(|span| span["trace"] == TRACE).collect();
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let root = named(&spans, "POST /v1/chat/completions");
    assert_eq!(
        (&root["parent"], &root["kind"]),
        (&"00f067aa0ba902b7".into(), &"SPAN_KIND_SERVER".into())
    );
    assert_eq!((&root["state"], &root["error"]), (&"vendor=1,other=2".into(), &Value::Null));
    assert_eq!(root["resource"]["service.name"], "door");
    let of_root = &root["attributes"];
    assert_eq!(of_root["http.response.status_code"], 200);
    assert_eq!(of_root["tidegate.request_id"], "traced");
    let wait = named(&spans, "wait in queue");
    assert_eq!(wait["attributes"]["tidegate.band"], "normal");
    let attempt = named(&spans, "chat m");
    assert_eq!(attempt["kind"], "SPAN_KIND_CLIENT");
    let of_attempt = &attempt["attributes"];
    assert_eq!(of_attempt["gen_ai.operation.name"], "chat");
    assert_eq!(of_attempt["gen_ai.request.model"], "m");
    assert_eq!(of_attempt["tidegate.backend"], "one");
    assert!(of_attempt["gen_ai.usage.output_tokens"].is_u64(), "{of_attempt}");
    for part in [wait, attempt] {
        assert_eq!(part["parent"], root["span"]);
        assert!(
            time(part, "began") >= time(root, "began")
                && time(part, "ended") <= time(root, "ended")
        );
    }
    assert!(
        time(wait, "ended") <= time(attempt, "began") && time(wait, "began") < time(wait, "ended")
    );
    let first_token = attempt["events"]["first token"].as_u64().unwrap();
    assert!((time(attempt, "began")..=time(attempt, "ended")).contains(&first_token));
    // The backend continues the trace below the attempt.
    let seen = backend.seen();
    let sent = seen.iter().find(|seen| seen.header("x-request-id") == Some("traced")).unwrap();
    let expected = format!("00-{TRACE}-{}-01", attempt["span"].as_str().unwrap());
    assert_eq!(sent.header("traceparent"), Some(expected.as_str()));
    assert_eq!(sent.header("tracestate"), Some("vendor=1,other=2"));
}

/// As a collector's operator gives them to all programs of a cluster.
#[test]
fn m02_x02_the_variables_of_opentelemetry_switch_traces_on() {
    let (receiver, backend) = (Receiver::start(), Backend::quick());
    let endpoint = format!("http://{}", receiver.0.address());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_SERVICE_NAME", "epp"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret"),
    ];
    let settings = config(TWO, &[("one", backend.address())]);
    let gateway = Gateway::launch_in(&settings, &variables);
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let spans = receiver.await_spans(2);
    assert_eq!(named(&spans, "chat m")["resource"]["service.name"], "epp");
    let log = gateway.process.await_log("OTEL_EXPORTER_OTLP_HEADERS has no effect", 1);
    assert!(!log.contains("secret"), "{log}");
}

/// A histogram names a traced request of each bucket, for readers of OpenMetrics.
#[test]
fn m02_a_bucket_of_a_histogram_names_a_trace() {
    let receiver = Receiver::start();
    let backend = Backend::held();
    let sections = format!("{}{ONE}", receiver.section(""));
    // The first one is not traced: a bucket names one request in a second.
    let unsampled = chat("m").header("traceparent", &PARENT.replace("-01", "-00"));
    let (gateway, first) = Gateway::occupied(&sections, &backend, &unsampled);
    let second = gateway.enqueue(&chat("m").header("traceparent", PARENT), 0);
    backend.open();
    assert_eq!([first, second].map(|call| call.finish().status), [200, 200]);
    receiver.await_spans(3);
    let page = format!("http://{}/metrics", gateway.address());
    let read = python("openmetrics.py").arg(page).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let exemplars = String::from_utf8_lossy(&read.stdout).into_owned();
    for name in ["queue_latency_seconds", "time_to_first_byte_seconds", "request_duration_seconds"]
    {
        let named = format!("\"tidegate_{name}_bucket\", \"trace\": \"{TRACE}\"");
        assert!(exemplars.contains(&named), "{name} in {exemplars}");
    }
    assert!(!gateway.get("/metrics").text().contains("trace_id"), "Prometheus's format has none");
}

/// The receiver tells the first call to come again.
#[test]
fn m02_traces_are_sent_by_grpc_too() {
    let receiver = Receiver::run("otlp_grpc_receiver.py");
    let backend = Backend::quick();
    let gateway = Gateway::before(&receiver.section("protocol = \"grpc\""), &backend);
    for _ in 0..2 {
        let known = receiver.spans().len();
        assert_eq!(gateway.ask(&chat("m").header("traceparent", PARENT)).status, 200);
        let spans = receiver.await_spans(known + 2);
        assert!(spans.iter().all(|span| span["trace"] == TRACE), "{spans:#?}");
    }
    // They are counted when the response is here, after the receiver has them.
    eventually("counted", || {
        let metrics = gateway.metrics();
        let dropped = metrics.sum("tidegate_traces_dropped_total");
        match (metrics.sum("tidegate_traces_sent_total"), dropped) {
            (2.0, 0.0) => Ok(()),
            counted => Err(format!("{counted:?}")),
        }
    });
}

#[test]
fn m02_a_failed_attempt_and_a_refused_request_are_errors() {
    let receiver = Receiver::start();
    let failing = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    let good = Backend::quick();
    let backends = [("failing", failing.address()), ("good", good.address())];
    let gateway = Gateway::start(&config(&format!("{}{TWO}", receiver.section("")), &backends));
    eventually("tried", || {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        if failing.seen().is_empty() { Err("not yet".into()) } else { Ok(()) }
    });
    assert_eq!(gateway.ask(&chat("absent").header("traceparent", PARENT)).status, 404);
    let spans = eventually("traced", || {
        let spans = receiver.spans();
        let refused = spans.iter().any(|span| span["trace"] == TRACE);
        if refused { Ok(spans) } else { Err(format!("{} spans", spans.len())) }
    });
    let failed = spans.iter().find(|span| span["attributes"]["tidegate.backend"] == "failing");
    let failed = failed.unwrap();
    assert_eq!(failed["error"], "failed");
    let trace: Vec<Value> =
        spans.iter().filter(|span| span["trace"] == failed["trace"]).cloned().collect();
    let root = named(&trace, "POST /v1/chat/completions");
    assert_eq!(
        (&root["error"], &root["attributes"]["tidegate.attempts"]),
        (&Value::Null, &2.into())
    );
    let served = trace.iter().find(|span| span["attributes"]["tidegate.backend"] == "good");
    assert_eq!(served.unwrap()["error"], Value::Null);
    let refused: Vec<&Value> = spans.iter().filter(|span| span["trace"] == TRACE).collect();
    assert_eq!(refused.len(), 1, "no backend was tried");
    assert_eq!(refused[0]["attributes"]["error.type"], "model_not_found");
}

#[test]
fn m02_clients_and_a_ratio_decide_what_is_traced() {
    let receiver = Receiver::start();
    let backend = Backend::quick();
    let sections = format!("{}{TWO}", receiver.section("sample_ratio = 0.0"));
    let gateway = Gateway::before(&sections, &backend);
    let unsampled = PARENT.replace("-01", "-00");
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    assert_eq!(gateway.ask(&chat("m").header("traceparent", &unsampled)).status, 200);
    assert_eq!(gateway.ask(&chat("m").header("traceparent", PARENT)).status, 200);
    receiver.await_spans(2);
    assert!(receiver.spans().iter().all(|span| span["trace"] == TRACE));
    // A context that is not traced here passes unchanged; none is invented.
    let sent: Vec<Option<String>> =
        backend.seen().iter().map(|seen| seen.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(sent[..2], [None, Some(unsampled)]);
    // The receiver has the spans before the gateway has its answer.
    gateway.await_metrics("sent", |metrics| match metrics.sum("tidegate_traces_sent_total") {
        1.0 => Ok(()),
        other => Err(format!("{other} sent")),
    });
}

#[test]
fn m02_without_a_receiver_traces_are_dropped_and_requests_are_served() {
    let (nowhere, backend) = (Nowhere::reserve(), Backend::quick());
    let traces = format!("[traces]\nendpoint = \"http://{}\"\nqueue_max = 1\n", nowhere.address());
    let gateway = Gateway::before(&format!("{traces}{TWO}"), &backend);
    for _ in 0..5 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    gateway.await_metrics("dropped", |metrics| {
        let labels = "reason=\"queue_full\"";
        let dropped = metrics.sum_where("tidegate_traces_dropped_total", labels);
        if dropped > 0.0 { Ok(()) } else { Err("none dropped".into()) }
    });
    assert_eq!(gateway.metrics().sum("tidegate_traces_sent_total"), 0.0);
}
