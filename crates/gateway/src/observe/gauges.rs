//! Gauges, and the counters that the core keeps, all from one [`Snapshot`].

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, BackendView, Counters, ModelId, Stage};

use super::backend_metrics::{BACKENDS_MAX, OTHER};
use super::labels::{ModelLabels, ModelNames};
use super::prometheus_writer::{MetricType, MetricsText};
use super::snapshot::{LiveAsk, Snapshot};
use super::{BAND_NAMES, IdNames};

/// The live requests with the same pair of model names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LiveCounts {
    /// Waiting, by band.
    pub(super) waiting: [u64; BANDS],
    stock: u64,
}

/// The gauges of one backend.
#[derive(Clone, Copy, Debug, Default)]
struct BackendGauges {
    in_flight: [u64; BANDS],
    stock: u64,
    ready: u64,
}

/// The label values of models by id.
pub(super) type Targets = BTreeMap<ModelId, Arc<str>>;

// === impl LiveCounts ===

impl LiveCounts {
    fn add(&mut self, more: &Self) {
        for (count, more) in self.waiting.iter_mut().zip(more.waiting) {
            *count += more;
        }
        self.stock += more.stock;
    }
}

/// Writes all gauges, and the counters of the core.
pub(super) fn write(
    text: &mut MetricsText,
    snapshot: &Snapshot,
    named: &IdNames<'_>,
    targets: &Targets,
    alive: &BTreeMap<ModelNames, LiveCounts>,
) {
    write_alive(text, alive);
    write_queue(text, snapshot);
    write_bounds(text, snapshot, targets);
    write_registries(text, snapshot);
    write_backends(text, snapshot, named);
    write_counters(text, &snapshot.counters);
}

/// Counts live requests by model names. The label index of a ticket is used if it matches the
/// target of the ask; otherwise the target also serves as the requested model.
pub(super) fn alive(
    snapshot: &Snapshot,
    targets: &Targets,
    model_labels: &ModelLabels,
) -> BTreeMap<ModelNames, LiveCounts> {
    let all_names: Vec<ModelNames> =
        model_labels.all().into_iter().map(|(names, _)| names).collect();
    let other = model_labels.label(OTHER);
    let names_of = |(label_index, model): (Option<u32>, ModelId)| {
        let target = targets.get(&model).unwrap_or(&other);
        let noted = label_index.and_then(|label_index| all_names.get(label_index as usize));
        let noted = noted.filter(|names| names.target == *target).cloned();
        noted
            .unwrap_or_else(|| ModelNames { model: Arc::clone(target), target: Arc::clone(target) })
    };
    let mut alive: BTreeMap<ModelNames, LiveCounts> =
        all_names.iter().map(|names| (names.clone(), LiveCounts::default())).collect();
    for (numbers, counts) in by_numbers(&snapshot.asks) {
        alive.entry(names_of(numbers)).or_default().add(&counts);
    }
    alive
}

/// Counts live requests by label index and target, which is faster than by names.
fn by_numbers(asks: &[LiveAsk]) -> BTreeMap<(Option<u32>, ModelId), LiveCounts> {
    let mut alive: BTreeMap<(Option<u32>, ModelId), LiveCounts> = BTreeMap::new();
    for ask in asks {
        let counts = alive.entry((ask.label_index, ask.model)).or_default();
        match ask.stage {
            Stage::Waiting => counts.waiting[ask.band as usize] += 1,
            Stage::InFlight => counts.stock += ask.stock,
        }
    }
    alive
}

fn write_alive(text: &mut MetricsText, alive: &BTreeMap<ModelNames, LiveCounts>) {
    let help = "Requests waiting in the queue.";
    let mut lengths = text.family("queue_length", MetricType::Gauge, help);
    for (ModelNames { model, target }, counts) in alive {
        for (band, count) in BAND_NAMES.into_iter().zip(counts.waiting) {
            lengths.add(&[("model", model), ("target_model", target), ("band", band)], count);
        }
    }
    let help = "Stock at the backends, in the configured unit.";
    let mut levels = text.family("stock_level", MetricType::Gauge, help);
    for (ModelNames { model, target }, counts) in alive {
        levels.add(&[("model", model), ("target_model", target)], counts.stock);
    }
}

fn write_queue(text: &mut MetricsText, snapshot: &Snapshot) {
    let help = "Requests waiting in the queue, over all models and bands.";
    text.bare("nexus_queue_depth", MetricType::Gauge, help).add(&[], snapshot.depth());
    let help = "The limit of waiting requests.";
    text.family("queue_capacity", MetricType::Gauge, help).add(&[], snapshot.capacity);
    let help = "The age of the oldest waiting request.";
    let oldest = snapshot.oldest.unwrap_or_default().secs_f64();
    text.family("queue_oldest_seconds", MetricType::Gauge, help).add(&[], oldest);
    let help = "Requests at a backend.";
    text.family("requests_in_flight", MetricType::Gauge, help).add(&[], snapshot.in_flight);
    let help = "The share of the queue that a new request of the band cannot use, from 0 to 1.";
    let mut saturation = text.family("saturation", MetricType::Gauge, help);
    for (band, share) in BAND_NAMES.into_iter().zip(saturations(snapshot)) {
        saturation.add(&[("band", band)], share);
    }
    let help = "How many more requests of the band may wait, apart from the limits of flows.";
    let mut headroom = text.family("headroom_requests", MetricType::Gauge, help);
    for (band, count) in BAND_NAMES.into_iter().zip(snapshot.headroom) {
        headroom.add(&[("band", band)], count);
    }
}

