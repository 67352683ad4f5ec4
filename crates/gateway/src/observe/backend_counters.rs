//! Counters of each backend: attempts by result, and the duration of responses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use flow::Span;

use crate::backend::Attempt;

/// The most backends with counters of their own; all others share `other`.
pub(super) const BACKENDS_MAX: usize = 1000;
pub(super) const OTHER: &str = "other";
/// The weight of the newest response in the mean; about the last sixteen count.
const FRESH_SHARE: f64 = 1.0 / 16.0;

/// The results of an attempt, as label values.
pub(super) const RESULTS: [&str; 4] = ["answered", "refused", "failed", "full"];

#[derive(Debug, Default)]
pub(super) struct BackendCounters {
    /// By result, as in [`RESULTS`].
    attempts: [AtomicU64; RESULTS.len()],
    /// The mean in milliseconds as the bits of an `f64`; 0 before the first response. Of two
    /// concurrent updates one may be lost, which a mean tolerates.
    latency_ms: AtomicU64,
}

type Index = BTreeMap<Arc<str>, Arc<BackendCounters>>;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct CountersByBackend {
    index: ArcSwap<Index>,
    growing: Mutex<()>,
}

// === impl CountersByBackend ===

impl CountersByBackend {
    pub(super) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.index.load().get(backend)?.mean()
    }

    /// All backends with their attempts, by name.
    pub(super) fn all(&self) -> Vec<(Arc<str>, [u64; RESULTS.len()])> {
        let index = self.index.load();
        let counts = |backend: &BackendCounters| {
            std::array::from_fn(|at| backend.attempts[at].load(Relaxed))
        };
        let mut all: Vec<_> =
            index.iter().map(|(name, backend)| (Arc::clone(name), counts(backend))).collect();
        all.sort();
        all
    }

    /// The counters of a backend, created on first use.
    pub(super) fn find(&self, backend: &str) -> Arc<BackendCounters> {
        if let Some(known) = self.index.load().get(backend) {
            return Arc::clone(known);
        }
        self.open(backend)
    }

    fn open(&self, backend: &str) -> Arc<BackendCounters> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.index.load();
        let name = if known.len() < BACKENDS_MAX { backend } else { OTHER };
        if let Some(backend) = known.get(name) {
            return Arc::clone(backend);
        }
        let backend = Arc::<BackendCounters>::default();
        let mut index = Index::clone(&known);
        index.insert(name.into(), Arc::clone(&backend));
        self.index.store(Arc::new(index));
        backend
    }
}

// === impl BackendCounters ===

impl BackendCounters {
    /// Counts an attempt.
    pub(super) fn count(&self, attempt: Attempt) {
        let result = match attempt {
            Attempt::Answered => 0,
            Attempt::Refused => 1,
            Attempt::Failed | Attempt::Silent | Attempt::Withdrawn => 2,
            Attempt::Full(_) => 3,
        };
        self.attempts[result].fetch_add(1, Relaxed);
    }

    /// Adds the duration of a response.
    pub(super) fn measured(&self, span: Span) {
        let (known, fresh) = (self.mean(), span.secs_f64() * 1e3);
        let mean = known.map_or(fresh, |known| known + (fresh - known) * FRESH_SHARE);
        self.latency_ms.store(mean.max(f64::MIN_POSITIVE).to_bits(), Relaxed);
    }

    fn mean(&self) -> Option<f64> {
        let mean = f64::from_bits(self.latency_ms.load(Relaxed));
        (mean > 0.0).then_some(mean)
    }
}
