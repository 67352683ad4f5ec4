//! Metrics of model servers: their state, and the values that they report themselves.

use flow::EngineReading;

use crate::backend::{BackendStatus, StateWord};
use crate::observe::backend_counters::BACKENDS_MAX;
use crate::observe::prometheus_writer::{MetricType, MetricsText};

/// A family with one value of an engine's reading.
/// The last part says whether it is the KV cache, which not every engine reports.
type ReadingFamily = (&'static str, &'static str, fn(&EngineReading) -> f64, bool);

const READINGS: [ReadingFamily; 3] = [
    (
        "backend_engine_running",
        "Requests that the engine runs, as it reports.",
        |reading| reading.running.into(),
        false,
    ),
    (
        "backend_engine_waiting",
        "Requests in the engine's own queue, as it reports.",
        |reading| reading.waiting.into(),
        false,
    ),
    (
        "backend_kv_used_ratio",
        "The share of the engine's KV cache in use, from 0 to 1.",
        |reading| reading.kv_used,
        true,
    ),
];

/// Writes all families of the model servers. Those beyond the bound of names have no series: states
/// and shares cannot be summed.
pub(super) fn write(text: &mut MetricsText, backends: &[BackendStatus]) {
    let backends = &backends[..backends.len().min(BACKENDS_MAX)];
    let help = "The state of a backend: 1 for the present one, 0 for the others.";
    let mut family = text.family("backend_state", MetricType::Gauge, help);
    for backend in backends {
        for state in StateWord::CONFIGURED {
            let labels = [("backend", backend.id.as_str()), ("state", state.label())];
            family.add(&labels, u8::from(backend.state == state));
        }
    }
    for (name, help, value, of_kv) in READINGS {
        // An old value would look like a present one.
        let fresh = backends.iter().filter(|backend| backend.scrape_error.is_none());
        let fresh = fresh.filter(|backend| !of_kv || backend.kv_reported);
        let read = fresh.filter_map(|one| Some((one.id.as_str(), one.last_reading.as_ref()?)));
        let values = read.map(|(backend, (_, reading))| (backend, value(reading)));
        text.gauges(name, help, "backend", values);
    }
}
