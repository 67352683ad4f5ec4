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
        levels.add(&[("model", model), ("target_model", target)], counts.stock);
    }
    write_bounds(text, snapshot, targets);
    let help =
        "Cost that backends complete in a second while requests wait, in the unit of queue.cost.";
    let mut rates = text.family("drain_rate", MetricType::Gauge, help);
    for (target, rate) in labelled(targets, &snapshot.drain_rates) {
        rates.add(&[("target_model", target)], rate);
    }
    write_demands(text, snapshot, targets, goal);
    let help = "How full the ready backends are; 1 is the watermark, or no ready backend.";
    text.family("saturation", MetricType::Gauge, help).add(&[], saturation(snapshot));
}

/// Writes what autoscalers go by.
fn write_demands(text: &mut MetricsText, snapshot: &Snapshot, targets: &Targets, goal: ScaleGoal) {
    let demands = labelled(targets, &snapshot.demands);
    let help = "The time until the waiting requests have been completed, at the measured rate.";
    let mut family = text.family("backlog_seconds", MetricType::Gauge, help);
    for (target, demand) in &demands {
        family.add(&[("target_model", target)], demand.backlog_secs());
    }
    let help = "Backends that arrivals and waiting requests need, by what one has carried. Models \
                that share backends have one demand: do not add theirs.";
    let mut family = text.family("backends_wanted", MetricType::Gauge, help);
    for (target, demand) in &demands {
        family.add(&[("target_model", target)], demand.wanted(goal));
    }
    let help = "Cost that arrives in a second, in the unit of queue.cost.";
    let mut family = text.family("arrival_rate", MetricType::Gauge, help);
    for (target, demand) in &demands {
        family.add(&[("target_model", target)], demand.arriving);
    }
    let help = "Cost that one backend completes in a second while requests wait, once measured.";
    let mut family = text.family("backend_carries", MetricType::Gauge, help);
    for (target, demand) in &demands {
        if let Some(carried) = demand.carried {
            family.add(&[("target_model", target)], carried);
        }
    }
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
    let families = [
        (
            "lower_bound",
            "Stock below which waiting requests are released; under auto as watermark.",
        ),
        (
            "watermark",
            "Stock that the controller aims at; under auto it holds requests back there.",
        ),
        ("upper_bound", "Stock below which requests bypass the queue; under auto as watermark."),
    ];
    for (at, (name, help)) in families.into_iter().enumerate() {
        let mut family = text.family(name, MetricType::Gauge, help);
        for (target, bounds) in &named {
            family.add(&[("target_model", target)], bounds[at]);
        }
    }
}
