//! Tests of sampling, of the bounded queue, of the ids and of the bytes.

mod messages;

use std::collections::BTreeSet;

use flow::{Span, Time};
use http::{HeaderMap, HeaderValue};
use prost::Message as _;

use self::messages::{AttributeValue, ExportTraceServiceRequest, KeyValue, OtlpSpan};
use super::context::SpanId;
use super::span_writer::{SpanHead, SpanKind, SpanWriter, key};
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
            let trace = fresh_trace(one.fresh_number());
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
    assert_eq!((tracer.queue().len(), tracer.queued.load(Relaxed)), (3, 3));
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
    let batch = tracer.queue().take().unwrap();
    assert!(tracer.message(batch).len() < 4096);
}

#[test]
fn m02_ids_differ() {
    let tracer = tracer(1.0, 1);
    let numbers: Vec<u64> = (0..10_000).map(|_| tracer.fresh_number()).collect();
    let roots = numbers.iter().map(|&number| context::span_id(number));
    let below = numbers.iter().map(|&number| context::derived(context::span_id(number), 1));
    let ids: BTreeSet<SpanId> = roots.chain(below).collect();
    assert_eq!(ids.len(), 20_000);
    assert!(!ids.contains(&SpanId::default()));
    let traces: BTreeSet<TraceId> = numbers.iter().map(|&number| fresh_trace(number)).collect();
    assert_eq!(traces.len(), 10_000);
}

fn value(attributes: &[KeyValue], key: &str) -> Option<AttributeValue> {
    let found = attributes.iter().find(|pair| pair.key == key)?;
    found.value.clone()?.value
}

/// What a receiver reads of a batch.
fn read(tracer: &Tracer) -> (Vec<OtlpSpan>, Bytes) {
    let message = tracer.message(tracer.queue().take().unwrap());
    let read = ExportTraceServiceRequest::decode(message.clone()).unwrap();
    let resource = &read.resource_spans[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    let service = AttributeValue::Text("tidegate".into());
    assert_eq!(value(attributes, "service.name"), Some(service));
    let scope = resource.scope_spans[0].scope.as_ref().unwrap();
    assert_eq!(
        (scope.name.as_str(), scope.version.as_str()),
        ("tidegate", env!("CARGO_PKG_VERSION"))
    );
    (resource.scope_spans[0].spans.clone(), message)
}

#[test]
fn m02_messages_are_read_as_they_were_written() {
    let tracer = tracer(1.0, 1000);
    for round in 0..3 {
        for number in 0..5 {
            let mut trace = tracer.begin(&HeaderMap::new(), Time::from_millis(5)).unwrap();
            trace.began_waiting(Time::from_millis(6));
            let mut record = served("chat", "llama");
            record.total = Span::from_millis(20);
            (record.bytes_in, record.outcome, record.status) = (u64::MAX, "backend_error", 502);
            record.flow = "flow".repeat(number * 30);
            tracer.ended(&record, trace, Time::from_millis(25));
        }
        let (spans, message) = read(&tracer);
        assert_eq!(spans.len(), 10, "round {round}: the request and its wait, five times");
        for (number, pair) in spans.chunks(2).enumerate() {
            let (root, wait) = (&pair[0], &pair[1]);
            assert_eq!((wait.name.as_str(), wait.kind), ("wait in queue", 1));
            assert_eq!((&wait.trace_id, &wait.parent_span_id), (&root.trace_id, &root.span_id));
            assert_ne!(wait.span_id, root.span_id);
            assert_eq!(root.end_time_unix_nano - root.start_time_unix_nano, 20_000_000);
            assert_eq!(wait.end_time_unix_nano - wait.start_time_unix_nano, 19_000_000);
            assert_eq!((root.kind, root.flags), (2, 1));
            let flow = "flow".repeat(number * 30);
            let flow = Some(AttributeValue::Text(flow)).filter(|_| number > 0);
            assert_eq!(value(&root.attributes, "tidegate.flow"), flow);
            let size = value(&root.attributes, "http.request.body.size");
            assert_eq!(size, Some(AttributeValue::Int(i64::MAX)));
            let bypassed = value(&root.attributes, "tidegate.bypassed");
            assert_eq!(bypassed, Some(AttributeValue::Bool(true)));
            let status = root.status.as_ref().unwrap();
            assert_eq!((status.message.as_str(), status.code), ("backend_error", 2));
        }
        // The next message is written into the memory of this one.
        tracer.recycle(message);
    }
}

/// Lengths of one, two and three bytes, and texts at their bounds.
#[test]
fn m02_attributes_of_any_length_are_read_as_they_were_written() {
    let mut writer = SpanWriter::default();
    let texts: Vec<String> =
        (0..300).chain([1000, 1023, 1024]).map(|n| "é".repeat(n / 2)).collect();
    let head = SpanHead {
        trace: [1; 16],
        id: [2; 8],
        parent: Some([3; 8]),
        state: "vendor=1",
        kind: SpanKind::Client,
        times: (7, 9),
    };
    writer.begin(&head);
    writer.name("GET", "/path");
    for text in &texts {
        writer.text(key!("text"), text);
    }
    let numbers = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, u64::from(u32::MAX)];
    numbers.iter().for_each(|&number| writer.int(key!("int"), number));
    writer.event("first token", 8);
    writer.error("backend_error");
    writer.end();
    let bytes = writer.bytes();
    // The field and its padded length come before the span.
    let span = OtlpSpan::decode(&bytes[4..]).unwrap();
    assert_eq!((span.name.as_str(), span.trace_state.as_str()), ("GET /path", "vendor=1"));
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano, span.kind), (7, 9, 3));
    assert_eq!((span.events[0].name.as_str(), span.events[0].time_unix_nano), ("first token", 8));
    let written = texts.into_iter().filter(|text| !text.is_empty()).map(AttributeValue::Text);
    let written = written.chain(numbers.map(|number| AttributeValue::Int(number as i64)));
    let read = span.attributes.into_iter().map(|pair| pair.value.unwrap().value.unwrap());
    assert_eq!(read.collect::<Vec<_>>(), written.collect::<Vec<_>>());
}

