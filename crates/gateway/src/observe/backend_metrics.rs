//! What is counted of each backend: how attempts at it went, and how long its answers take.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use flow::Span;

use crate::backend::Attempt;

/// The most backends with counters of their own; further ones share those of `other`.
pub(super) const BACKENDS_MAX: usize = 1000;
pub(super) const OTHER: &str = "other";
/// How much one answer moves the mean: the last sixteen or so count.
const FRESH_SHARE: f64 = 1.0 / 16.0;

/// How attempts can go, as label values.
pub(super) const RESULTS: [&str; 4] = ["answered", "refused", "failed", "full"];

#[derive(Debug, Default)]
pub(super) struct BackendCounters {
    /// By how they went, as in [`RESULTS`].
    attempts: [AtomicU64; RESULTS.len()],
    /// A mean in milliseconds as the bits of an `f64`; 0 before the first answer. Two answers that
    /// end in the same instant may count as one, which a mean can bear.
    latency_ms: AtomicU64,
}

type Index = BTreeMap<Arc<str>, Arc<BackendCounters>>;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct BackendMetrics {
    index: ArcSwap<Index>,
    growing: Mutex<()>,
}

// === impl BackendMetrics ===

impl BackendMetrics {
    pub(super) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.index.load().get(backend)?.mean()
    }

    /// Every backend with its attempts, by name.
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

    /// The counters of a backend, which are made if need be.
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
    /// An attempt has ended in one way or another.
    pub(super) fn count(&self, attempt: Attempt) {
        let result = match attempt {
            Attempt::Answered => 0,
            Attempt::Refused => 1,
            Attempt::Failed => 2,
            Attempt::Full(_) => 3,
        };
        self.attempts[result].fetch_add(1, Relaxed);
    }

    /// An answer took this long.
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
