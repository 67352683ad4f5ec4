//! Metrics of requests: how many, how long, how large.
//!
//! Where the two pickers have different names for the same thing, llm-d's comes first.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::{PRIORITIES, labels};
use crate::observe::histogram::HistogramSnapshot;
use crate::observe::labels::ModelNames;
use crate::observe::metrics::CountersByModel;
use crate::observe::metrics::live_requests::LiveCounts;
use crate::observe::model_counters::{Ending, ModelCounters};
use crate::observe::outcome;
use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::size_histogram::SizeHistogram;

/// Both names of a histogram, its help, and its value.
type Names = [&'static str; 2];
type Sizes = (Names, &'static str, fn(&ModelCounters) -> &SizeHistogram);
type Durations = (Names, &'static str, fn(&ModelCounters) -> HistogramSnapshot);

const SIZES: [Sizes; 5] = [
    (
        ["llm_d_epp_request_size_bytes", "inference_objective_request_sizes"],
        "Bytes of request bodies.",
        |counters| &counters.bytes[0],
    ),
    (
        ["llm_d_epp_response_size_bytes", "inference_objective_response_sizes"],
        "Bytes of response bodies.",
        |counters| &counters.bytes[1],
    ),
    (
        ["llm_d_epp_request_input_tokens", "inference_objective_input_tokens"],
        "Tokens of prompts.",
        |counters| &counters.tokens[0],
    ),
    (
        ["llm_d_epp_request_output_tokens", "inference_objective_output_tokens"],
        "Tokens of responses.",
        |counters| &counters.tokens[1],
    ),
    (
        ["llm_d_epp_request_cached_tokens", "inference_objective_prompt_cached_tokens"],
        "Tokens of prompts that a backend found in its cache, where it says so.",
        |counters| &counters.cached,
    ),
];

const DURATIONS: [Durations; 4] = [
    (
        ["llm_d_epp_request_duration_seconds", "inference_objective_request_duration_seconds"],
        "From the arrival of a request to the end of its response.",
        |counters| HistogramSnapshot::of_all(&counters.total),
    ),
    (
        ["llm_d_epp_request_ttft_seconds", "inference_objective_request_ttft_seconds"],
        "From the arrival of a request to the first byte of its response.",
        |counters| HistogramSnapshot::of_all(&counters.first_byte),
    ),
    (
        [
            "llm_d_epp_request_ntpot_seconds",
            "inference_objective_normalized_time_per_output_token_seconds",
        ],
        "From the arrival of a request to the end of its response, for each token of the response.",
        |counters| counters.token_times[0].read(),
    ),
    (
        ["llm_d_epp_request_streaming_tpot_seconds", "inference_objective_request_tpot_seconds"],
        "From the first byte of a response to its end, for each token after the first.",
        |counters| counters.token_times[1].read(),
    ),
];

/// Writes all families of requests.
pub(super) fn write(
    text: &mut MetricsText,
    live: &BTreeMap<ModelNames, LiveCounts>,
    all_counters: &CountersByModel,
) {
    write_endings(text, all_counters);
    write_running(text, live);
    for (names, help, value) in DURATIONS {
        for name in names {
            let mut family = text.bare(name, MetricType::Histogram, help);
            let readings = all_counters.iter().map(|(models, counters)| (models, value(counters)));
            for (models, reading) in readings.filter(|(_, reading)| reading.count > 0) {
                family.add_histogram(&labels(models), &reading, None);
            }
        }
    }
    for (names, help, value) in SIZES {
        for name in names {
            let mut family = text.bare(name, MetricType::Histogram, help);
            let readings =
                all_counters.iter().map(|(models, counters)| (models, value(counters).read()));
            for (models, reading) in readings.filter(|(_, reading)| reading.count > 0) {
                family.add_sizes(&labels(models), &reading);
            }
        }
    }
}

fn write_endings(text: &mut MetricsText, all_counters: &CountersByModel) {
    for name in ["llm_d_epp_request_total", "inference_objective_request_total"] {
        let help = "Requests that have ended.";
        let mut family = text.bare(name, MetricType::Counter, help);
        for (models, counters) in all_counters {
            for (band, priority) in PRIORITIES.into_iter().enumerate() {
                let of_band = counters.endings().filter(|ending| ending.band == Some(band));
                let count: u64 = of_band.map(|ending| ending.count).sum();
                let [model, target] = labels(models);
                family.add(&[model, target, ("priority", priority)], count);
            }
        }
    }
    for name in ["llm_d_epp_request_error_total", "inference_objective_request_error_total"] {
        let help = "Requests that have ended without success, by error code.";
        let mut family = text.bare(name, MetricType::Counter, help);
        for (models, counters) in all_counters {
            let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
            let endings = counters.endings().filter(|ending| ending.band.is_some());
            let coded = |one: Ending| Some((error_code(one.outcome, one.class)?, one.count));
            endings.filter_map(coded).for_each(|(code, count)| {
                *errors.entry(code).or_default() += count;
            });
            for (code, count) in errors {
                let [model, target] = labels(models);
                family.add(&[model, target, ("error_code", code)], count);
            }
        }
    }
    let name = "inference_objective_request_slo_violation_total";
    let help = "Responses whose first byte came after the objective of the request.";
    let mut family = text.bare(name, MetricType::Counter, help);
    for (models, counters) in all_counters {
        let [model, target] = labels(models);
        family.add(&[model, target, ("type", "ttft")], counters.late.load(Relaxed));
    }
}

fn write_running(text: &mut MetricsText, live: &BTreeMap<ModelNames, LiveCounts>) {
    let mut running: BTreeMap<&str, u64> = BTreeMap::new();
    for (models, counts) in live {
        *running.entry(&models.model).or_default() += counts.in_flight.iter().sum::<u64>();
    }
    let name = "inference_objective_running_requests";
    let mut family = text.bare(name, MetricType::Gauge, "Requests at a backend.");
    for (model, count) in running {
        family.add(&[("model_name", model)], count);
    }
}

/// The code of a request without success; a backend's own error has the class of its status.
fn error_code(outcome: &'static str, class: &'static str) -> Option<&'static str> {
    match (outcome, class) {
        (outcome::OK | outcome::UNSEEN, "4xx" | "5xx") => Some(class),
        (outcome::OK | outcome::UNSEEN, _) => None,
        _ => Some(outcome),
    }
}
