//! The metrics of the Inference Gateway's queuing proposal, under its own names and labels, for
//! those who bring its dashboards (`profile = "inference-gateway"`).
//!
//! They say what other families say, without bands. The bounds are those of all ready backends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use flow::Bounds;

use super::CountersByModel;
use super::live_requests::LiveCounts;
use crate::observe::labels::ModelNames;
use crate::observe::model_counters::{self, ModelCounters};
use crate::observe::outcome::QUEUE_TIMEOUT;
use crate::observe::prometheus_writer::{MetricType, MetricsText, Pair};
use crate::observe::snapshot::Snapshot;

const SUCCESS: [&str; 2] = ["false", "true"];

/// The errors of the proposal, and the outcome that each stands for.
const PUSH_ERRORS: [(&str, &str); 2] =
    [("ErrTooManyFlows", "too_many_flows"), ("ErrInsufficientFlowCapacity", "flow_full")];

/// A counter of each pair of names: its name, its help and its value.
type PairCounter = (&'static str, &'static str, fn(&ModelCounters) -> u64);

const COUNTERS: [PairCounter; 3] = [
    ("bypass_rate", "Requests that bypassed the queue.", |counters| {
        counters.bypassed.load(Relaxed)
    }),
    ("requests_expired", "Requests whose time to live ended in the queue.", |counters| {
        counters.ended_in(QUEUE_TIMEOUT)
    }),
    (
        "requests_cancelled",
        "Requests whose client left or deadline passed in the queue.",
        |counters| {
            let [waiting, _] = model_counters::read(&counters.cancelled);
            waiting
        },
    ),
];

/// Writes all families.
pub(super) fn write(
    text: &mut MetricsText,
    (snapshot, bounds): (&Snapshot, Bounds),
    live: &BTreeMap<ModelNames, LiveCounts>,
    all_counters: &CountersByModel,
) {
    let help = "Requests waiting in the queue.";
    let mut lengths = text.bare("queue_length", MetricType::Gauge, help);
    for (names, counts) in live {
        lengths.add(&labels(names), counts.waiting.iter().sum::<u64>());
    }
    let mut levels = text.bare("stock_level", MetricType::Gauge, "Stock at the backends.");
    for (names, counts) in live {
        levels.add(&labels(names), counts.stock);
    }
    write_latency(text, all_counters);
    for (name, help, read) in COUNTERS {
        let mut family = text.bare(name, MetricType::Counter, help);
        for (names, counters) in all_counters {
            family.add(&labels(names), read(counters));
        }
    }
    let help = "Requests that could not be queued.";
    let mut errors = text.bare("queue_push_errors", MetricType::Counter, help);
    for (names, counters) in all_counters {
        for (error, outcome) in PUSH_ERRORS {
            let [model, target] = labels(names);
            let count = counters.push_errors_of(outcome).map_or(0, |count| count.load(Relaxed));
            errors.add(&[model, target, ("error_type", error)], count);
        }
    }
    write_state(text, snapshot, bounds);
}

fn write_latency(text: &mut MetricsText, all_counters: &CountersByModel) {
    let help = "Time of requests in the queue, by whether they succeeded.";
    let mut family = text.bare("queue_latency_seconds", MetricType::Histogram, help);
    for (names, counters) in all_counters {
        for (at, success) in SUCCESS.into_iter().enumerate() {
            let bands = counters.queue_latency.iter().map(|pair| pair[at].read());
            let Some(all) = bands.reduce(|sum, more| sum.plus(&more)) else { continue };
            if all.count > 0 {
                let [model, target] = labels(names);
                family.add_histogram(&[model, target, ("success", success)], &all, None);
            }
        }
    }
}

fn write_state(text: &mut MetricsText, snapshot: &Snapshot, bounds: Bounds) {
    let ready = snapshot.backends.iter().filter(|backend| backend.ready);
    let scaled = match bounds {
        Bounds::Fixed(hysteresis) => hysteresis.scaled(ready.count()),
        Bounds::Auto => [ready.map(|backend| f64::from(backend.limits.watermark)).sum(); 3],
    };
    let names = [
        ("lower_bound", "Stock below which waiting requests leave the queue."),
        ("watermark", "Stock that the controller aims at."),
        ("upper_bound", "Stock below which requests bypass the queue."),
    ];
    for ((name, help), bound) in names.into_iter().zip(scaled) {
        text.bare(name, MetricType::Gauge, help).add(&[], (bound * 1e4).round() / 1e4);
    }
    let attempts = [
        ("popper_dequeue_attempts", "Attempts to dequeue a request."),
        ("popper_dequeue_successes", "Requests that were dequeued for a backend."),
    ];
    for (name, help) in attempts {
        text.bare(name, MetricType::Counter, help).add(&[], snapshot.counters.granted);
    }
    let help = "Flows with requests waiting or in flight.";
    text.bare("active_flows", MetricType::Gauge, help).add(&[], snapshot.flows[0]);
}

fn labels(names: &ModelNames) -> [Pair<'_>; 2] {
    [("model", &names.model), ("targetModel", &names.target)]
}
