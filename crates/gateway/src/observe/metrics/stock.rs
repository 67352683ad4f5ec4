//! Metrics of the stock at the backends and of its bounds.

use std::collections::BTreeMap;

use flow::{ModelId, ScaleGoal};

use super::Targets;
use super::live_requests::LiveCounts;
use crate::gates::Fullness;
use crate::observe::backend_counters::OTHER;
use crate::observe::labels::ModelNames;
use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::snapshot::Snapshot;

/// The label for the model that backends serve.
const TARGET: &str = "target_model";

/// The families of the bounds, from the lowest, with their help.
const BOUNDS: [(&str, &str); 3] = [
    ("lower_bound", "Stock below which waiting requests are released; under auto as watermark."),
    ("watermark", "Stock that the controller aims at; under auto it holds requests back there."),
    ("upper_bound", "Stock below which requests bypass the queue; under auto as watermark."),
];

/// Writes the stock of each model and its bounds.
pub(super) fn write(
    text: &mut MetricsText,
    snapshot: &Snapshot,
    live: &BTreeMap<ModelNames, LiveCounts>,
    (targets, goal): (&Targets, ScaleGoal),
) {
    let help = "Stock at the backends, in the configured unit.";
    let mut levels = text.family("stock_level", MetricType::Gauge, help);
    for (ModelNames { model, target }, counts) in live {
        levels.add(&[("model", model), (TARGET, target)], counts.stock);
    }
    write_bounds(text, snapshot, targets);
    let help =
        "Cost that backends complete in a second while requests wait, in the unit of queue.cost.";
    text.gauges("drain_rate", help, TARGET, labelled(targets, &snapshot.drain_rates));
    write_demands(text, snapshot, targets, goal);
    let help = "How full the ready backends are; 1 is the watermark, or no ready backend.";
    text.family("saturation", MetricType::Gauge, help).add(&[], saturation(snapshot));
}

/// Writes what autoscalers go by.
fn write_demands(text: &mut MetricsText, snapshot: &Snapshot, targets: &Targets, goal: ScaleGoal) {
    let demands = labelled(targets, &snapshot.demands);
    let help = "The time until the waiting requests have been completed, at the measured rate.";
    let backlogs = demands.iter().map(|(target, demand)| (*target, demand.backlog_secs()));
    text.gauges("backlog_seconds", help, TARGET, backlogs);
    let help = "Backends that arrivals and waiting requests need, by what one has carried. Models \
                that share backends have one demand: do not add theirs.";
    let wanted = demands.iter().map(|(target, demand)| (*target, demand.wanted(goal)));
    text.gauges("backends_wanted", help, TARGET, wanted);
    let help = "Cost that arrives in a second, in the unit of queue.cost.";
    let arriving = demands.iter().map(|(target, demand)| (*target, demand.arriving));
    text.gauges("arrival_rate", help, TARGET, arriving);
    let help = "Cost that one backend completes in a second while requests wait, once measured.";
    let carried = demands.iter().filter_map(|(target, demand)| Some((*target, demand.carried?)));
    text.gauges("backend_carries", help, TARGET, carried);
}

/// How full the ready backends are, whichever models their requests are for.
pub(super) fn saturation(snapshot: &Snapshot) -> f64 {
    let Fullness { used, places, .. } = snapshot.fullness;
    // Without a ready backend nothing is free.
    if places > 0.0 { used / places } else { 1.0 }
}

/// The values of models by label, without those of models that have no label of their own.
fn labelled<'a, T: Copy>(targets: &'a Targets, values: &[(ModelId, T)]) -> BTreeMap<&'a str, T> {
    let labelled = values.iter().filter_map(|&(model, value)| {
        let target = targets.get(&model).filter(|target| ***target != *OTHER)?;
        Some((&**target, value))
    });
    labelled.collect()
}

fn write_bounds(text: &mut MetricsText, snapshot: &Snapshot, targets: &Targets) {
    let named = labelled(targets, &snapshot.model_bounds);
    for (at, (name, help)) in BOUNDS.into_iter().enumerate() {
        let bounds = named.iter().map(|(target, bounds)| (*target, bounds[at]));
        text.gauges(name, help, TARGET, bounds);
    }
}
