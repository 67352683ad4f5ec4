//! M02: the variables of OpenTelemetry, as keys of `traces`.

use super::super::settings::{TraceProtocol, Traces};
use super::*;

fn with(file: &str, variables: &[(&str, &str)], tracing: Option<bool>) -> Config {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let variables = variables.iter().map(owned).collect();
    let source = Source { variables, tracing, ..source("t.toml") };
    resolve(&source, file).unwrap_or_else(|error| panic!("{error}"))
}

fn traces(variables: &[(&str, &str)]) -> Traces {
    with("", variables, None).traces.expect("traces are on")
}

fn notices(config: &Config) -> Vec<String> {
    config.notices.iter().map(ToString::to_string).collect()
}

const MINE: &str = "[traces]\nendpoint = 'http://mine:4318'\nservice_name = 'mine'\n";
const HTTP: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

#[test]
fn m02_the_endpoint_and_the_protocol_are_those_of_the_variables() {
    let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let protocol = "OTEL_EXPORTER_OTLP_PROTOCOL";
    for (variables, endpoint, expected) in [
        (vec![HTTP], "http://collector:4318", TraceProtocol::Http),
        (vec![(HTTP.0, "http://c:4317")], "http://c:4317", TraceProtocol::Grpc),
        (vec![(HTTP.0, "c:4317")], "http://c:4317", TraceProtocol::Grpc),
        (vec![HTTP, (protocol, "grpc")], "http://collector:4318", TraceProtocol::Grpc),
        (vec![HTTP, (own, "http://d:9/v1/traces")], "http://d:9", TraceProtocol::Http),
        (vec![(own, "http://d:4317"), (protocol, "grpc")], "http://d:4317", TraceProtocol::Grpc),
        (vec![HTTP, ("OTEL_TRACES_EXPORTER", "otlp")], HTTP.1, TraceProtocol::Http),
    ] {
        let found = traces(&variables);
        assert_eq!((found.endpoint.as_str(), found.protocol), (endpoint, expected));
    }
    let flagged = with("", &[], Some(true)).traces.unwrap();
    assert_eq!(
        (flagged.endpoint.as_str(), flagged.protocol),
        ("http://localhost:4317", TraceProtocol::Grpc)
    );
}

#[test]
fn m02_the_name_of_the_service_and_the_sampler_are_those_of_the_variables() {
    let sampler = |kind, arg| {
        let found =
            traces(&[HTTP, ("OTEL_TRACES_SAMPLER", kind), ("OTEL_TRACES_SAMPLER_ARG", arg)]);
        (found.sample_ratio, found.follow_parent)
    };
    for (kind, arg, expected) in [
        ("always_on", "0.3", (1.0, false)),
        ("always_off", "", (0.0, false)),
        ("traceidratio", "0.25", (0.25, false)),
        ("traceidratio", "", (1.0, false)),
        ("parentbased_always_on", "", (1.0, true)),
        ("parentbased_always_off", "", (0.0, true)),
        ("parentbased_traceidratio", "0.1", (0.1, true)),
        ("parentbased_traceidratio", "2", (1.0, true)),
        ("jaeger_remote", "", (1.0, true)),
    ] {
        assert_eq!(sampler(kind, arg), expected, "{kind} {arg}");
    }
    let name = |variables: &[(&str, &str)]| traces(&[&[HTTP], variables].concat()).service_name;
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p, service.name=epp");
    assert_eq!(name(&[]), "tidegate");
    assert_eq!(name(&[attributes]), "epp");
    assert_eq!(name(&[attributes, ("OTEL_SERVICE_NAME", "picker")]), "picker");
    assert_eq!(traces(&[HTTP, ("OTEL_BSP_MAX_QUEUE_SIZE", "7")]).queue_max, 7);
}

#[test]
fn m02_everything_that_is_given_otherwise_goes_before_the_variables() {
    let all = [
        (HTTP.0, "http://c:4317"),
        ("OTEL_SERVICE_NAME", "theirs"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("TIDEGATE_TRACES__SAMPLE_RATIO", "0.5"),
    ];
    let found = with(MINE, &all, None).traces.unwrap();
    assert_eq!(
        (found.endpoint.as_str(), found.protocol),
        ("http://mine:4318", TraceProtocol::Http)
    );
    assert_eq!((found.service_name.as_str(), found.sample_ratio), ("mine", 0.5));
    assert!(!found.follow_parent, "nothing else gives it");
}

#[test]
fn m02_traces_are_off_where_a_variable_or_the_flag_says_so() {
    for (file, variables, flag) in [
        ("", vec![], None),
        ("", vec![HTTP, ("OTEL_SDK_DISABLED", "TRUE")], None),
        ("", vec![HTTP, ("OTEL_TRACES_EXPORTER", "none")], Some(true)),
        ("", vec![HTTP], Some(false)),
        (MINE, vec![HTTP], Some(false)),
        (MINE, vec![HTTP, ("OTEL_SDK_DISABLED", "true")], None),
        (MINE, vec![("OTEL_TRACES_EXPORTER", "none")], Some(true)),
        ("", vec![("OTEL_SERVICE_NAME", "alone")], None),
    ] {
        let config = with(file, &variables, flag);
        assert!(config.traces.is_none() && config.notices.is_empty(), "{variables:?}");
    }
}

#[test]
fn m02_what_is_not_supported_is_told() {
    for (name, text, said, on) in [
        ("OTEL_TRACES_EXPORTER", "console", "traces are off", false),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "traces are off", false),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:9/else", "/v1/traces", false),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret", "no further headers", true),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip", "not compressed", true),
        ("OTEL_TRACES_SAMPLER", "xray", "parentbased_always_on", true),
        ("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p", "k8s.pod.name", true),
        ("OTEL_PROPAGATORS", "b3", "tracecontext", true),
        ("OTEL_TRACES_SAMPLER_ARG", "half", "0 to 1", true),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many", "1 to 1000000", true),
    ] {
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        let sampled = name.ends_with("_ARG").then_some(ratio);
        let variables: Vec<_> = [HTTP, (name, text)].into_iter().chain(sampled).collect();
        let config = with("", &variables, None);
        let told = notices(&config);
        assert!(told.len() == 1 && told[0].contains(said), "{name}: {told:?}");
        assert!(told[0].contains(name) && !told[0].contains("secret"), "{told:?}");
        assert_eq!(config.traces.is_some(), on, "{name}");
    }
}
