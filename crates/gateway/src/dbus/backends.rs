//! The backends: which there are, and how they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use zbus::{Variant, fdo, interface};

use super::{find, int, variant};
use crate::admin::{self, BackendEntry};
use crate::state::State;

/// The service `ie.fio.OllamaProxy.Backends`.
pub(super) struct BackendsService(pub(super) Arc<State>);

/// Id, name, type, hardware, whether it takes requests, watts, mean latency in milliseconds.
type BackendRow = (String, String, String, String, bool, f64, i32);

/// The mean latency of a backend that has not answered yet.
const NOT_MEASURED: i32 = -1;

// === impl BackendsService ===

#[interface(name = "ie.fio.OllamaProxy.Backends", spawn = false)]
impl BackendsService {
    /// Of each backend: id, name (the id again), type, hardware (always empty), whether it takes
    /// requests, its watts as configured, how many milliseconds its answers take of late (-1
    /// before the first).
    #[zbus(out_args("backends"))]
    pub(super) fn list_backends(&self) -> Vec<BackendRow> {
        let (_, entries) = admin::status(&self.0);
        entries.into_iter().map(listed).collect()
    }

    /// What the page /backends shows of one backend, under the same names, without what is null.
    #[zbus(out_args("details"))]
    pub(super) fn get_backend_details(
        &self,
        backend_id: &str,
    ) -> fdo::Result<BTreeMap<String, Variant<'static>>> {
        variant::dictionary(&find(&self.0, backend_id)?)
            .map_err(|error| fdo::Error::Failed(error.to_string()))
    }

    /// Whether a backend takes requests.
    #[zbus(out_args("healthy"))]
    pub(super) fn get_backend_health(&self, backend_id: &str) -> fdo::Result<bool> {
        Ok(find(&self.0, backend_id)?.ready)
    }

    /// The models that a backend serves.
    #[zbus(out_args("models"))]
    pub(super) fn get_supported_models(&self, backend_id: &str) -> fdo::Result<Vec<String>> {
        Ok(find(&self.0, backend_id)?.models)
    }

    /// How many backends there are.
    #[zbus(property(emits_changed_signal = "false"))]
    pub(super) fn backend_count(&self) -> i32 {
        int(admin::status(&self.0).1.len())
    }

    /// How many of them take requests.
    #[zbus(property(emits_changed_signal = "false"))]
    pub(super) fn healthy_count(&self) -> i32 {
        int(admin::status(&self.0).1.iter().filter(|entry| entry.ready).count())
    }
}

fn listed(entry: BackendEntry) -> BackendRow {
    let BackendEntry { id, kind, ready, power_watts, avg_latency_ms, .. } = entry;
    // Kept in 32 bits, which would show as noise in 64.
    let watts = (f64::from(power_watts) * 1e3).round() / 1e3;
    let latency = avg_latency_ms.map_or(NOT_MEASURED, |mean| mean.round() as i32);
    (id.clone(), id, kind.to_owned(), String::new(), ready, watts, latency)
}
