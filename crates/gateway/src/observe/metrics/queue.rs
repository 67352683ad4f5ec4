//! Metrics of the queue: length, age, capacity, saturation, waits and refusals.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use flow::{BANDS, Counters};

use super::live_requests::LiveCounts;
use super::{CountersByModel, add_pair, add_used};
use crate::hold_places::PlacesUsage;
use crate::observe::BAND_NAMES;
use crate::observe::labels::ModelNames;
use crate::observe::model_counters;
use crate::observe::outcome::{PUSH_ERRORS, QUEUE_TIMEOUT};
use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::snapshot::Snapshot;

/// Label values of a pair of counters.
const STAGES: [&str; 2] = ["waiting", "in_flight"];
const SUCCESS: [&str; 2] = ["false", "true"];

/// Writes all families of the queue.
pub(super) fn write(
    text: &mut MetricsText,
    snapshot: &Snapshot,
    live: &BTreeMap<ModelNames, LiveCounts>,
    all_counters: &CountersByModel,
) {
    write_lengths(text, live);
    write_nexus(text, snapshot);
    write_state(text, snapshot);
    write_latency(text, all_counters);
    write_ends(text, all_counters);
    write_core_counters(text, &snapshot.counters);
}

fn write_lengths(text: &mut MetricsText, live: &BTreeMap<ModelNames, LiveCounts>) {
    let help = "Requests waiting in the queue.";
    let mut lengths = text.family("queue_length", MetricType::Gauge, help);
    for (ModelNames { model, target }, counts) in live {
        for (band, count) in BAND_NAMES.into_iter().zip(counts.waiting) {
            lengths.add(&[("model", model), ("target_model", target), ("band", band)], count);
        }
    }
}

/// The figures of the queue under the names of Nexus.
fn write_nexus(text: &mut MetricsText, snapshot: &Snapshot) {
    let Snapshot { counters, capacity, .. } = snapshot;
    let help = "Requests waiting in the queue, over all models and bands.";
    text.bare("nexus_queue_depth", MetricType::Gauge, help).add(&[], snapshot.depth());
    let help = "The limit of waiting requests.";
    text.bare("nexus_queue_max_size", MetricType::Gauge, help).add(&[], capacity);
    let totals = [
        (
            "nexus_queue_enqueued_total",
            "Requests that had to wait.",
            counters.queued + counters.requeued,
        ),
        (
            "nexus_queue_dequeued_total",
            "Requests that left the queue for a backend.",
            counters.granted,
        ),
        (
            "nexus_queue_timeouts_total",
            "Requests whose time to live ended in the queue.",
            counters.expired,
        ),
    ];
    for (name, help, count) in totals {
        text.bare(name, MetricType::Counter, help).add(&[], count);
    }
}

fn write_state(text: &mut MetricsText, snapshot: &Snapshot) {
    let help = "Waiting requests that can no longer make their objective for the first token.";
    let mut late = text.family("queue_late", MetricType::Gauge, help);
    for (band, count) in BAND_NAMES.into_iter().zip(snapshot.late) {
        late.add(&[("band", band)], count);
    }
    let help = "The limit of waiting requests.";
    text.family("queue_capacity", MetricType::Gauge, help).add(&[], snapshot.capacity);
    let help = "The age of the oldest waiting request.";
    let mut oldest = text.family("queue_oldest_seconds", MetricType::Gauge, help);
    for (band, age) in BAND_NAMES.into_iter().zip(snapshot.oldest) {
        oldest.add(&[("band", band)], age.secs_f64());
    }
    let help = "Requests at a backend.";
    text.family("requests_in_flight", MetricType::Gauge, help).add(&[], snapshot.in_flight);
    let help = "The share of the queue that a new request of the band cannot use, from 0 to 1.";
    let mut saturation = text.family("queue_saturation", MetricType::Gauge, help);
    for (band, share) in BAND_NAMES.into_iter().zip(saturations(snapshot)) {
        saturation.add(&[("band", band)], share);
    }
    let help = "How many more requests of the band may wait, apart from the limits of flows.";
    let mut headroom = text.family("headroom_requests", MetricType::Gauge, help);
    for (band, count) in BAND_NAMES.into_iter().zip(snapshot.headroom) {
        headroom.add(&[("band", band)], count);
    }
}