/// Requests that are alike share bytes. More kinds than are kept take turns, and each has its own.
#[test]
fn m02_each_request_has_its_own_names_whatever_came_before() {
    let tracer = tracer(1.0, 1000);
    let kind = |number: usize| {
        let path = format!("/v1/{}", ["chat/completions", "embeddings", "mine"][number % 3]);
        let model = format!("model-{}", number % 11);
        Record { path, ..served(&model, &model) }
    };
    for number in (0..40).chain([3, 3, 3, 14, 3]) {
        let trace = tracer.begin(&HeaderMap::new(), Time::ZERO).unwrap();
        let record = kind(number);
        tracer.ended(&record, trace, Time::ZERO);
        let (spans, _) = read(&tracer);
        let text = |key: &str| match value(&spans[0].attributes, key) {
            Some(AttributeValue::Text(text)) => text,
            other => panic!("{key}: {other:?}"),
        };
        assert_eq!(text("url.path"), record.path);
        assert_eq!(text("gen_ai.request.model"), record.models().0);
        let name =
            if number % 3 == 2 { "POST".to_owned() } else { format!("POST {}", record.path) };
        assert_eq!(spans[0].name, name);
    }
}

#[test]
fn m02_spans_have_the_time_of_the_system() {
    let tracer = tracer(1.0, 1);
    let began = clock::nanos(clock::since_epoch());
    let first = tracer.unix_nanos(Time::from_millis(5000));
    assert!((began..=clock::nanos(clock::since_epoch())).contains(&first));
    let soon = tracer.unix_nanos(Time::from_millis(5999));
    assert_eq!(soon - first, 999_000_000, "the difference of the clocks is kept for a second");
    let later = tracer.unix_nanos(Time::from_millis(6000));
    assert!(later < first + 999_000_000, "it is read again, and no second has passed");
}
