//! Which times to a first byte may include a wait inside the engine.
//!
//! While requests wait in the gateway, the engines are full, and without metrics nobody knows how
//! many requests wait inside them. A first byte that comes then says nothing about the speed of a
//! backend. The last times of a backend stay for minutes, so they are remembered.

use std::collections::BTreeMap;

use flow::{Span, Time};

use super::situation::BackendCondition;

/// The times of the last seconds count as one.
const COUNTED_SECS: f64 = 5.0;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct FirstByteWaits {
    /// When requests last waited.
    waited_at: Option<Time>,
    /// The last time of each backend that may include a wait, in milliseconds.
    waited_ms: BTreeMap<String, f64>,
}

// === impl FirstByteWaits ===

impl FirstByteWaits {
    /// Takes note of whether requests wait now, and forgets backends that have left.
    pub(super) fn look(&mut self, requests_wait: bool, known: &[BackendCondition], now: Time) {
        if requests_wait {
            self.waited_at = Some(now);
        }
        self.waited_ms.retain(|id, _| known.iter().any(|backend| backend.id == *id));
    }

    /// Tells whether the last first bytes of a backend may have waited inside its engine.
    pub(super) fn watch(&mut self, backend: &mut BackendCondition, now: Time) {
        let Some(millis) = backend.stream_first_byte_ms else { return };
        // The request of this first byte was sent so long ago.
        let sent = Span::from_secs_f64(millis / 1e3 + COUNTED_SECS);
        if self.waited_at.is_some_and(|at| now.since(at) <= sent) {
            self.waited_ms.insert(backend.id.clone(), millis);
        }
        backend.first_byte_waited = self.waited_ms.get(&backend.id) == Some(&millis);
    }
}
