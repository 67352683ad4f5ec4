//! Tests of the whole text: its families, and that promtool accepts it.

use std::io::Write;
use std::process::{Command, Stdio};

use flow::{BackendSupply, Controller, ModelId, Settings, Span, Time};
use http::HeaderMap;
use http::header::ACCEPT;

use super::{named, parsed, refused, served, sum};
use crate::backend::Attempt;
use crate::observe::outcome::OUTCOMES;
use crate::observe::{MetricsFormat, Observer, ProcessStatus, Record, RequestCounters};
use crate::reply::Fault;

/// The metrics that the source names, under their names here, with all labels and the type.
const NAMED: &[(&str, &[&str], &str)] = &[
    ("tidegate_queue_length", &["model", "target_model", "band"], "gauge"),
    ("tidegate_queue_latency_seconds", &["model", "target_model", "band", "success"], "histogram"),
    ("tidegate_stock_level", &["model", "target_model"], "gauge"),
    ("tidegate_bypass_total", &["model", "target_model"], "counter"),
    ("tidegate_requests_expired_total", &["model", "target_model"], "counter"),
    ("tidegate_requests_cancelled_total", &["model", "target_model", "stage"], "counter"),
    ("tidegate_queue_push_errors_total", &["model", "target_model", "error_type"], "counter"),
    ("tidegate_upper_bound", &["target_model"], "gauge"),
    ("tidegate_lower_bound", &["target_model"], "gauge"),
    ("tidegate_watermark", &["target_model"], "gauge"),
    ("tidegate_popper_dequeue_attempts_total", &[], "counter"),
    ("tidegate_cache_wait_seconds_total", &["result"], "counter"),
    ("tidegate_popper_dequeue_successes_total", &[], "counter"),
    ("tidegate_active_flows", &[], "gauge"),
    ("tidegate_preemptions_total", &["band"], "counter"),
    ("nexus_queue_depth", &[], "gauge"),
    ("tidegate_queue_oldest_seconds", &["band"], "gauge"),
    ("tidegate_backend_time_to_first_byte_seconds", &["backend"], "histogram"),
];

#[test]
fn m01_the_format_is_the_one_that_a_client_wants_most() {
    let open = "application/openmetrics-text";
    for (accept, expected) in [
        (String::new(), MetricsFormat::Prometheus),
        ("*/*".into(), MetricsFormat::Prometheus),
        (open.into(), MetricsFormat::OpenMetrics),
        (format!("{open}; version=1.0.0; charset=utf-8"), MetricsFormat::OpenMetrics),
        (format!("{open};version=0.0.1"), MetricsFormat::Prometheus),
        (format!("{open};version=1.0.0;q=0.5,text/plain;q=0.4"), MetricsFormat::OpenMetrics),
        (format!("{open};q=0.3, text/plain;version=0.0.4;q=0.9"), MetricsFormat::Prometheus),
        (format!("{open};q=0, */*"), MetricsFormat::Prometheus),
        (format!("{open};q=0.000"), MetricsFormat::Prometheus),
        (format!("{open}; Q=0.2, text/plain; q=0.2"), MetricsFormat::OpenMetrics),
        (format!("{open};q=x"), MetricsFormat::OpenMetrics),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        assert_eq!(MetricsFormat::of(&headers), expected, "{accept}");
    }
}

fn eventful() -> String {
    eventful_with(&ProcessStatus::default())
}

