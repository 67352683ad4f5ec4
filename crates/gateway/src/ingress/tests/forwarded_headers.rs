//! R05, X03: the headers that reach a backend.

use http::HeaderMap;

use super::headers::to_upstream;
use super::*;

fn forwarded(given: &[(&str, &[u8])]) -> HeaderMap {
    let parts = parts(Method::POST, CHAT, given);
    let mut forwarded = HeaderMap::new();
    for (name, value) in to_upstream(parts.headers, &HeaderValue::from_static("the-id")).iter() {
        forwarded.append(name, value.clone());
    }
    forwarded
}

#[test]
fn x03_control_and_connection_headers_end_at_the_edge() {
    let names = [
        "x-priority",
        "x-nexus-priority",
        "x-nexus-strict",
        "x-workload-context",
        "x-max-latency-ms",
        "x-latency-critical",
        "x-media-type",
        "x-request-timeout-ms",
        "x-queue-status",
        "x-gateway-inference-objective",
        "x-llm-d-inference-objective",
        "x-gateway-inference-fairness-id",
        "x-llm-d-inference-fairness-id",
        "x-llm-d-inference-ttl",
        "x-slo-ttft-ms",
        "x-slo-tpot-ms",
        "x-llm-d-slo-ttft-ms",
        "x-gateway-destination-endpoint",
        "x-gateway-destination-endpoint-subset",
        "x-gateway-model-name-rewrite",
        "x-target-backend",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
        "expect",
        "host",
        "content-length",
    ];
    let given: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, b"1".as_slice())).collect();
    let left = forwarded(&given);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left["x-request-id"], "the-id");
}

#[test]
fn r05_everything_else_is_forwarded_as_it_came() {
    let given: [(&str, &[u8]); 9] = [
        ("authorization", b"Bearer secret"),
        ("content-type", b"application/json"),
        ("accept", b"text/event-stream"),
        ("traceparent", b"00-1-2-01"),
        ("tracestate", b"a=b"),
        ("baggage", b"k=v"),
        ("x-custom", b"\xe9"),
        ("x-many", b"1"),
        ("x-many", b"2"),
    ];
    let left = forwarded(&given);
    assert_eq!(left.len(), given.len() + 1);
    for (name, value) in given {
        assert!(left.get_all(name).iter().any(|found| found.as_bytes() == value), "{name}");
    }
}

#[test]
fn r05_the_id_of_the_client_gives_way_to_the_one_in_use() {
    let left = forwarded(&[("x-request-id", b"bad id"), ("x-request-id", b"another")]);
    assert_eq!(left.get_all("x-request-id").iter().collect::<Vec<_>>(), ["the-id"]);
}

#[test]
fn x03_a_wish_for_trailers_is_passed_on_alone() {
    assert_eq!(forwarded(&[("te", b"gzip, Trailers;q=1")]).get("te"), None);
    let left =
        forwarded(&[("te", b"gzip, Trailers"), ("connection", b"TE, x-hop"), ("x-hop", b"1")]);
    assert_eq!(left["te"], "trailers");
    assert!(!left.contains_key("x-hop") && !left.contains_key("connection"));
}