/// Writes how many requests wait for a model without a backend.
pub(super) fn write_hold(text: &mut MetricsText, hold: PlacesUsage) {
    let help = "Requests that wait for a configured model that no backend listed when they came.";
    text.family("held_requests", MetricType::Gauge, help).add(&[], hold.taken);
    let help = "The limit of held requests.";
    text.family("hold_capacity", MetricType::Gauge, help).add(&[], hold.capacity);
}

/// How full the queue is for a new request of each band. Places that it may take from lower bands
/// count as free. Under a strict cascade this is the number of waiting requests at or above the
/// band, divided by the capacity.
pub(super) fn saturations(snapshot: &Snapshot) -> [f64; BANDS] {
    let capacity = f64::from(snapshot.capacity);
    snapshot.headroom.map(|room| if room == 0 { 1.0 } else { 1.0 - f64::from(room) / capacity })
}

fn write_latency(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "Time of requests in the queue, by whether they succeeded.";
    let mut family = text.family("queue_latency_seconds", MetricType::Histogram, help);
    for (names, metrics) in all_counters {
        for (band, pair) in BAND_NAMES.into_iter().zip(&metrics.queue_latency) {
            for (success, histogram) in SUCCESS.into_iter().zip(pair) {
                let [model, target] = names.pairs();
                let labels = [model, target, ("band", band), ("success", success)];
                add_used(&mut family, &labels, histogram);
            }
        }
    }
}

fn write_ends(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "Requests that bypassed the queue.";
    let mut family = text.family("bypass_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        family.add(&names.pairs(), metrics.bypassed.load(Relaxed));
    }
    let help = "Requests whose time to live ended in the queue.";
    let mut family = text.family("requests_expired_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        family.add(&names.pairs(), metrics.ended_in(QUEUE_TIMEOUT));
    }
    let help = "Requests that ended because the client left or its deadline passed.";
    let mut family = text.family("requests_cancelled_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        add_pair(&mut family, names, ("stage", STAGES), model_counters::read(&metrics.cancelled));
    }
    let help = "Requests that could not be queued.";
    let mut family = text.family("queue_push_errors_total", MetricType::Counter, help);
    for (names, metrics) in all_counters {
        for (error, count) in PUSH_ERRORS.into_iter().zip(&metrics.push_errors) {
            let [model, target] = names.pairs();
            family.add(&[model, target, ("error_type", error)], count.load(Relaxed));
        }
    }
}

fn write_core_counters(text: &mut MetricsText, counters: &Counters) {
    let help = "Requests offered to the queue, by result.";
    let mut offers = text.family("offers_total", MetricType::Counter, help);
    offers.add(&[("result", "bypassed")], counters.bypassed);
    offers.add(&[("result", "queued")], counters.queued);
    offers.add(&[("result", "refused")], counters.refused);
    write_dequeues(text, counters.granted);
    write_cache_waits(text, counters);
    let help = "Requests that were requeued because their backend failed or was full.";
    text.family("requeues_total", MetricType::Counter, help).add(&[], counters.requeued);
    let help = "Waiting requests that were preempted by a higher band, by their own band.";
    let mut preemptions = text.family("preemptions_total", MetricType::Counter, help);
    for (band, count) in BAND_NAMES.into_iter().zip(counters.preempted) {
        preemptions.add(&[("band", band)], count);
    }
}

/// Writes what waits for backends that have a prompt cached were worth.
fn write_cache_waits(text: &mut MetricsText, counters: &Counters) {
    let help = "Seconds that waits for a backend with the prompt in its cache have saved beyond \
                their own length, and that they were longer than what they saved. The length is \
                measured; what a wait saves is estimated when it begins.";
    let mut family = text.family("cache_wait_seconds_total", MetricType::Counter, help);
    family.add(&[("result", "won")], counters.cache_wait_won.secs_f64());
    family.add(&[("result", "lost")], counters.cache_wait_lost.secs_f64());
}

/// Writes attempts and successes. Dispatch is event-driven and runs only when a request can be
/// granted, so each attempt succeeds.
fn write_dequeues(text: &mut MetricsText, granted: u64) {
    let help = "Attempts to dequeue a request; dispatch is event-driven, so each succeeds.";
    let mut attempts = text.family("popper_dequeue_attempts_total", MetricType::Counter, help);
    attempts.add(&[], granted);
    let help = "Requests that were dequeued for a backend.";
    let mut successes = text.family("popper_dequeue_successes_total", MetricType::Counter, help);
    successes.add(&[], granted);
}
