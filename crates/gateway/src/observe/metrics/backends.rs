//! Metrics of the backends: requests, stock, readiness, attempts and first bytes.

use std::collections::BTreeMap;

use flow::{BANDS, BackendView};

use super::add_used;
use crate::observe::backend_counters::{BACKENDS_MAX, CountersByBackend, OTHER, RESULTS};
use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::snapshot::Snapshot;
use crate::observe::{BAND_NAMES, IdNames};

/// The gauges of one backend.
#[derive(Clone, Copy, Debug, Default)]
struct BackendGauges {
    in_flight: [u64; BANDS],
    stock: u64,
    ready: u64,
}

/// Writes all families of the backends.
pub(super) fn write(
    text: &mut MetricsText,
    snapshot: &Snapshot,
    named: &IdNames<'_>,
    backends: &CountersByBackend,
) {
    write_gauges(text, snapshot, named);
    write_counters(text, backends);
}

fn write_gauges(text: &mut MetricsText, snapshot: &Snapshot, named: &IdNames<'_>) {
    let backends = gauges(&snapshot.backends, named);
    let help = "Requests at a backend.";
    let mut family = text.family("backend_in_flight", MetricType::Gauge, help);
    for (backend, gauges) in &backends {
        for (band, count) in BAND_NAMES.into_iter().zip(gauges.in_flight) {
            family.add(&[("backend", backend), ("band", band)], count);
        }
    }
    let help = "Stock at a backend, in the configured unit.";
    let stocks = backends.iter().map(|(backend, gauges)| (*backend, gauges.stock));
    text.gauges("backend_stock", help, "backend", stocks);
    let help = "Whether a backend is ready.";
    let ready = backends.iter().map(|(backend, gauges)| (*backend, gauges.ready));
    text.gauges("backend_ready", help, "backend", ready);
}

/// Backends by name. Backends beyond the limit, and removed ones without a name, are summed under
/// `other`.
fn gauges<'a>(backends: &[BackendView], named: &IdNames<'a>) -> BTreeMap<&'a str, BackendGauges> {
    let mut gauges: BTreeMap<&str, BackendGauges> = BTreeMap::new();
    for backend in backends {
        let name = named.backends.get(&backend.id).copied().unwrap_or(OTHER);
        let fits = gauges.len() < BACKENDS_MAX || gauges.contains_key(name);
        let sum = gauges.entry(if fits { name } else { OTHER }).or_default();
        for (sum, count) in sum.in_flight.iter_mut().zip(backend.in_flight) {
            *sum += u64::from(count);
        }
        sum.stock += backend.stock;
        sum.ready += u64::from(backend.ready);
    }
    gauges
}

fn write_counters(text: &mut MetricsText, backends: &CountersByBackend) {
    let help = "Attempts at a backend, by result; all but answered are failures.";
    let mut family = text.family("backend_attempts_total", MetricType::Counter, help);
    let backends = backends.all();
    for (backend, counters) in &backends {
        for (result, count) in RESULTS.into_iter().zip(counters.attempts()) {
            family.add(&[("backend", backend), ("result", result)], count);
        }
    }
    let help = "From the choice of a backend to the first byte of its response.";
    let name = "backend_time_to_first_byte_seconds";
    let mut family = text.family(name, MetricType::Histogram, help);
    for (backend, counters) in &backends {
        add_used(&mut family, &[("backend", backend)], &counters.first_byte);
    }
}
