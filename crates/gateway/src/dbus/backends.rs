//! The service for backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use zbus::{Variant, fdo, interface};

use super::{find, int, variant};
use crate::admin::{self, BackendEntry};
use crate::state::State;

/// The service `ie.fio.OllamaProxy.Backends`.
pub(super) struct BackendsService(pub(super) Arc<State>);

/// Id, name, type, hardware, readiness, watts, mean latency in milliseconds.
type BackendRow = (String, String, String, String, bool, f64, i32);

/// The mean latency of a backend before its first response.
const NOT_MEASURED: i32 = -1;

// === impl BackendsService ===

#[interface(name = "ie.fio.OllamaProxy.Backends", spawn = false)]
impl BackendsService {
    /// For each backend: id, name (the id again), type, hardware (always empty), whether it is
    /// ready, its configured watts, the recent mean latency of its responses in milliseconds (-1
    /// before the first).
    #[zbus(out_args("backends"))]
    pub(super) fn list_backends(&self) -> Vec<BackendRow> {
        let (_, entries) = admin::status(&self.0);
        entries.into_iter().map(listed).collect()
    }

    /// All fields of the page /backends for one backend, under the same names, without null fields.
    #[zbus(out_args("details"))]
    pub(super) fn get_backend_details(
        &self,
        backend_id: &str,
    ) -> fdo::Result<BTreeMap<String, Variant<'static>>> {
        variant::dictionary(&find(&self.0, backend_id)?)
            .map_err(|error| fdo::Error::Failed(error.to_string()))
    }

    /// Whether a backend is ready.
    #[zbus(out_args("healthy"))]
    pub(super) fn get_backend_health(&self, backend_id: &str) -> fdo::Result<bool> {
        Ok(find(&self.0, backend_id)?.ready)
    }

    /// The models that a backend serves.
    #[zbus(out_args("models"))]
    pub(super) fn get_supported_models(&self, backend_id: &str) -> fdo::Result<Vec<String>> {
        Ok(find(&self.0, backend_id)?.models)
    }

    /// The number of backends.
    #[zbus(property(emits_changed_signal = "false"))]
    pub(super) fn backend_count(&self) -> i32 {
        int(admin::status(&self.0).1.len())
    }

    /// The number of ready backends.
    #[zbus(property(emits_changed_signal = "false"))]
    pub(super) fn healthy_count(&self) -> i32 {
        int(admin::status(&self.0).1.iter().filter(|entry| entry.ready).count())
    }
}

fn listed(entry: BackendEntry) -> BackendRow {
    let BackendEntry { id, kind, ready, power_watts, avg_latency_ms, .. } = entry;
    // The value has 32 bits, whose rounding error would show in 64.
    let watts = (f64::from(power_watts) * 1e3).round() / 1e3;
    let latency = avg_latency_ms.map_or(NOT_MEASURED, |mean| mean.round() as i32);
    (id.clone(), id, kind.to_owned(), String::new(), ready, watts, latency)
}
