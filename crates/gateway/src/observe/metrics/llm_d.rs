//! The metrics of the endpoint pickers of the Gateway API Inference Extension and of llm-d, under
//! the names that their dashboards use: those of flow control here, those of requests in
//! `requests`, those of the pool in `pool`.
//!
//! Their meaning is the same, with three differences. A band is shown as a number that would select
//! it. The fairness id is always `all`, because ids that clients invent must not become series.
//! Requests that bypass the queue have no queue duration. What has no meaning here is left out:
//! there are no plugins, no predictions, and no cycle that dispatches.

mod pool;
mod requests;

use std::collections::BTreeMap;

use flow::{BANDS, BackendId};

use super::live_requests::LiveCounts;
use super::queue::saturations;
use super::stock::saturation;
use super::{CountersByModel, Scrape, add_used};
use crate::observe::enqueue_times::EnqueueTimes;
use crate::observe::labels::ModelNames;
use crate::observe::model_counters::ModelCounters;
use crate::observe::prometheus_writer::{Family, MetricType, MetricsText, Pair};
use crate::observe::snapshot::Snapshot;
use crate::observe::{FAILED_BY_BACKEND, IdNames, UNSEEN};

/// A priority for each band, from best-effort to critical.
const PRIORITIES: [&str; BANDS] = ["-1", "0", "1", "10"];
const FAIRNESS: (&str, &str) = ("fairness_id", "all");

/// The newer name of a family and the older one, which is still in use.
macro_rules! twins {
    ($name:literal) => {
        [concat!("llm_d_epp_", $name), concat!("inference_extension_", $name)]
    };
}

