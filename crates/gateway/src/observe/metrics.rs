//! The metric families, one file for each subject.
//!
//! Gauges come from one [`Snapshot`] of the core, counters and histograms from the counters that
//! requests update. A new family goes into the file of its subject.

mod backends;
mod engines;
mod flows;
mod live_requests;
mod llm_d;
mod process;
mod proposal;
mod queue;
mod requests;
mod stock;
mod tenants;
mod traces;

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{Bounds, ModelId, ScaleGoal};

use super::IdNames;
use super::backend_counters::CountersByBackend;
use super::enqueue_times::EnqueueTimes;
use super::histogram::Histogram;
use super::labels::{ModelLabels, ModelNames};
use super::model_counters::ModelCounters;
use super::prometheus_writer::{Family, MetricType, MetricsText, Pair};
use super::snapshot::Snapshot;
use crate::backend::BackendStatus;
use crate::hold_places::PlacesUsage;

pub(super) use self::process::write as write_process;
pub(super) use self::tenants::write as write_tenants;
pub(super) use self::traces::write as write_traces;

/// The counters of all pairs of model names.
type CountersByModel = [(ModelNames, Arc<ModelCounters>)];

/// The label values of models by id.
type Targets = BTreeMap<ModelId, Arc<str>>;

/// The values of a scrape that neither the core nor a counter has.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessStatus {
    /// Requests that wait for a model without a backend.
    pub(crate) hold: PlacesUsage,
    pub(crate) backends: Vec<BackendStatus>,
    /// What the number of backends aims at.
    pub(crate) goal: ScaleGoal,
    /// The bounds, if metrics are also written under the names of the Inference Gateway's proposal.
    pub(crate) proposal: Option<Bounds>,
}

/// The values of one scrape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scrape<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) named: &'a IdNames<'a>,
    pub(super) process: &'a ProcessStatus,
    pub(super) model_labels: &'a ModelLabels,
    pub(super) backends: &'a CountersByBackend,
    /// The name of the pool, if the families of other pickers are written too.
    pub(super) pool: Option<&'a str>,
    pub(super) enqueue_times: &'a EnqueueTimes,
    /// Requests that named a priority that does not exist.
    pub(super) unknown_priorities: u64,
}

// === impl Scrape ===

impl Scrape<'_> {
    /// Writes all families of the queue, the requests and the backends.
    pub(super) fn write(&self, text: &mut MetricsText) {
        let Self { snapshot, named, model_labels, .. } = self;
        let label = |(&model, name): (&ModelId, &&str)| (model, model_labels.label(name));
        let targets: Targets = named.models.iter().map(label).collect();
        let live = live_requests::count(snapshot, &targets, model_labels);
        let all_counters = model_labels.all();
        queue::write(text, snapshot, &live, &all_counters);
        queue::write_hold(text, self.process.hold);
        stock::write(text, snapshot, &live, (&targets, self.process.goal));
        flows::write(text, snapshot);
        requests::write(text, &all_counters);
        let help = "Requests that named a priority that does not exist, which has no effect.";
        let mut family = text.family("unknown_priorities_total", MetricType::Counter, help);
        family.add(&[], self.unknown_priorities);
        backends::write(text, snapshot, named, self.backends);
        engines::write(text, &self.process.backends);
        if let Some(bounds) = self.process.proposal {
            proposal::write(text, (snapshot, bounds), &live, &all_counters);
        }
        if let Some(pool) = self.pool {
            llm_d::write(text, (self, pool), &live, &all_counters);
        }
    }
}

/// Writes the counters of requests that have ended, for a process without backends.
pub(super) fn write_ended(text: &mut MetricsText, model_labels: &ModelLabels) {
    requests::write_ended(text, &model_labels.all());
}

/// Writes the number of dropped lines of the access log.
pub(super) fn write_lines_dropped(text: &mut MetricsText, dropped: u64) {
    let help = "Lines of the access log that were dropped because the reader was too slow.";
    text.family("access_log_dropped_total", MetricType::Counter, help).add(&[], dropped);
}

/// Adds two counters of a pair of names, each with its own value of a label.
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

/// Adds a histogram unless it is empty: empty ones would be most of the text.
pub(super) fn add_used(family: &mut Family<'_>, labels: &[Pair<'_>], histogram: &Histogram) {
    let reading = histogram.read();
    if reading.count > 0 {
        family.add_histogram(labels, &reading, histogram.exemplars().as_ref());
    }
}

// === impl ModelNames ===

impl ModelNames {
    fn pairs(&self) -> [Pair<'_>; 2] {
        [("model", &self.model), ("target_model", &self.target)]
    }
}
