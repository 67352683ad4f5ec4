//! The variables of OpenTelemetry, as its specification describes them: `OTEL_SERVICE_NAME` is
//! `traces.service_name`. Each stands for a key that nothing else gives.
//!
//! The specification wants a warning for a value that is not supported, and no failure: the same
//! variables are given to many programs.

use super::{Assignment, Given, Step, assign, is_given};
use crate::config::Source;
use crate::schema::{Finding, Origin, Report, Table, Value};

/// What the names of these variables begin with.
pub(crate) const PREFIX: &str = "OTEL_";

const ENDPOINT: &str = "traces.endpoint";
/// The receiver where traces are wanted and none is named, and the port of gRPC.
const USUAL: &str = "http://localhost:4317";
const GRPC_PORT: &str = ":4317";
/// The path that is added to an endpoint for HTTP.
const PATH: &str = "/v1/traces";

/// The range of `traces.queue_max`.
const QUEUE_MIN: u32 = 1;
const QUEUE_MAX: u32 = 1_000_000;

/// Variables about traces that have no meaning here, and why.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("EXPORTER_OTLP_HEADERS", "no further headers are sent to the receiver"),
    ("EXPORTER_OTLP_CERTIFICATE", "the roots of the system count, or those in SSL_CERT_FILE"),
    ("EXPORTER_OTLP_CLIENT_CERTIFICATE", "the receiver gets no certificate of a client"),
    ("EXPORTER_OTLP_CLIENT_KEY", "the receiver gets no certificate of a client"),
    ("EXPORTER_OTLP_COMPRESSION", "messages are not compressed"),
    ("EXPORTER_OTLP_TIMEOUT", "the receiver has ten seconds"),
    ("BSP_SCHEDULE_DELAY", "traces are sent as they end"),
];

/// The variables, and what is given otherwise.
struct Variables<'a> {
    source: &'a Source,
    report: &'a Report,
}

/// Puts the values of the variables where nothing else gives a value.
pub(super) fn apply(root: &mut Table, source: &Source, report: &Report) {
    let variables = Variables { source, report };
    if source.tracing == Some(false) || variables.switch_off() {
        if let Some(Value::Table(traces)) = root.get_mut("traces").map(|node| &mut node.value) {
            traces.remove("endpoint");
        }
        return;
    }
    if !is_given(root, ENDPOINT) && !variables.endpoint(root) {
        return;
    }
    variables.sampler(root);
    variables.service(root);
    if let Some((name, text)) = variables.get("BSP_MAX_QUEUE_SIZE") {
        match text.parse::<u32>() {
            Ok(QUEUE_MIN..=QUEUE_MAX) => put(root, "traces.queue_max", name, text, report),
            _ => variables.notice(&format!(
                "{name} is {text:?}, allowed is {QUEUE_MIN} to {QUEUE_MAX}; the default counts"
            )),
        }
    }
    for (name, why) in UNSUPPORTED {
        if let Some((name, _)) = variables.of_traces(name) {
            variables.notice(&format!("{name} has no effect: {why}"));
        }
    }
    if let Some((name, text)) = variables.get("PROPAGATORS")
        && !text.split(',').any(|word| word.trim() == "tracecontext")
    {
        variables.notice(&format!(
            "{name} is {text:?}, which is not supported: the context of a trace is read from \
             traceparent and written there (tracecontext)"
        ));
    }
}

/// Puts a value, unless there is one.
fn put(root: &mut Table, key: &str, name: &str, text: &str, report: &Report) {
    if !is_given(root, key) {
        let steps = key.split('.').map(|part| Step::Name(part.into())).collect();
        let origin = Origin::Variable(name.to_owned());
        assign(root, &Assignment { steps, text: Given::Text(text.into()), origin }, report);
    }
}

// === impl Variables ===

impl<'a> Variables<'a> {
    /// The name and the value of a variable. One without a value counts as not set.
    fn get(&self, name: &str) -> Option<(&'a str, &'a str)> {
        let mut all = self.source.variables.iter();
        let found = all.find(|(other, _)| other.strip_prefix(PREFIX) == Some(name));
        found.map(|(name, text)| (name.as_str(), text.trim())).filter(|(_, text)| !text.is_empty())
    }

    /// The same, where a variable for traces alone goes before that for all signals.
    fn of_traces(&self, name: &str) -> Option<(&'a str, &'a str)> {
        let own = name.replacen("EXPORTER_OTLP_", "EXPORTER_OTLP_TRACES_", 1);
        self.get(&own).or_else(|| self.get(name))
    }

