//! `/workloads`: the workloads, their active requests and their rates.

use flow::{Time, WorkloadView};
use serde::Serialize;

use super::busiest;
use crate::state::State;

/// The page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkloadsPage {
    /// The busiest workloads, sorted.
    workloads: Vec<WorkloadEntry>,
    /// The number of workloads that are left out.
    truncated: usize,
}

#[derive(Clone, Debug, Serialize)]
struct WorkloadEntry {
    workload_id: String,
    total: u64,
    active: u64,
    in_window: u32,
    rate_per_second: f64,
    last_seen_ms: u64,
}

pub(super) fn page(state: &State) -> WorkloadsPage {
    state.scheduler.with(|core, now| {
        let window = core.settings().workloads.window.secs_f64();
        let mut workloads = core.workloads(now);
        let truncated = busiest(&mut workloads, |workload| (workload.active, workload.in_window));
        let entry = |workload: &WorkloadView<'_>| WorkloadEntry::new(workload, window, now);
        WorkloadsPage { workloads: workloads.iter().map(entry).collect(), truncated }
    })
}

// === impl WorkloadEntry ===

impl WorkloadEntry {
    fn new(workload: &WorkloadView<'_>, window_secs: f64, now: Time) -> Self {
        Self {
            workload_id: workload.name.to_owned(),
            total: workload.total,
            active: workload.active,
            in_window: workload.in_window,
            rate_per_second: f64::from(workload.in_window) / window_secs,
            last_seen_ms: now.since(workload.last_seen).nanos() / 1_000_000,
        }
    }
}
