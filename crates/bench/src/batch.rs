//! What batch work costs, how well its gates keep to what they allow, and what interactive users
//! notice of it.
//!
//! Everybody shares all cores: what is measured here is slower than any processor, or a share.

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