/// A gateway with a history: every outcome, names that need escaping, two backends.
fn eventful_with(process: &ProcessStatus) -> String {
    let odd = "odd\"name\\with\nbreaks";
    let named = named(&["gpu-a", "gpu \"b\""], &["llama", odd]);
    let observer = Observer::default();
    observer.known(["chat", "llama", odd]);
    observer.ended(&served("chat", "llama"), &RequestCounters::default());
    observer.ended(&served(odd, odd), &RequestCounters::default());
    let queued = Record {
        bypassed: false,
        waited: Some(Span::from_millis(30)),
        attempts: 3,
        ..served("chat", "llama")
    };
    observer.ended(&queued, &RequestCounters::default());
    let late =
        Record { waited: Some(Span::from_secs(30)), ..refused("llama", "queue_timeout", 503) };
    observer.ended(&late, &RequestCounters::default());
    observer.ended(&refused("llama", "client_closed", 499), &RequestCounters::default());
    observer.ended(&refused("llama", "too_many_flows", 503), &RequestCounters::default());
    observer.ended(&refused("llama", "flow_full", 503), &RequestCounters::default());
    // These had been queued.
    for outcome in ["flow_full", "wait_too_long"] {
        let waited = Some(Span::from_secs(1));
        let evicted = Record { waited, ..refused("llama", outcome, 503) };
        observer.ended(&evicted, &RequestCounters::default());
    }
    observer
        .ended(&refused("nobody knows me", "model_not_found", 404), &RequestCounters::default());
    let mut counters = RequestCounters::default();
    observer.attempt("gpu-a", Attempt::Answered, &mut counters);
    counters.backend.iter().for_each(|backend| backend.ended(&served("chat", "llama")));
    observer.attempt("gpu \"b\"", Attempt::Full(None), &mut RequestCounters::default());
    let mut core = Controller::new(Settings::default());
    let backends = [0, 1].map(|id| BackendSupply::new(flow::BackendId(id), vec![ModelId(id)]));
    core.supply(&backends, Time::ZERO);
    let snapshot = observer.snapshot(&mut core, Time::ZERO, &named);
    observer.metrics(&snapshot, &named, process, MetricsFormat::default())
}

#[test]
fn m01_every_metric_of_the_source_is_there_with_its_labels() {
    let text = eventful();
    let samples = parsed(&text);
    for (name, labels, kind) in NAMED {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is no {kind}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        let name = if *kind == "histogram" { format!("{name}_count") } else { (*name).into() };
        let series: Vec<&String> =
            samples.keys().filter(|series| series.split('{').next() == Some(&name)).collect();
        assert!(!series.is_empty(), "{name} has no sample");
        for series in series {
            assert_eq!(label_names(series), *labels, "{series}");
        }
    }
}

/// The names of the labels of a series whose values have neither commas nor braces.
fn label_names(series: &str) -> Vec<&str> {
    let before_values = series.split("=\"").collect::<Vec<_>>();
    let (_, before_values) = before_values.split_last().unwrap();
    before_values.iter().filter_map(|text| text.rsplit([',', '{']).next()).collect()
}

#[test]
fn m01_each_ending_is_counted_where_the_source_counts_it() {
    let samples = parsed(&eventful());
    let chat = ["{model=\"chat\"", "target_model=\"llama\""];
    let llama = ["{model=\"llama\""];
    let count = |family: &str, words: &[&str]| sum(&samples, family, words);
    assert_eq!(count("tidegate_bypass_total", &chat), 1.0);
    assert_eq!(count("tidegate_retries_total", &chat), 2.0);
    assert_eq!(count("tidegate_requests_expired_total", &llama), 1.0);
    assert_eq!(count("tidegate_requests_cancelled_total", &llama), 1.0);
    let waiting = ["stage=\"waiting\""];
    assert_eq!(count("tidegate_requests_cancelled_total", &waiting), 1.0);
    for error in ["error_type=\"too_many_flows\"", "error_type=\"flow_full\""] {
        assert_eq!(count("tidegate_queue_push_errors_total", &[error]), 1.0);
    }
    let queued = ["error_type=\"wait_too_long\""];
    assert_eq!(count("tidegate_queue_push_errors_total", &queued), 0.0, "it had been queued");
    let latency = "tidegate_queue_latency_seconds";
    let served = ["success=\"true\""];
    assert_eq!(count(&format!("{latency}_count"), &served), 1.0, "the bypassed did not wait");
    assert_eq!(count(&format!("{latency}_sum"), &served), 0.03);
    assert_eq!(count(&format!("{latency}_sum"), &["success=\"false\""]), 32.0);
    assert_eq!(count("tidegate_requests_total", &[]), 10.0);
    assert_eq!(count("tidegate_requests_total", &["outcome=\"ok\"", "code=\"2xx\""]), 3.0);
    assert_eq!(count("tidegate_tokens_total", &["direction=\"output\"", chat[0]]), 600.0);
    assert_eq!(count("tidegate_backend_attempts_total", &["result=\"full\""]), 1.0);
}

