//! The cost of the endpoint picker behind Envoy, against Envoy alone and another picker.
//!
//! Envoy, picker, load and origin share all cores, as on a small node: the time of the
//! picker is missing for the others. The setups take turns in short rounds. Envoy's own share is
//! shown beside the picker's, since with a fast picker Envoy is the limit.

mod decision;
mod envoy;
mod envoy_setup;
mod grpc;
mod latency;
mod throughput;

#[cfg(test)]
mod tests;

pub(crate) use envoy_setup::picker_arguments;
pub(crate) use grpc::Caller;

use crate::gateway::process::Cores;
use crate::runner::Suite;

/// The benchmarks of the endpoint picker.
pub(crate) fn suite() -> Suite {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Suite {
        cores: Cores::share,
        notes: vec![format!("Envoy, picker, load and origin share {cores} cores.")],
        benchmarks: &[
            ("post", |bench| Box::pin(throughput::post(bench))),
            ("prompt", |bench| Box::pin(throughput::prompt(bench))),
            ("stream", |bench| Box::pin(throughput::stream(bench))),
            ("added", |bench| Box::pin(latency::measure(bench))),
            ("decision", |bench| Box::pin(decision::measure(bench))),
        ],
    }
}
