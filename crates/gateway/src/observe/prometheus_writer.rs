//! Writer for the Prometheus text format, version 0.0.4: families with their help and type, then
//! samples.

use std::fmt::{Display, Write};

use super::histogram::{HistogramSnapshot, STEPS};

/// The prefix of every metric whose name is ours.
pub(super) const PREFIX: &str = "tidegate_";

/// The media type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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
}

/// One family, to which samples are added.
#[derive(Debug)]
pub(super) struct Family<'a> {
    out: &'a mut String,
    prefix: &'static str,
    name: &'static str,
}

// === impl MetricsText ===

impl MetricsText {
    /// Begins a family with our prefix.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        kind: MetricType,
        help: &str,
    ) -> Family<'_> {
        self.begin((PREFIX, name), kind, help)
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
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.out.extend(["# HELP ", prefix, name, " ", help, "\n"]);
        self.out.extend(["# TYPE ", prefix, name, " ", kind, "\n"]);
        Family { out: &mut self.out, prefix, name }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

// === impl Family ===

impl Family<'_> {
    pub(super) fn add(&mut self, labels: &[Pair<'_>], value: impl Display) {
        self.sample("", labels, value);
    }

    pub(super) fn add_histogram(&mut self, labels: &[Pair<'_>], reading: &HistogramSnapshot) {
        let mut with_step = labels.to_vec();
        with_step.push(("le", ""));
        let last = with_step.len() - 1;
        for (&(_, step), count) in STEPS.iter().zip(reading.up_to) {
            with_step[last].1 = step;
            self.sample("_bucket", &with_step, count);
        }
        with_step[last].1 = "+Inf";
        self.sample("_bucket", &with_step, reading.count);
        self.sample("_sum", labels, reading.sum_secs);
        self.sample("_count", labels, reading.count);
    }

    fn sample(&mut self, suffix: &str, labels: &[Pair<'_>], value: impl Display) {
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
        // Writing to a string cannot fail.
        _ = writeln!(self.out, " {value}");
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
