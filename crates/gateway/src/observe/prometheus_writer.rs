//! Writer for metrics: families with their help and type, then samples. The format is the text
//! format of Prometheus. A client that asks for OpenMetrics gets OpenMetrics, with exemplars.

use std::fmt::{Display, Write};

use http::HeaderMap;
use http::header::ACCEPT;

use super::histogram::{Exemplar, Exemplars, HistogramSnapshot, STEPS};
use super::size_histogram::SizeSnapshot;

/// The prefix of every metric whose name is ours.
pub(super) const PREFIX: &str = "tidegate_";

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS_NAME: &str = "application/openmetrics-text";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The format of the whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// The text format of Prometheus, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// One media type of `Accept`, with its parameters.
struct MediaRange<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// How much the client wants it (`q`), in thousandths. Zero: not at all.
    weight: u16,
}

/// The type of a family.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// The name and the value of a label.
pub(super) type Pair<'a> = (&'a str, &'a str);

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct MetricsText {
    out: String,
    format: MetricsFormat,
}

/// One family, to which samples are added.
#[derive(Debug)]
pub(super) struct Family<'a> {
    out: &'a mut String,
    format: MetricsFormat,
    prefix: &'static str,
    name: &'static str,
}

// === impl MetricsFormat ===

impl MetricsFormat {
    /// The format that a client asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = accepts.flat_map(|value| value.split(',')).map(MediaRange::parse);
        let ranges: Vec<MediaRange<'_>> = ranges.filter(MediaRange::is_version).collect();
        // A range that names nothing in particular is met by either, so it says nothing.
        let weight = |name: &str| {
            let named = ranges.iter().filter(|range| range.name.eq_ignore_ascii_case(name));
            named.map(|range| range.weight).max().unwrap_or(0)
        };
        let (open, plain) = (weight(OPEN_METRICS_NAME), weight("text/plain"));
        match open > 0 && open >= plain {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => PROMETHEUS,
            Self::OpenMetrics => OPEN_METRICS,
        }
    }
}

// === impl MediaRange ===

impl<'a> MediaRange<'a> {
    /// Whether it allows the version of OpenMetrics that is written, if it means OpenMetrics.
    fn is_version(&self) -> bool {
        let is_open = self.name.eq_ignore_ascii_case(OPEN_METRICS_NAME);
        !is_open || self.version.is_none_or(|version| version == "1.0.0")
    }

    fn parse(part: &'a str) -> Self {
        let mut pieces = part.split(';').map(str::trim_ascii);
        let name = pieces.next().unwrap_or_default();
        let mut range = Self { name, version: None, weight: 1000 };
        for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
            if key.eq_ignore_ascii_case("version") {
                range.version = Some(value.trim_matches('"'));
            } else if key.eq_ignore_ascii_case("q") {
                // A weight that is no number says nothing, as if it were not there.
                let weight = value.parse().unwrap_or(1.0_f64).clamp(0.0, 1.0);
                range.weight = (weight * 1000.0) as u16;
            }
        }
        range
    }
}

// === impl MetricsText ===

impl MetricsText {
    pub(super) fn new(format: MetricsFormat) -> Self {
        Self { out: String::new(), format }
    }

    /// Begins a family with our prefix.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        kind: MetricType,
        help: &str,
    ) -> Family<'_> {
        self.begin((PREFIX, name), kind, help)
    }

    /// Writes a family of gauges that one label tells apart.
    pub(super) fn gauges<'a, V: Display>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        let mut family = self.family(name, MetricType::Gauge, help);
        for (text, value) in values {
            family.add(&[(label, text)], value);
        }
    }

    /// Begins a family whose full name is given.
    pub(super) fn bare(&mut self, name: &'static str, kind: MetricType, help: &str) -> Family<'_> {
        self.begin(("", name), kind, help)
    }

    fn begin(
        &mut self,
        (prefix, name): (&'static str, &'static str),
        kind: MetricType,
        help: &str,
    ) -> Family<'_> {
        // In OpenMetrics the name of a counter has no ending; its samples have.
        let (title, kind) = match (kind, self.format) {
            (MetricType::Counter, MetricsFormat::Prometheus) => (name, "counter"),
            (MetricType::Counter, MetricsFormat::OpenMetrics) => {
                name.strip_suffix("_total").map_or((name, "unknown"), |title| (title, "counter"))
            }
            (MetricType::Gauge, _) => (name, "gauge"),
            (MetricType::Histogram, _) => (name, "histogram"),
        };
        self.out.extend(["# HELP ", prefix, title, " ", help, "\n"]);
        self.out.extend(["# TYPE ", prefix, title, " ", kind, "\n"]);
        Family { out: &mut self.out, format: self.format, prefix, name }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

// === impl Family ===

impl Family<'_> {
    pub(super) fn add(&mut self, labels: &[Pair<'_>], value: impl Display) {
        self.sample("", labels, value);
    }

    pub(super) fn add_histogram(
        &mut self,
        labels: &[Pair<'_>],
        reading: &HistogramSnapshot,
        exemplars: Option<&Exemplars>,
    ) {
        let mut with_step = labels.to_vec();
        with_step.push(("le", ""));
        let last = with_step.len() - 1;
        let exemplars = exemplars.filter(|_| self.format == MetricsFormat::OpenMetrics);
        let counts = reading.up_to.into_iter().chain([reading.count]);
        for (at, count) in counts.enumerate() {
            with_step[last].1 = STEPS.get(at).map_or("+Inf", |&(_, text)| text);
            self.series("_bucket", &with_step);
            // Writing to a string cannot fail.
            _ = write!(self.out, " {count}");
            if let Some(exemplar) = exemplars.and_then(|exemplars| exemplars[at].as_ref()) {
                exemplar.write(self.out);
            }
            self.out.push('\n');
        }
        self.sample("_sum", labels, reading.sum_secs);
        self.sample("_count", labels, reading.count);
    }

    pub(super) fn add_sizes(&mut self, labels: &[Pair<'_>], reading: &SizeSnapshot) {
        for (exponent, count) in reading.up_to.into_iter().chain([reading.count]).enumerate() {
            // OpenMetrics has whole numbers as `1.0`.
            let bound = match exponent < reading.up_to.len() {
                true => format!("{}.0", 1_u64 << exponent),
                false => "+Inf".to_owned(),
            };
            let with_step: Vec<Pair<'_>> =
                labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample("_bucket", &with_step, count);
        }
        self.sample("_sum", labels, reading.sum);
        self.sample("_count", labels, reading.count);
    }

    fn sample(&mut self, suffix: &str, labels: &[Pair<'_>], value: impl Display) {
        self.series(suffix, labels);
        _ = writeln!(self.out, " {value}");
    }

    fn series(&mut self, suffix: &str, labels: &[Pair<'_>]) {
        self.out.extend([self.prefix, self.name, suffix]);
        for (at, (name, text)) in labels.iter().enumerate() {
            self.out.push_str(if at == 0 { "{" } else { "," });
            self.out.extend([name, "=\""]);
            escape(self.out, text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
    }
}

// === impl Exemplar ===

impl Exemplar {
    fn write(&self, out: &mut String) {
        let trace = u128::from_be_bytes(self.trace);
        let (span, at) = (self.span.secs_f64(), self.at.as_secs_f64());
        _ = write!(out, " # {{trace_id=\"{trace:032x}\"}} {span} {at:.3}");
    }
}

/// Escapes the value of a label.
fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            _ => out.push(letter),
        }
    }
}