/// Writes all families.
pub(super) fn write(
    text: &mut MetricsText,
    (scrape, pool): (&Scrape<'_>, &str),
    live: &BTreeMap<ModelNames, LiveCounts>,
    all_counters: &CountersByModel,
) {
    let Scrape { snapshot, named, process, .. } = *scrape;
    let of_pool = ("inference_pool", pool);
    write_waiting(text, of_pool, live);
    write_running(text, live);
    write_tokens(text, snapshot, named);
    write_fullness(text, of_pool, snapshot);
    write_durations(text, of_pool, all_counters);
    write_enqueued(text, scrape.enqueue_times);
    write_endings(text, of_pool, all_counters);
    let ready = snapshot.backends.iter().filter(|backend| backend.ready).count();
    pool::write(text, (pool, ready), &process.backends);
    requests::write(text, live, all_counters);
}

fn write_waiting(text: &mut MetricsText, pool: Pair<'_>, live: &BTreeMap<ModelNames, LiveCounts>) {
    let mut write = |name, help, counts_of: fn(&LiveCounts) -> [u64; BANDS]| {
        let mut family = text.bare(name, MetricType::Gauge, help);
        for (names, counts) in live {
            for (priority, count) in PRIORITIES.into_iter().zip(counts_of(counts)) {
                let [model, target] = labels(names);
                family.add(&[FAIRNESS, ("priority", priority), pool, model, target], count);
            }
        }
    };
    for name in twins!("flow_control_queue_size") {
        write(name, "Requests waiting in the queue.", |counts| counts.waiting);
    }
    for name in twins!("flow_control_queue_bytes") {
        write(name, "Bytes of the bodies that wait in the queue.", |counts| counts.waiting_bytes);
    }
}

/// Autoscalers go by these two. They have no older name with the same labels.
fn write_running(text: &mut MetricsText, live: &BTreeMap<ModelNames, LiveCounts>) {
    let help = "Requests at a backend.";
    let mut family = text.bare("llm_d_epp_request_running", MetricType::Gauge, help);
    for (names, counts) in live {
        for (priority, count) in PRIORITIES.into_iter().zip(counts.in_flight) {
            let [model, target] = labels(names);
            family.add(&[model, target, FAIRNESS, ("priority", priority)], count);
        }
    }
}

fn write_tokens(text: &mut MetricsText, snapshot: &Snapshot, named: &IdNames<'_>) {
    let mut tokens: BTreeMap<BackendId, [u64; BANDS]> =
        snapshot.backends.iter().map(|backend| (backend.id, [0; BANDS])).collect();
    for ask in &snapshot.asks {
        let Some(backend) = ask.backend else { continue };
        tokens.entry(backend).or_default()[ask.band as usize] += ask.tokens;
    }
    let help = "Tokens of the requests at a backend, prompt and output, as far as known.";
    let mut family = text.bare("llm_d_epp_inflight_tokens", MetricType::Gauge, help);
    for (backend, bands) in &tokens {
        let Some(name) = named.backends.get(backend) else { continue };
        for (priority, count) in PRIORITIES.into_iter().zip(bands) {
            family.add(&[("endpoint_name", name), FAIRNESS, ("priority", priority)], count);
        }
    }
}

fn write_fullness(text: &mut MetricsText, pool: Pair<'_>, snapshot: &Snapshot) {
    for name in twins!("flow_control_pool_saturation") {
        let help = "How full the ready backends are; 1 is the watermark.";
        let mut family = text.bare(name, MetricType::Gauge, help);
        family.add(&[pool, ("stage", "effective")], saturation(snapshot));
    }
    for name in twins!("flow_control_capacity_utilization_requests") {
        let help = "The share of the queue that a new request of the priority cannot use.";
        let mut family = text.bare(name, MetricType::Gauge, help);
        for (priority, share) in PRIORITIES.into_iter().zip(saturations(snapshot)) {
            family.add(&[("priority", priority), pool], share);
        }
    }
    for name in twins!("flow_control_global_capacity_utilization_requests") {
        let share = f64::from(snapshot.depth()) / f64::from(snapshot.capacity.max(1));
        let help = "The share of the queue that is in use.";
        text.bare(name, MetricType::Gauge, help).add(&[pool], share);
    }
}

fn write_durations(text: &mut MetricsText, pool: Pair<'_>, all_counters: &CountersByModel) {
    for name in twins!("flow_control_request_queue_duration_seconds") {
        let help = "Time of requests in the queue.";
        let mut family = text.bare(name, MetricType::Histogram, help);
        for (names, metrics) in all_counters {
            add_durations(&mut family, pool, names, metrics);
        }
    }
}

fn add_durations(
    family: &mut Family<'_>,
    pool: Pair<'_>,
    names: &ModelNames,
    metrics: &ModelCounters,
) {
    let [model, target] = labels(names);
    for (priority, pair) in PRIORITIES.into_iter().zip(&metrics.queue_latency) {
        for (outcome, histogram) in ["NotDispatched", "Dispatched"].into_iter().zip(pair) {
            let ways = [("priority", priority), ("outcome", outcome)];
            let reading = histogram.read();
            if reading.count > 0 {
                let labels = [FAIRNESS, ways[0], ways[1], pool, model, target];
                family.add_histogram(&labels, &reading, None);
            }
        }
    }
}

fn write_enqueued(text: &mut MetricsText, times: &EnqueueTimes) {
    for name in twins!("flow_control_request_enqueue_duration_seconds") {
        let help = "Time of the scheduler to queue a request, or to grant or refuse it at once.";
        let mut family = text.bare(name, MetricType::Histogram, help);
        for (priority, pair) in PRIORITIES.into_iter().zip(&times.0) {
            for (outcome, histogram) in ["RejectedOther", "NotYetFinalized"].into_iter().zip(pair) {
                let labels = [FAIRNESS, ("priority", priority), ("outcome", outcome)];
                add_used(&mut family, &labels, histogram);
            }
        }
    }
}

fn write_endings(text: &mut MetricsText, pool: Pair<'_>, all_counters: &CountersByModel) {
    let mut counts: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    for ending in all_counters.iter().flat_map(|(_, metrics)| metrics.endings()) {
        // A request without a band did not use the queue.
        let Some(band) = ending.band else { continue };
        *counts.entry((outcome(ending.outcome), band)).or_default() += ending.count;
    }
    for name in twins!("flow_control_requests_total") {
        let help = "Requests that have ended, by outcome.";
        let mut family = text.bare(name, MetricType::Counter, help);
        for ((outcome, band), count) in &counts {
            family.add(&[("outcome", outcome), ("priority", PRIORITIES[*band]), pool], count);
        }
    }
}

fn labels(names: &ModelNames) -> [(&str, &str); 2] {
    [("model_name", &names.model), ("target_model_name", &names.target)]
}

/// The llm-d outcome of an outcome.
fn outcome(ours: &str) -> &'static str {
    match ours {
        "flow_full" | "too_many_flows" | "queue_full" | "not_critical" | "queue_disabled"
        | "wait_too_long" | "overloaded" => "RejectedCapacity",
        "no_backend" => "RejectedNoEndpoints",
        "queue_timeout" | "deadline_exceeded" => "EvictedTTL",
        "client_closed" | "client_stalled" => "EvictedContextCancelled",
        "preempted" => "EvictedOther",
        "ok" | "backend_error" | FAILED_BY_BACKEND | UNSEEN => "Dispatched",
        _ => "RejectedOther",
    }
}