    fn notice(&self, text: &str) {
        self.report.add_notice(Finding::elsewhere(text.to_owned()));
    }

    /// Whether one of them switches traces off, whatever else is given.
    fn switch_off(&self) -> bool {
        let is =
            |name, word| self.get(name).is_some_and(|(_, text)| text.eq_ignore_ascii_case(word));
        is("SDK_DISABLED", "true") || is("TRACES_EXPORTER", "none")
    }

    /// Puts the receiver. Returns whether there is one.
    fn endpoint(&self, root: &mut Table) -> bool {
        if let Some((name, text)) = self.get("TRACES_EXPORTER") {
            let mut kinds = text.split(',').map(str::trim);
            if !kinds.any(|kind| kind == "otlp") {
                let what = "which is not supported: traces are off; otlp and none are";
                self.notice(&format!("{name} is {text:?}, {what}"));
                return false;
            }
        }
        let usual = (self.source.tracing == Some(true)).then_some(("--tracing", USUAL));
        let Some((name, text)) = self.of_traces("EXPORTER_OTLP_ENDPOINT").or(usual) else {
            return false;
        };
        let Some(is_grpc) = self.is_grpc(text) else { return false };
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        // The address for traces alone is that of the path itself.
        let base = match (is_grpc, name.contains("_TRACES_")) {
            (false, true) => url.trim_end_matches('/').strip_suffix(PATH),
            _ => Some(url.as_str()),
        };
        let Some(base) = base else {
            let what = format!("and an address for HTTP must end with {PATH}: traces are off");
            self.notice(&format!("{name} is {text:?}, {what}"));
            return false;
        };
        put(root, ENDPOINT, name, base, self.report);
        put(root, "traces.protocol", name, if is_grpc { "grpc" } else { "http" }, self.report);
        true
    }

    /// Whether the receiver speaks gRPC; `None` for a protocol that is not supported.
    fn is_grpc(&self, endpoint: &str) -> Option<bool> {
        let Some((name, text)) = self.of_traces("EXPORTER_OTLP_PROTOCOL") else {
            return Some(endpoint.trim_end_matches('/').ends_with(GRPC_PORT));
        };
        match text {
            "grpc" => Some(true),
            "http/protobuf" => Some(false),
            _ => {
                let what = "which is not supported: traces are off; grpc and http/protobuf are";
                self.notice(&format!("{name} is {text:?}, {what}"));
                None
            }
        }
    }

    fn sampler(&self, root: &mut Table) {
        let Some((name, text)) = self.get("TRACES_SAMPLER") else { return };
        let (follows, kind) = match text.strip_prefix("parentbased_") {
            Some(kind) => ("true", kind),
            None => ("false", text),
        };
        let ratio = match kind {
            "always_on" => "1.0",
            "always_off" => "0.0",
            "traceidratio" => self.ratio(),
            _ => {
                let what = "which is not supported: the default parentbased_always_on counts";
                return self.notice(&format!("{name} is {text:?}, {what}"));
            }
        };
        put(root, "traces.sample_ratio", name, ratio, self.report);
        put(root, "traces.follow_parent", name, follows, self.report);
    }

    /// The share of requests that are traced.
    fn ratio(&self) -> &'a str {
        let Some((name, text)) = self.get("TRACES_SAMPLER_ARG") else { return "1.0" };
        if text.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)) {
            return text;
        }
        self.notice(&format!("{name} is {text:?}, allowed is 0 to 1; the default 1.0 counts"));
        "1.0"
    }

    /// The name of the service. Other attributes of the resource are not sent.
    fn service(&self, root: &mut Table) {
        let own = self.get("SERVICE_NAME");
        let Some((name, text)) = self.get("RESOURCE_ATTRIBUTES") else {
            if let Some((name, text)) = own {
                put(root, "traces.service_name", name, text, self.report);
            }
            return;
        };
        let pairs = || text.split(',').filter_map(|pair| pair.split_once('='));
        let listed = pairs().find(|(key, _)| key.trim() == "service.name");
        if let Some((name, text)) = own.or(listed.map(|(_, value)| (name, value.trim()))) {
            put(root, "traces.service_name", name, text, self.report);
        }
        let others: Vec<&str> =
            pairs().map(|(key, _)| key.trim()).filter(|key| *key != "service.name").collect();
        if !others.is_empty() {
            let others = others.join(", ");
            self.notice(&format!("{name} has {others}, which are not sent; service.name is"));
        }
    }
}