/// The families of the proposal count the same requests, under its names.
#[test]
fn g01_m01_a_request_that_had_been_queued_is_no_push_error() {
    let proposal = Some(Settings::default().bounds);
    let samples = parsed(&eventful_with(&ProcessStatus { proposal, ..ProcessStatus::default() }));
    for error in ["ErrTooManyFlows", "ErrInsufficientFlowCapacity"] {
        assert_eq!(sum(&samples, "queue_push_errors", &[error]), 1.0, "{error}");
    }
}

/// promtool has no complaint: no missing help, no bad name, no wrong unit.
#[test]
fn m01_promtool_accepts_the_text_without_complaint() {
    let promtool = Command::new("promtool")
        .args(["check", "metrics", "--extended"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool =
        promtool.unwrap_or_else(|error| panic!("promtool: {error}: run tools/setup.sh"));
    promtool.stdin.take().unwrap().write_all(eventful().as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("tidegate_queue_length"), "{table}");
}

/// A code that is missing in the list of outcomes would be counted as `other`.
#[test]
fn every_code_of_the_reply_table_has_a_series_of_its_own() {
    let text = String::new;
    let faults = [
        Fault::QueueTimeout(Span::ZERO),
        Fault::FlowFull { flow: String::new(), capacity: 0 },
        Fault::TooManyFlows,
        Fault::QueueFull,
        Fault::Preempted,
        Fault::NotCritical { ready: true },
        Fault::QueueDisabled { ready: true },
        Fault::ShuttingDown,
        Fault::WaitTooLong,
        Fault::Overloaded,
        Fault::ClientClosed,
        Fault::ClientStalled,
        Fault::DeadlineExceeded,
        Fault::BackendError(text()),
        Fault::NoBackend,
        Fault::ModelNotFound(text()),
        Fault::InvalidRequest(text()),
        Fault::NoSuchPath,
        Fault::MethodNotAllowed(""),
        Fault::BodyTooLarge(0),
        Fault::RequestTimeout,
        Fault::BatchDisabled,
        Fault::FileNotFound(text()),
        Fault::BatchNotFound(text()),
        Fault::FileInUse(text()),
        Fault::BatchEnded(""),
        Fault::FileTooLarge(0),
        Fault::StorageFull(text()),
        Fault::StoreAway(text()),
        Fault::Internal,
    ];
    for fault in faults {
        assert!(OUTCOMES.contains(&fault.code()), "{}", fault.code());
    }
}

#[test]
fn a_gateway_that_has_seen_nothing_writes_a_text_that_can_be_read() {
    let observer = Observer::default();
    let mut core = Controller::new(Settings::default());
    let named = named(&[], &[]);
    let snapshot = observer.snapshot(&mut core, Time::ZERO, &named);
    let samples = parsed(&observer.metrics(
        &snapshot,
        &named,
        &ProcessStatus::default(),
        MetricsFormat::default(),
    ));
    assert_eq!(samples["nexus_queue_depth"], 0.0);
    assert_eq!(samples["tidegate_queue_saturation{band=\"normal\"}"], 0.0);
    assert_eq!(samples["tidegate_headroom_requests{band=\"normal\"}"], 1000.0);
}

#[test]
fn the_process_reports_memory_cpu_time_and_files() {
    let samples = parsed(&eventful());
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] >= 3.0);
    assert!(samples["process_max_fds"] >= samples["process_open_fds"]);
    assert!(samples.contains_key("process_cpu_seconds_total"));
}
