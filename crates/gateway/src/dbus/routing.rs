//! The service for the queue and the distribution of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use zbus::{Variant, interface};

use super::{Counts, int};
use crate::admin::{self, QueueStatus};
use crate::state::State;

/// The service `ie.fio.OllamaProxy.Routing`.
pub(super) struct RoutingService(pub(super) Arc<State>);

// === impl RoutingService ===

// One call at a time: a flood of calls fills the buffers of the bus and not our memory.
#[interface(name = "ie.fio.OllamaProxy.Routing", spawn = false)]
impl RoutingService {
    /// The queue, the waiting requests by band, and the requests at each backend, in total and by
    /// band; all of one moment.
    #[zbus(out_args("queue", "waiting", "backends"))]
    pub(super) fn get_queue_stats(&self) -> (Counts, Counts, BTreeMap<String, Counts>) {
        let (queue, entries) = admin::status(&self.0);
        let QueueStatus { depth, capacity, in_flight, waiting, .. } = queue;
        let whole = [("depth", depth), ("capacity", capacity), ("in_flight", in_flight)];
        let backends = entries.into_iter().map(|entry| {
            let depth = ("queue_depth", entry.queue_depth);
            let counts = entry.priority_counts.named().into_iter().chain([depth]);
            (entry.id, counts.collect())
        });
        (whole.into(), waiting.named().into(), backends.collect())
    }

    /// The requests at each backend.
    #[zbus(out_args("depths"))]
    pub(super) fn get_queue_depths(&self) -> BTreeMap<String, i32> {
        let (_, entries) = admin::status(&self.0);
        entries.into_iter().map(|entry| (entry.id, int(entry.queue_depth))).collect()
    }

    /// Attempts at backends since the start: total_requests, total_success (the backend began to
    /// respond), total_errors, success_rate in per cent; and backend_count.
    #[zbus(out_args("stats"))]
    pub(super) fn get_routing_stats(&self) -> BTreeMap<&'static str, Variant<'static>> {
        let [success, errors] =
            self.0.observer.attempts().iter().fold([0, 0], |sums, (_, more)| {
                let [success, errors]: [u64; 2] = sums;
                [success + more[0], errors + more[1]]
            });
        let total = success + errors;
        let rate = percent(success, total);
        let (_, entries) = admin::status(&self.0);
        BTreeMap::from([
            ("total_requests", Variant::from(total as i64)),
            ("total_success", Variant::from(success as i64)),
            ("total_errors", Variant::from(errors as i64)),
            ("success_rate", Variant::from(rate)),
            ("backend_count", Variant::from(int(entries.len()))),
        ])
    }

    /// The share of each backend in all attempts since the start, in per cent.
    #[zbus(out_args("distribution"))]
    pub(super) fn get_backend_distribution(&self) -> BTreeMap<String, f64> {
        let attempts = self.0.observer.attempts();
        let total = attempts.iter().map(|(_, [success, errors])| success + errors).sum();
        let share = |[success, errors]: [u64; 2]| percent(success + errors, total);
        attempts.into_iter().map(|(name, counts)| (name.to_string(), share(counts))).collect()
    }
}

fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 }
}
