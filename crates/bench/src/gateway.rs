//! The cost of the gateway against a bare hyper proxy and nginx in the same run.
//!
//! The measured proxies are processes on a core of their own; load and origin are raw TCP in this
//! process, on another core. The proxies take turns in short rounds, because on a shared machine
//! only measurements of the same second can be compared.

pub(crate) mod auth_cost;
mod bands;
mod busy;
mod cost;
pub(crate) mod dialing;
mod floor;
mod grant;
mod headline;
mod http1;
mod latency;
pub(crate) mod load;
mod measured;
mod memory_at_10k;
pub(crate) mod metrics;
pub(crate) mod origin;
mod priorities;
pub(crate) mod process;
pub(crate) mod proxies;
mod refusal;
pub(crate) mod settings;
mod shutdown;
mod sides;
mod timeouts;
mod tls_cost;
mod trace_cost;
pub(crate) mod without_priorities;
mod workloads;

#[cfg(test)]
mod tests;

pub(crate) use floor::FloorProxy;

use crate::runner::Suite;
use process::Cores;

/// The benchmarks of the gateway.
pub(crate) fn suite() -> Suite {
    Suite {
        cores: Cores::divide,
        notes: notes(),
        benchmarks: &[
            ("post", |bench| Box::pin(cost::post(bench))),
            ("busy, 64", |bench| Box::pin(busy::few(bench))),
            ("busy, 256", |bench| Box::pin(busy::more(bench))),
            ("busy, 1000", |bench| Box::pin(busy::many(bench))),
            ("prompt", |bench| Box::pin(cost::prompt(bench))),
            ("stream", |bench| Box::pin(cost::stream(bench))),
            ("paced", |bench| Box::pin(cost::paced(bench))),
            ("tls", |bench| Box::pin(tls_cost::kept(bench))),
            ("tls, new connections", |bench| Box::pin(tls_cost::new_connections(bench))),
            ("keys", |bench| Box::pin(auth_cost::measure(bench))),
            ("traces", |bench| Box::pin(trace_cost::post(bench))),
            ("traces, streams", |bench| Box::pin(trace_cost::stream(bench))),
            ("latency", |bench| Box::pin(latency::measure(bench))),
            ("grant", |bench| Box::pin(grant::measure(bench))),
            ("refusal", |bench| Box::pin(refusal::measure(bench))),
            ("timeouts", |bench| Box::pin(timeouts::measure(bench))),
            ("shutdown", |bench| Box::pin(shutdown::measure(bench))),
            ("bands", |bench| Box::pin(bands::measure(bench))),
            ("priorities", |bench| Box::pin(priorities::measure(bench))),
            ("workloads", |bench| Box::pin(workloads::measure(bench))),
            ("memory", |bench| Box::pin(memory_at_10k::measure(bench))),
            ("headline", |bench| Box::pin(headline::measure(bench))),
        ],
    }
}

/// What the figures do not show.
fn notes() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = [
        (cores < 2, "Only one core: load and proxy share it."),
        (!proxies::has_nginx(), "nginx is missing beside us: apt-get install nginx-light"),
        (!proxies::has_haproxy(), "HAProxy is missing beside us: apt-get install haproxy"),
        (
            without_priorities::program().is_none(),
            "No gateway without priorities: tidegate-bench without-priorities",
        ),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect()
}
