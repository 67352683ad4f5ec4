//! Metrics of requests: outcomes, retries, durations, tokens and bytes.

use std::sync::atomic::Ordering::Relaxed;

use super::{CountersByModel, add_pair, add_used};
use crate::observe::BAND_NAMES;
use crate::observe::histogram::Histogram;
use crate::observe::labels::{ModelNames, NONE};
use crate::observe::prometheus_writer::{Family, MetricType, MetricsText};
use crate::observe::size_histogram::SizeHistogram;

/// Label values of a pair of counters.
const DIRECTIONS: [&str; 2] = ["input", "output"];
const CACHED: [&str; 2] = ["expected", "found"];

/// Writes all families of requests.
pub(super) fn write(text: &mut MetricsText, all_counters: &CountersByModel) {
    write_ended(text, all_counters);
    write_durations(text, all_counters);
    write_sizes(text, all_counters);
}

/// Writes the outcomes of requests and their retries.
pub(super) fn write_ended(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "Requests that have ended, by outcome and status class.";
    let mut family = text.family("requests_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        for ending in metrics.endings() {
            let [model, target] = names.pairs();
            let band = ("band", ending.band.map_or(NONE, |band| BAND_NAMES[band]));
            let ways = [("outcome", ending.outcome), ("code", ending.class)];
            family.add(&[model, target, band, ways[0], ways[1]], ending.count);
        }
    }
    let help = "Attempts of requests beyond their first.";
    let mut family = text.family("retries_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        family.add(&names.pairs(), metrics.retries.load(Relaxed));
    }
}

fn write_durations(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "From the arrival of a request to the first byte of its response.";
    let mut family = text.family("time_to_first_byte_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_counters {
        add_bands(&mut family, names, &metrics.first_byte);
    }
    let help = "From the arrival of a request to the end of its response.";
    let mut family = text.family("request_duration_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_counters {
        add_bands(&mut family, names, &metrics.total);
    }
}

fn write_sizes(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "Tokens of prompts and of responses, as reported by the backends.";
    let mut family = text.family("tokens_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        let sums = metrics.tokens.each_ref().map(SizeHistogram::sum);
        add_pair(&mut family, names, ("direction", DIRECTIONS), sums);
    }
    let help = "Tokens of prompts that were expected in the cache of the backend, and that it \
                found there, of responses that say it.";
    let mut family = text.family("cached_tokens_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        let sums = [metrics.cached_expected.load(Relaxed), metrics.cached.sum()];
        add_pair(&mut family, names, ("count", CACHED), sums);
    }
    let help = "Bytes of request bodies and of response bodies.";
    let mut family = text.family("body_bytes_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        let sums = metrics.bytes.each_ref().map(SizeHistogram::sum);
        add_pair(&mut family, names, ("direction", DIRECTIONS), sums);
    }
}

fn add_bands(family: &mut Family<'_>, names: &ModelNames, histograms: &[Histogram]) {
    for (band, histogram) in BAND_NAMES.into_iter().zip(histograms) {
        let [model, target] = names.pairs();
        add_used(family, &[model, target, ("band", band)], histogram);
    }
}
