//! The configurations in which the gateway is measured.
//!
//! One thread, since the gateway has its core alone. No access log unless the log is measured: the
//! other proxies keep none either.

use std::net::SocketAddr;
use std::time::Duration;

use super::dialing::CertificateFiles;

/// More than the clients send at once.
const PLENTY: usize = 1000;

const BY_TEAM: &str = "flow_by = [\"header:x-team\"]";

/// How many the headline case lets in.
pub(crate) const HEADLINE_AT_ONCE: usize = 8;
/// How many requests the gateway of [`few_places`] sends to the backend at once.
pub(crate) const FEW_PLACES: usize = 8;
/// The time to live of [`short_lived`].
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(1);
/// How many requests fill the gateway of [`full`].
pub(crate) const FULL_AT: usize = 2;

/// Flow control as it comes: fair queue, four bands, routing; no request waits.
pub(crate) fn flow_control() -> String {
    config(PLENTY, "", "access = false")
}

/// Two backends and a flow for each team; no request waits.
pub(crate) fn passing(backend: u16) -> String {
    format!("{}{}", config(PLENTY, BY_TEAM, "access = false"), second(backend))
}

/// The same with the bounds that the program finds by itself, and room for all: most requests wait.
pub(crate) fn waiting(backend: u16) -> String {
    let room = "total_capacity = 20000\nflow_capacity = 20000";
    let log = "[log]\naccess = false\n";
    format!("[server]\nworkers = 1\n{log}[queue]\n{BY_TEAM}\n{room}\n{}", second(backend))
}

/// Another name of the same backend, so that there is a choice.
fn second(port: u16) -> String {
    format!(
        "[[backends]]\nid = \"second\"\nurl = \"http://localhost:{port}\"\nkind = \"generic\"\n\
         models = [\"m\"]\n"
    )
}

/// Flow control as it comes, with TLS for clients.
pub(super) fn with_tls(files: &CertificateFiles) -> String {
    let CertificateFiles { certificate, key, .. } = files;
    format!("{}[server.tls]\ncert_file = {certificate:?}\nkey_file = {key:?}\n", flow_control())
}

/// Flow control as it comes, with a line for every request.
pub(crate) fn logged() -> String {
    config(PLENTY, "", "access = true")
}

/// No request may wait.
pub(crate) fn queue_off() -> String {
    config(PLENTY, "enabled = false", "access = false")
}

/// Inside a flow the most urgent workload goes first.
pub(crate) fn workloads() -> String {
    config(PLENTY, "order = \"workload\"", "access = false")
}

/// This share of the requests is traced.
pub(crate) fn traced(receiver: SocketAddr, sample_ratio: f64) -> String {
    let traces = format!("endpoint = \"http://{receiver}\"\nsample_ratio = {sample_ratio:.1}");
    format!("{}[traces]\n{traces}\n", flow_control())
}

/// No block of a prompt is hashed.
pub(crate) fn no_prefix_cache() -> String {
    format!("{}[router]\ncache_tokens = 0\n", flow_control())
}

/// One request at the backend at a time.
pub(crate) fn one_at_a_time() -> String {
    config(1, "", "access = false")
}

/// One request at the backend at a time, and room for all others.
pub(crate) fn patient() -> String {
    let queue = "total_capacity = 20000\nflow_capacity = 20000\nqueue_ttl = \"30m\"";
    config(1, queue, "access = false")
}

/// A few requests at the backend at a time, and room for all others, in this order inside a flow.
pub(crate) fn few_places(order: &str) -> String {
    let queue = format!(
        "order = \"{order}\"\ntotal_capacity = 20000\nflow_capacity = 20000\n\
         queue_ttl = \"30m\""
    );
    config(FEW_PLACES, &queue, "access = false")
}

/// The same in the order `workload`, where the rate of a workload makes no difference.
pub(crate) fn few_places_by_wait() -> String {
    format!("{}[workload.weights]\nrate = 0.0\n", few_places("workload"))
}

/// One request at the backend at a time; the others wait for a second in vain.
pub(crate) fn short_lived() -> String {
    let ttl = SHORT_TTL.as_secs();
    let queue = format!("total_capacity = 20000\nflow_capacity = 20000\nqueue_ttl = \"{ttl}s\"");
    config(1, &queue, "access = false")
}

/// One request at the backend, one behind it, and no more.
pub(crate) fn full() -> String {
    config(1, "total_capacity = 1\nqueue_ttl = \"30m\"", "access = false")
}

/// Tenants by their header.
pub(crate) fn headline() -> String {
    let queue = "flow_by = [\"header:x-team\"]\nflow_capacity = 400";
    config(HEADLINE_AT_ONCE, queue, "access = false")
}

/// At most so many at the backend at once.
fn config(limit: usize, queue: &str, log: &str) -> String {
    format!(
        "[server]\nworkers = 1\n[log]\n{log}\n[queue]\n{queue}\n[controller]\n\
         lower_bound_per_backend = {limit}\nwatermark_per_backend = {limit}\n\
         upper_bound_per_backend = {limit}\n"
    )
}
