//! C09, N02, R04: what clients hear, as programs read it.

mod error_reference;

use bytes::Bytes;
use flow::{Eviction, Refusal, RouteChoice, RouteReason, RouteScore, Span};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::error;
use super::headers::{RouteDescription, describe, identify, report_load, report_room};
use super::{Fault, Refused};

fn refused(fault: Fault, retry_after: Option<Span>) -> Response<Full<Bytes>> {
    error::response(&Refused { fault, retry_after })
}

/// The parts of an error that programs read.
fn seen(fault: Fault) -> (u16, String, String, Value, bool, bool) {
    let response = refused(fault.clone(), None);
    let body: Value = serde_json::from_slice(&error::body(&fault.into())).unwrap();
    let error = &body["error"];
    let text = |key: &str| error[key].as_str().unwrap().to_owned();
    assert!(text("message").len() > 10, "{body}");
    assert_eq!(error.as_object().unwrap().len(), 4, "{body}");
    assert_eq!(response.headers()["content-type"], "application/json");
    let has = |name: &str| response.headers().contains_key(name);
    let status = response.status().as_u16();
    (
        status,
        text("type"),
        text("code"),
        error["param"].clone(),
        has("retry-after"),
        has("connection"),
    )
}

#[test]
fn c09_every_fault_has_its_status_and_its_code() {
    let (unavailable, invalid) = ("service_unavailable", "invalid_request_error");
    let what = || "what".to_owned();
    let model = || json!("model");
    let none = || Value::Null;
    let full_flow = Fault::FlowFull { flow: "lab".into(), capacity: 7 };
    let rows = [
        (Fault::QueueTimeout(Span::ZERO), 503, unavailable, "queue_timeout", none(), ""),
        (
            Fault::FailedTimeout(Span::ZERO, "a".into(), 1),
            503,
            unavailable,
            "queue_timeout",
            none(),
            "",
        ),
        (full_flow, 503, unavailable, "flow_full", none(), ""),
        (Fault::TooManyFlows, 503, unavailable, "too_many_flows", none(), ""),
        (Fault::QueueFull, 503, unavailable, "queue_full", none(), ""),
        (Fault::Preempted, 503, unavailable, "preempted", none(), ""),
        (Fault::NotCritical { ready: true }, 503, unavailable, "not_critical", none(), ""),
        (Fault::QueueDisabled { ready: true }, 503, unavailable, "queue_disabled", none(), ""),
        (Fault::ShuttingDown, 503, unavailable, "shutting_down", none(), ""),
        (Fault::WaitTooLong, 503, unavailable, "wait_too_long", none(), ""),
        (Fault::Overloaded, 503, unavailable, "overloaded", none(), "close"),
        (Fault::ClientClosed, 499, invalid, "client_closed", none(), ""),
        (Fault::ClientStalled, 499, invalid, "client_stalled", none(), ""),
        (Fault::DeadlineExceeded, 504, "timeout", "deadline_exceeded", none(), ""),
        (Fault::BackendError(what()), 502, "server_error", "backend_error", none(), ""),
        (Fault::BrokenResponse(what()), 502, "server_error", "backend_error", none(), ""),
        (Fault::NoBackend, 503, unavailable, "no_backend", none(), ""),
        (Fault::NoBackendInSubset, 503, unavailable, "no_backend_in_subset", none(), ""),
        (Fault::ModelNotFound(what()), 404, invalid, "model_not_found", model(), ""),
        (Fault::model_not_found("gpt", "llama"), 404, invalid, "model_not_found", model(), ""),
        (
            Fault::InvalidRequest("what is wrong".into()),
            400,
            invalid,
            "invalid_request",
            none(),
            "",
        ),
        (Fault::InvalidModel("what is wrong".into()), 400, invalid, "invalid_request", model(), ""),
        (Fault::NoSuchPath(None), 404, invalid, "not_found", none(), ""),
        (Fault::NoSuchPage, 404, invalid, "not_found", none(), ""),
        (Fault::RequestNotFound, 404, invalid, "request_not_found", none(), ""),
        (Fault::BackendNotFound(what()), 404, invalid, "backend_not_found", none(), ""),
        (Fault::MethodNotAllowed("GET"), 405, invalid, "method_not_allowed", none(), ""),
        (Fault::UnsupportedEncoding(what()), 415, invalid, "unsupported_encoding", none(), ""),
        (Fault::UpgradeNotSupported, 501, "server_error", "upgrade_not_supported", none(), ""),
        (Fault::BodyTooLarge(5), 413, invalid, "body_too_large", none(), "close"),
        (Fault::RequestTimeout, 408, invalid, "request_timeout", none(), "close"),
        (Fault::TooManyFields, 431, invalid, "too_many_headers", none(), "close"),
        (Fault::HostCount, 400, invalid, "invalid_request", none(), "close"),
        (Fault::TransferCoding, 400, invalid, "invalid_request", none(), "close"),
        (Fault::TlsRequired, 400, invalid, "tls_required", none(), "close"),
        (Fault::Internal, 500, "server_error", "internal", none(), ""),
    ];
    for row in rows {
        told_as(row);
    }
}

