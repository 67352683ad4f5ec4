//! Counters and histograms of requests and of attempts at backends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::BAND_NAMES;
use super::backend_metrics::{BackendMetrics, RESULTS};
use super::histogram::Histogram;
use super::labels::{ModelLabels, ModelNames, NONE};
use super::model_metrics::{self, ModelMetrics};
use super::outcome::{PUSH_ERRORS, QUEUE_TIMEOUT};
use super::prometheus_writer::{Family, MetricType, MetricsText, Pair};

type AllMetrics = [(ModelNames, Arc<ModelMetrics>)];

/// Label values of a pair of counters.
const DIRECTIONS: [&str; 2] = ["input", "output"];
const STAGES: [&str; 2] = ["waiting", "in_flight"];
const SUCCESS: [&str; 2] = ["false", "true"];

/// Writes all counters of requests and attempts.
pub(super) fn write(text: &mut MetricsText, model_labels: &ModelLabels, backends: &BackendMetrics) {
    let all_metrics = model_labels.all();
    write_requests(text, &all_metrics);
    write_queue(text, &all_metrics);
    write_durations(text, &all_metrics);
    write_sizes(text, &all_metrics);
    write_attempts(text, backends);
}

/// Writes the counters of requests that have ended, without a backend.
pub(super) fn write_ended(text: &mut MetricsText, model_labels: &ModelLabels) {
    write_requests(text, &model_labels.all());
}

/// Writes the number of dropped lines of the access log.
pub(super) fn write_lines_dropped(text: &mut MetricsText, dropped: u64) {
    let help = "Lines of the access log that were dropped because the reader was too slow.";
    text.family("access_log_dropped_total", MetricType::Counter, help).add(&[], dropped);
}

fn write_requests(text: &mut MetricsText, all_metrics: &AllMetrics) {
    let help = "Requests that have ended, by outcome and status class.";
    let mut family = text.family("requests_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        for ending in metrics.endings() {
            let [model, target] = names.pairs();
            let band = ("band", ending.band.map_or(NONE, |band| BAND_NAMES[band]));
            let ways = [("outcome", ending.outcome), ("code", ending.class)];
            family.add(&[model, target, band, ways[0], ways[1]], ending.count);
        }
    }
    let help = "Attempts of requests beyond their first.";
    let mut family = text.family("retries_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        family.add(&names.pairs(), metrics.retries.load(Relaxed));
    }
}

fn write_queue(text: &mut MetricsText, all_metrics: &AllMetrics) {
    let help = "Requests that bypassed the queue.";
    let mut family = text.family("bypass_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        family.add(&names.pairs(), metrics.bypassed.load(Relaxed));
    }
    let help = "Requests whose time to live ended in the queue.";
    let mut family = text.family("requests_expired_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        family.add(&names.pairs(), metrics.ended_in(QUEUE_TIMEOUT));
    }
    let help = "Requests that ended because the client left or its deadline passed.";
    let mut family = text.family("requests_cancelled_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        add_pair(&mut family, names, ("stage", STAGES), model_metrics::read(&metrics.cancelled));
    }
    let help = "Requests that could not be queued.";
    let mut family = text.family("queue_push_errors_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        for error in PUSH_ERRORS {
            let [model, target] = names.pairs();
            family.add(&[model, target, ("error_type", error)], metrics.ended_in(error));
        }
    }
}

fn write_durations(text: &mut MetricsText, all_metrics: &AllMetrics) {
    let help = "Time of requests in the queue, by whether they succeeded.";
    let mut family = text.family("queue_latency_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_metrics {
        for (band, pair) in BAND_NAMES.into_iter().zip(&metrics.queue_latency) {
            for (success, histogram) in SUCCESS.into_iter().zip(pair) {
                let [model, target] = names.pairs();
                let labels = [model, target, ("band", band), ("success", success)];
                add_used(&mut family, &labels, histogram);
            }
        }
    }
    let help = "From the arrival of a request to the first byte of its response.";
    let mut family = text.family("time_to_first_byte_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_metrics {
        add_bands(&mut family, names, &metrics.first_byte);
    }
    let help = "From the arrival of a request to the end of its response.";
    let mut family = text.family("request_duration_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_metrics {
        add_bands(&mut family, names, &metrics.total);
    }
}

fn write_sizes(text: &mut MetricsText, all_metrics: &AllMetrics) {
    let help = "Tokens of prompts and of responses, as reported by the backends.";
    let mut family = text.family("tokens_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        add_pair(
            &mut family,
            names,
            ("direction", DIRECTIONS),
            model_metrics::read(&metrics.tokens),
        );
    }
    let help = "Bytes of request bodies and of response bodies.";
    let mut family = text.family("body_bytes_total", MetricType::Counter, help);
    for (names, metrics) in all_metrics {
        add_pair(
            &mut family,
            names,
            ("direction", DIRECTIONS),
            model_metrics::read(&metrics.bytes),
        );
    }
}

fn write_attempts(text: &mut MetricsText, backends: &BackendMetrics) {
    let help = "Attempts at a backend, by result; all but answered are failures.";
    let mut family = text.family("backend_attempts_total", MetricType::Counter, help);
    for (backend, attempts) in backends.all() {
        for (result, count) in RESULTS.into_iter().zip(attempts) {
            family.add(&[("backend", &backend), ("result", result)], count);
        }
    }
}

fn add_pair(
    family: &mut Family<'_>,
    names: &ModelNames,
    (name, values): (&str, [&str; 2]),
    counts: [u64; 2],
) {
    for (value, count) in values.into_iter().zip(counts) {
        let [model, target] = names.pairs();
        family.add(&[model, target, (name, value)], count);
    }
}

fn add_bands(family: &mut Family<'_>, names: &ModelNames, histograms: &[Histogram]) {
    for (band, histogram) in BAND_NAMES.into_iter().zip(histograms) {
        let [model, target] = names.pairs();
        add_used(family, &[model, target, ("band", band)], histogram);
    }
}

/// Adds a histogram unless it is empty: empty ones would be most of the text.
fn add_used(family: &mut Family<'_>, labels: &[Pair<'_>], histogram: &Histogram) {
    let reading = histogram.read();
    if reading.count > 0 {
        family.add_histogram(labels, &reading);
    }
}

// === impl ModelNames ===

impl ModelNames {
    fn pairs(&self) -> [Pair<'_>; 2] {
        [("model", &self.model), ("target_model", &self.target)]
    }
}
