//! From objects of the cluster to backends.
//!
//! A pod is one backend for each target port: the ranks of a data-parallel server have a port each.
//! A pod that is not ready, or that is to end, stays a backend that gets no new requests, so that
//! its streams end and its measurements are kept if it returns. One without an address is none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::objects::{EndpointSlice, Pod, SliceEndpoint, SlicePort};
use super::reflector::Objects;
use crate::config::settings::{BackendKind, BackendSpec, DrainCause};

/// The picker's label for the engine of an endpoint.
pub(super) const ENGINE_LABEL: &str = "llm-d.ai/engine-type";
/// The annotations with the ports of a pod that take requests, the newer one first.
pub(super) const ACTIVE_PORTS: [&str; 2] =
    ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];
/// The order in which the addresses of a service with two families are used.
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// The most backends, as in an endpoints file.
pub(super) const ENDPOINTS_MAX: usize = 4096;

/// Removes the backends whose ids the configuration would refuse. Returns their number.
pub(super) fn leave_out_unusable(specs: &mut Vec<BackendSpec>) -> usize {
    let found = specs.len();
    specs.retain(|spec| BackendSpec::allows_id(&spec.id));
    found - specs.len()
}

/// The backends of pods.
pub(super) fn of_pods(pods: &Objects<Pod>, ports: &[u16], http2: bool) -> Vec<BackendSpec> {
    let mut specs = Vec::new();
    for pod in pods.values() {
        let ended = ["Succeeded", "Failed"].contains(&pod.status.phase.as_str());
        let Some(host) = host(&pod.status.pod_ip).filter(|_| !ended) else { continue };
        let drain = drain_of(pod);
        let active = active_ports(pod);
        for (rank, &port) in ports.iter().enumerate() {
            if specs.len() > ENDPOINTS_MAX {
                return specs;
            }
            if active.as_ref().is_some_and(|active| !active.contains(&port)) {
                continue;
            }
            let name = &pod.metadata.name;
            let id = if ports.len() > 1 { format!("{name}-rank-{rank}") } else { name.clone() };
            let kind = pod.metadata.labels.0.get(ENGINE_LABEL);
            let kind = kind.and_then(|name| BackendKind::named(name)).unwrap_or_default();
            specs.push(BackendSpec { kind, http2, drain, ..spec(id, &host, port) });
        }
    }
    specs
}

/// The backends of a service. Without a port it is the first one of each slice.
pub(super) fn of_slices(slices: &Objects<EndpointSlice>, port: Option<u16>) -> Vec<BackendSpec> {
    let of_family = |family| slices.values().filter(move |slice| slice.address_type == family);
    let mut specs: BTreeMap<String, BackendSpec> = BTreeMap::new();
    for slice in FAMILIES.into_iter().flat_map(of_family) {
        let ports = slice.ports.iter().flatten();
        let Some(port) = port.or_else(|| ports.filter_map(SlicePort::number).next()) else {
            continue;
        };
        let endpoints = slice.endpoints.iter().flatten();
        for spec in endpoints.filter_map(|endpoint| slice_spec(endpoint, port)) {
            if specs.len() > ENDPOINTS_MAX {
                break;
            }
            // While an endpoint moves between slices, both may have it.
            specs.entry(spec.id.clone()).or_insert(spec);
        }
    }
    specs.into_values().collect()
}

fn slice_spec(endpoint: &SliceEndpoint, port: u16) -> Option<BackendSpec> {
    let address = endpoint.addresses.first()?;
    let pod = endpoint.target_ref.as_ref().map(|reference| &reference.name);
    let id = pod.cloned().unwrap_or_else(|| format!("{address}:{port}"));
    Some(BackendSpec { drain: slice_drain(endpoint), ..spec(id, &host(address)?, port) })
}

fn spec(id: String, host: &str, port: u16) -> BackendSpec {
    BackendSpec::new(id, format!("http://{host}:{port}"))
}

/// An address as a URL has it; `None` for what is no address.
fn host(address: &str) -> Option<String> {
    match address.parse().ok()? {
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) => Some(format!("[{address}]")),
    }
}

fn drain_of(pod: &Pod) -> Option<DrainCause> {
    let is_ready = |name: &str, status: &str| name == "Ready" && status == "True";
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(DrainCause::Terminating);
    }
    let mut conditions = pod.status.conditions.iter();
    let ready = conditions.any(|condition| is_ready(&condition.name, &condition.status));
    (!ready).then_some(DrainCause::NotReady)
}

fn slice_drain(endpoint: &SliceEndpoint) -> Option<DrainCause> {
    if endpoint.conditions.terminating == Some(true) {
        return Some(DrainCause::Terminating);
    }
    (endpoint.conditions.ready == Some(false)).then_some(DrainCause::NotReady)
}

/// The ports that a pod states; `None` if it states none.
fn active_ports(pod: &Pod) -> Option<Vec<u16>> {
    let text = ACTIVE_PORTS.iter().find_map(|name| pod.metadata.annotations.0.get(*name))?;
    Some(text.split(',').filter_map(|port| port.trim().parse().ok()).collect())
}
