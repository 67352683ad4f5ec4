//! Tests of sampling, of the bounded queue and of the ids.

use std::collections::BTreeSet;

use flow::Time;
use http::{HeaderMap, HeaderValue};

use super::*;
use crate::config::settings::TraceProtocol;
use crate::observe::tests::served;

fn tracer(sample_ratio: f64, queue_max: usize) -> Tracer {
    Tracer::new(&Traces {
        endpoint: "http://127.0.0.1:4318".into(),
        protocol: TraceProtocol::Http,
        sample_ratio,
        follow_parent: true,
        service_name: "tidegate".into(),
        queue_max,
    })
}

#[test]
fn m02_a_ratio_is_met_and_is_the_same_for_a_trace_in_every_process() {
    for (ratio, range) in [(0.0, 0..=0), (0.25, 2300..=2700), (1.0, 10_000..=10_000)] {
        let (one, other) = (tracer(ratio, 1), tracer(ratio, 1));
        let mut sampled = 0;
        for _ in 0..10_000 {
            let trace = one.fresh_trace();
            assert_eq!(one.samples(trace), other.samples(trace));
            sampled += usize::from(one.samples(trace));
        }
        assert!(range.contains(&sampled), "{ratio}: {sampled}");
    }
}

#[test]
fn m02_a_parent_decides_unless_it_is_not_followed() {
    let headers = |flags: &str| {
        let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_str(&text).unwrap())])
    };
    let (all, none) = (tracer(1.0, 1), tracer(0.0, 1));
    assert!(all.begin(&headers("00"), Time::ZERO).is_none());
    assert!(none.begin(&headers("01"), Time::ZERO).is_some());
    let settings = Traces { follow_parent: false, ..all.settings.clone() };
    assert!(Tracer::new(&settings).begin(&headers("00"), Time::ZERO).is_some());
}

#[test]
fn m02_the_queue_of_traces_is_bounded() {
    let tracer = tracer(1.0, 3);
    for _ in 0..10 {
        let trace = tracer.begin(&HeaderMap::new(), Time::ZERO).unwrap();
        tracer.ended(&served("chat", "llama"), trace, Time::ZERO);
    }
    assert_eq!(tracer.queue().len(), 3);
    assert_eq!(tracer.counts(), (0, [7, 0]));
}

#[test]
fn m02_a_trace_that_waits_is_small_whatever_a_client_sends() {
    let tracer = tracer(1.0, 1);
    let mut headers = HeaderMap::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    headers.insert(TRACEPARENT, HeaderValue::from_static(parent));
    headers.insert("tracestate", HeaderValue::from_str(&"s".repeat(60_000)).unwrap());
    let long = "é".repeat(30_000);
    let record =
        Record { path: long.clone(), flow: long.clone(), workload: long, ..served("m", "m") };
    let trace = tracer.begin(&headers, Time::ZERO).unwrap();
    tracer.ended(&record, trace, Time::ZERO);
    let batch = std::mem::take(&mut *tracer.queue());
    let kept = &batch[0].record;
    assert_eq!(kept.path.capacity() + kept.flow.capacity() + kept.workload.capacity(), 2048);
    assert!(batch[0].trace.state.is_empty());
    assert!(tracer.encode(&batch).len() < 4096);
}

#[test]
fn m02_ids_differ() {
    let tracer = tracer(1.0, 1);
    let ids: BTreeSet<SpanId> = (0..10_000).map(|_| tracer.fresh_span()).collect();
    assert_eq!(ids.len(), 10_000);
    assert!(!ids.contains(&SpanId::default()));
}
