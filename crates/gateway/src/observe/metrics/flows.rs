//! Metrics of flows and workloads.

use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::snapshot::Snapshot;

/// Writes how many flows and workloads are known and active.
pub(super) fn write(text: &mut MetricsText, snapshot: &Snapshot) {
    let [active, remembered] = snapshot.flows;
    let help = "Flows with requests waiting or in flight.";
    text.family("active_flows", MetricType::Gauge, help).add(&[], active);
    let help = "Known flows.";
    text.family("flows", MetricType::Gauge, help).add(&[], remembered);
    let [active, remembered] = snapshot.workloads;
    let help = "Workloads with requests waiting or in flight.";
    text.family("active_workloads", MetricType::Gauge, help).add(&[], active);
    let help = "Known workloads.";
    text.family("workloads", MetricType::Gauge, help).add(&[], remembered);
}