#[test]
fn d10_faults_of_the_batch_api_have_their_status_and_their_code() {
    let invalid = "invalid_request_error";
    let what = || "what".to_owned();
    let none = || Value::Null;
    let rows = [
        (Fault::BatchDisabled, 404, invalid, "batch_disabled", none(), ""),
        (
            Fault::InvalidField("purpose", "what is wrong".into()),
            400,
            invalid,
            "invalid_request",
            json!("purpose"),
            "",
        ),
        (Fault::FileNotFound(what()), 404, invalid, "file_not_found", json!("id"), ""),
        (Fault::BatchNotFound(what()), 404, invalid, "batch_not_found", json!("id"), ""),
        (Fault::FileInUse(what()), 409, invalid, "file_in_use", none(), ""),
        (Fault::BatchEnded("completed"), 409, invalid, "batch_ended", none(), ""),
        (Fault::FileTooLarge(5), 413, invalid, "file_too_large", json!("file"), "close"),
        (
            Fault::StorageFull("the disk is full".into()),
            507,
            "server_error",
            "storage_full",
            none(),
            "close",
        ),
    ];
    for row in rows {
        told_as(row);
    }
}

/// Fault, status, type, code, param, and what becomes of the connection.
type Row = (Fault, u16, &'static str, &'static str, Value, &'static str);

fn told_as((fault, status, family, code, param, end): Row) {
    let expected = (status, family.into(), code.into(), param, status == 503, end == "close");
    assert_eq!(seen(fault.clone()), expected, "{fault:?}");
    assert_eq!((fault.code(), fault.status().as_u16()), (code, status));
}

#[test]
fn c09_every_refusal_and_eviction_of_the_core_has_one_fault() {
    let rows = [
        (Refusal::FlowFull, "flow_full"),
        (Refusal::TooManyFlows, "too_many_flows"),
        (Refusal::QueueFull, "queue_full"),
        (Refusal::NotCritical, "not_critical"),
        (Refusal::QueueDisabled, "queue_disabled"),
        (Refusal::NoTimeToWait, "queue_timeout"),
        (Refusal::WaitTooLong, "wait_too_long"),
        (Refusal::DeadlineExceeded, "deadline_exceeded"),
        (Refusal::UnknownModel, "model_not_found"),
        (Refusal::UnknownFlow, "internal"),
        (Refusal::ShuttingDown, "shutting_down"),
        (Refusal::TooManyAsks, "queue_full"),
    ];
    for (refusal, code) in rows {
        assert_eq!(Fault::from(refusal).code(), code);
    }
    let rows = [
        (Eviction::Expired, "queue_timeout"),
        (Eviction::DeadlineExceeded, "deadline_exceeded"),
        (Eviction::TooLate, "wait_too_long"),
        (Eviction::Preempted, "preempted"),
        (Eviction::Displaced, "flow_full"),
        (Eviction::ShuttingDown, "shutting_down"),
    ];
    for (eviction, code) in rows {
        assert_eq!(Fault::from(eviction).code(), code);
    }
    let named = Fault::from(Refusal::UnknownModel).about("gpt", "gpt").after(Span::ZERO);
    assert_eq!(named, Fault::ModelNotFound("gpt".into()));
    let late = Fault::from(Eviction::Expired).about("gpt", "gpt").after(Span::from_secs(2));
    assert_eq!(late, Fault::QueueTimeout(Span::from_secs(2)));
}

#[tokio::test]
async fn n02_a_timeout_has_the_message_of_the_source() {
    let waited = Span::from_nanos(30_000_900_000);
    let response = refused(Fault::QueueTimeout(waited), Some(Span::from_millis(29_001)));
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "30");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let message = r#""message":"Request timed out after 30s in queue""#;
    let rest = r#""type":"service_unavailable","code":"queue_timeout","param":null"#;
    assert_eq!(body, format!("{{\"error\":{{{message},{rest}}}}}"));
}

#[test]
fn n02_a_wait_is_written_in_seconds() {
    let rows = [(0, "0"), (250, "0.25"), (200, "0.2"), (999, "1"), (1400, "1"), (61_000, "61")];
    for (millis, shown) in rows {
        let fault = Fault::QueueTimeout(Span::from_millis(millis));
        let body = String::from_utf8(error::body(&fault.into()).to_vec()).unwrap();
        assert!(body.contains(&format!("after {shown}s in queue")), "{body}");
    }
}

