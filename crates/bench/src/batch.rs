//! Batch work: the cost of the durable queue, the accuracy of the gates, and the effect on
//! interactive requests.
//!
//! All processes share all cores, because these figures depend on disks and engines, not on a core.

mod accept;
mod accuracy;
mod api;
mod durable;
mod protection;
mod settings;

#[cfg(test)]
mod tests;

use crate::gateway::process::Cores;
use crate::runner::Suite;

/// The benchmarks of batch work.
pub(crate) fn suite() -> Suite {
    Suite {
        cores: Cores::share,
        notes: Vec::new(),
        benchmarks: &[
            ("store", |bench| Box::pin(durable::measure(bench))),
            ("accept", |bench| Box::pin(accept::measure(bench))),
            ("accuracy", |bench| Box::pin(accuracy::measure(bench))),
            ("protection", |bench| Box::pin(protection::measure(bench))),
        ],
    }
}