/// How full the queue is for a new request of each band. Places that it may take from lower bands
/// count as free. Under a strict cascade this is the number of waiting requests at or above the
/// band, divided by the capacity.
pub(super) fn saturations(snapshot: &Snapshot) -> [f64; BANDS] {
    let capacity = f64::from(snapshot.capacity);
    snapshot.headroom.map(|room| if room == 0 { 1.0 } else { 1.0 - f64::from(room) / capacity })
}

fn write_bounds(text: &mut MetricsText, snapshot: &Snapshot, targets: &Targets) {
    let mut named: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    for (model, bounds) in &snapshot.model_bounds {
        if let Some(target) = targets.get(model).filter(|target| ***target != *OTHER) {
            named.insert(target, *bounds);
        }
    }
    let families = [
        (
            "lower_bound",
            "Stock below which waiting requests are released; under auto as watermark.",
        ),
        ("watermark", "Stock that is aimed at; under auto that at which the backends close."),
        ("upper_bound", "Stock below which requests pass the queue by; under auto as watermark."),
    ];
    for (at, (name, help)) in families.into_iter().enumerate() {
        let mut family = text.family(name, MetricType::Gauge, help);
        for (target, bounds) in &named {
            family.add(&[("target_model", target)], bounds[at]);
        }
    }
}

fn write_registries(text: &mut MetricsText, snapshot: &Snapshot) {
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

fn write_backends(text: &mut MetricsText, snapshot: &Snapshot, named: &IdNames<'_>) {
    let backends = held(&snapshot.backends, named);
    let help = "Requests at a backend.";
    let mut family = text.family("backend_in_flight", MetricType::Gauge, help);
    for (backend, held) in &backends {
        for (band, count) in BAND_NAMES.into_iter().zip(held.in_flight) {
            family.add(&[("backend", backend), ("band", band)], count);
        }
    }
    let help = "Stock at a backend, in the configured unit.";
    let mut family = text.family("backend_stock", MetricType::Gauge, help);
    for (backend, held) in &backends {
        family.add(&[("backend", backend)], held.stock);
    }
    let help = "Whether a backend is ready.";
    let mut family = text.family("backend_ready", MetricType::Gauge, help);
    for (backend, held) in &backends {
        family.add(&[("backend", backend)], held.ready);
    }
}

/// Backends by name. Backends beyond the limit, and removed ones without a name, are summed under
/// `other`.
fn held<'a>(backends: &[BackendView], named: &IdNames<'a>) -> BTreeMap<&'a str, BackendGauges> {
    let mut held: BTreeMap<&str, BackendGauges> = BTreeMap::new();
    for backend in backends {
        let name = named.backends.get(&backend.id).copied().unwrap_or(OTHER);
        let fits = held.len() < BACKENDS_MAX || held.contains_key(name);
        let sum = held.entry(if fits { name } else { OTHER }).or_default();
        for (sum, count) in sum.in_flight.iter_mut().zip(backend.in_flight) {
            *sum += u64::from(count);
        }
        sum.stock += backend.stock;
        sum.ready += u64::from(backend.ready);
    }
    held
}

fn write_counters(text: &mut MetricsText, counters: &Counters) {
    let help = "Requests offered to the queue, by result.";
    let mut offers = text.family("offers_total", MetricType::Counter, help);
    offers.add(&[("result", "bypassed")], counters.bypassed);
    offers.add(&[("result", "queued")], counters.queued);
    offers.add(&[("result", "refused")], counters.refused);
    // Dispatch is event-driven and runs only when a request can be granted, so each attempt
    // succeeds.
    let help = "Attempts to dequeue a request; dispatch is event-driven, so each succeeds.";
    let mut attempts = text.family("popper_dequeue_attempts_total", MetricType::Counter, help);
    attempts.add(&[], counters.granted);
    let help = "Requests that were dequeued for a backend.";
    let mut successes = text.family("popper_dequeue_successes_total", MetricType::Counter, help);
    successes.add(&[], counters.granted);
    let help = "Requests that were requeued because their backend failed or was full.";
    text.family("requeues_total", MetricType::Counter, help).add(&[], counters.requeued);
    let help = "Waiting requests that were preempted by a higher band, by their own band.";
    let mut preemptions = text.family("preemptions_total", MetricType::Counter, help);
    for (band, count) in BAND_NAMES.into_iter().zip(counters.preempted) {
        preemptions.add(&[("band", band)], count);
    }
}