#[test]
fn n02_retry_after_is_whole_seconds_below_a_minute() {
    let rows = [
        (None, "1"),
        (Some(Span::ZERO), "1"),
        (Some(Span::from_nanos(1)), "1"),
        (Some(Span::from_secs(1)), "1"),
        (Some(Span::from_nanos(1_000_000_001)), "2"),
        (Some(Span::from_secs(59)), "59"),
        (Some(Span::from_secs(60)), "59"),
        (Some(Span::from_nanos(u64::MAX)), "59"),
    ];
    for (span, shown) in rows {
        assert_eq!(refused(Fault::QueueFull, span).headers()["retry-after"], shown);
    }
    assert!(
        !refused(Fault::Internal, Some(Span::from_secs(9))).headers().contains_key("retry-after")
    );
}

#[test]
fn c09_an_error_with_any_quoted_text_is_one_line_of_json() {
    let fault = Fault::ModelNotFound("a\"b\n\u{0}\u{2028}é".into());
    let body = error::body(&fault.into());
    assert!(!body.contains(&b'\n'));
    let value: Value = serde_json::from_slice(&body).unwrap();
    assert!(value["error"]["message"].as_str().unwrap().contains("a\"b\n\u{0}\u{2028}é"));
}

fn choice(boost: f64, power_watts: f64) -> RouteChoice {
    let score = RouteScore { total: 1.0, boost, ..RouteScore::default() };
    let reason = RouteReason::BestEffortPowerEfficient;
    RouteChoice {
        cached_tokens: 0,
        at: 0,
        reason,
        score,
        depth: 0,
        pending: [0; 4],
        weighted_depth: 0.0,
        power_watts,
        latency_ms: Some(799.6),
    }
}

fn told(choice: Option<RouteChoice>, waited: Span) -> HeaderMap {
    let (backend, request_id) =
        (&HeaderValue::from_static("ollama-npu"), &HeaderValue::from_static("r-1"));
    let mut headers = HeaderMap::new();
    headers.insert("x-backend-used", HeaderValue::from_static("a backend's own word"));
    let choice = choice.as_ref();
    describe(&mut headers, &RouteDescription { backend, choice, waited, request_id });
    headers
}

#[test]
fn r04_response_headers_describe_the_route() {
    let headers = told(Some(choice(-100.0, 3.0)), Span::from_nanos(12_999_999));
    let expected = [
        ("x-backend-used", "ollama-npu"),
        ("x-routing-reason", "best-effort-power-efficient"),
        ("x-estimated-latency-ms", "800"),
        ("x-queue-depth", "0"),
        ("x-queue-wait-ms", "12"),
        ("x-priority-boost", "-100"),
        ("x-estimated-power-w", "3.0"),
        ("x-estimated-power-watts", "3.0"),
        ("x-request-id", "r-1"),
    ];
    assert_eq!(headers.len(), expected.len());
    for (name, value) in expected {
        assert_eq!(headers[name], value, "{name}");
    }
}

#[test]
fn r04_figures_are_written_to_a_tenth() {
    let shown = |boost, power| {
        let headers = told(Some(choice(boost, power)), Span::ZERO);
        let text = |name| headers[name].to_str().unwrap().to_owned();
        (text("x-priority-boost"), text("x-estimated-power-w"))
    };
    assert_eq!(shown(500.0, 55.0), ("500".into(), "55.0".into()));
    assert_eq!(shown(200.0, 20.0), ("200".into(), "20.0".into()));
    assert_eq!(shown(0.0, 0.04), ("0".into(), "0.0".into()));
    assert_eq!(shown(-0.54, 12.25), ("-0.5".into(), "12.3".into()));
    assert_eq!(shown(10.0, 1234.56), ("10".into(), "1234.6".into()));
    assert_eq!(shown(f64::NAN, f64::INFINITY), ("0".into(), "100000000000.0".into()));
    assert_eq!(shown(f64::NEG_INFINITY, 0.04).0, "-100000000000");
}

#[test]
fn r04_unknown_values_have_no_header_and_headroom_is_optional() {
    let mut headers = told(None, Span::from_secs(2));
    assert_eq!(headers.len(), 3, "{headers:?}");
    report_room(&mut headers, 7, Span::from_secs(2));
    assert_eq!(headers["x-llm-d-flow-band-headroom-requests"], "7");
    assert_eq!(headers["x-llm-d-flow-queue-duration-ms"], "2000");
    let mut headers = HeaderMap::new();
    report_load(&mut headers, 0.5);
    assert_eq!(headers["endpoint-load-metrics"], "TEXT application_utilization=0.500");
    report_load(&mut headers, f64::NAN);
    assert_eq!(headers["endpoint-load-metrics"], "TEXT application_utilization=0.000");
    identify(&mut headers, &HeaderValue::from_static("r-2"));
    assert_eq!(headers["x-request-id"], "r-2");
}
