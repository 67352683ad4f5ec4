//! Metrics of the pool: its ready backends, and what they report themselves.

use flow::EngineReading;

use crate::backend::BackendStatus;
use crate::observe::backend_counters::BACKENDS_MAX;
use crate::observe::prometheus_writer::{MetricType, MetricsText};

/// The names of a mean over the ready backends, its help, and the value of one backend.
type Mean = ([&'static str; 2], &'static str, fn(&EngineReading) -> f64);

const MEANS: [Mean; 3] = [
    (
        ["llm_d_epp_average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization"],
        "The mean share of the KV cache in use, over the ready backends.",
        |reading| reading.kv_used,
    ),
    (
        ["llm_d_epp_average_queue_size", "inference_pool_average_queue_size"],
        "The mean number of requests in the engine's own queue, over the ready backends.",
        |reading| reading.waiting.into(),
    ),
    (
        ["llm_d_epp_average_running_requests", "inference_pool_average_running_requests"],
        "The mean number of requests that the engine runs, over the ready backends.",
        |reading| reading.running.into(),
    ),
];

/// Writes all families of the pool. A backend whose metrics cannot be read takes no part in a mean:
/// an old value would look like a present one.
pub(super) fn write(
    text: &mut MetricsText,
    (pool, ready): (&str, usize),
    backends: &[BackendStatus],
) {
    for name in ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"] {
        let help = "Ready backends.";
        text.bare(name, MetricType::Gauge, help).add(&[("name", pool)], ready);
    }
    for (names, help, value) in MEANS {
        let ready = backends.iter().filter(|backend| backend.ready);
        let read = ready.filter_map(reading).map(value);
        let (count, sum) = read.fold((0_u32, 0.0), |(count, sum), one| (count + 1, sum + one));
        for name in names {
            let mut family = text.bare(name, MetricType::Gauge, help);
            if count > 0 {
                family.add(&[("name", pool)], sum / f64::from(count));
            }
        }
    }
    let queues = [
        ("llm_d_epp_per_endpoint_queue_size", "model_server_endpoint"),
        ("inference_pool_per_pod_queue_size", "model_server_pod"),
    ];
    for (name, label) in queues {
        let help = "Requests in the engine's own queue, as it reports.";
        let mut family = text.bare(name, MetricType::Gauge, help);
        for backend in &backends[..backends.len().min(BACKENDS_MAX)] {
            if let Some(reading) = reading(backend) {
                family.add(&[("name", pool), (label, &backend.id)], reading.waiting);
            }
        }
    }
}

/// The present reading of a backend's metrics.
fn reading(backend: &BackendStatus) -> Option<&EngineReading> {
    let (_, reading) = backend.last_reading.as_ref()?;
    backend.scrape_error.is_none().then_some(reading)
}
