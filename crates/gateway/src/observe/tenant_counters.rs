//! The counters of each tenant. Tenants come from the configuration, so the operator bounds their
//! number. A separate bound covers tenants of earlier configurations, because a reload can bring
//! other names.

use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::Record;
use crate::error_codes::{ERROR_CODES, ErrorCode};

/// The most tenants with counters.
const TENANTS_MAX: usize = 10_000;

/// The counters of all tenants, by name.
#[derive(Debug, Default)]
pub(super) struct CountersByTenant {
    by_name: ArcSwap<BTreeMap<String, Arc<TenantCounters>>>,
    growing: Mutex<()>,
}

/// The counters of one tenant.
#[derive(Debug)]
pub(super) struct TenantCounters {
    requests: [AtomicU64; ERROR_CODES.len()],
    /// Input and output.
    pub(super) tokens: [AtomicU64; 2],
    /// Requests that claimed a higher band than the tenant may have.
    pub(super) clamped: AtomicU64,
}

// === impl CountersByTenant ===

impl CountersByTenant {
    /// Counts a request of a tenant that has ended.
    pub(super) fn count(&self, tenant: &str, record: &Record) {
        let known = self.by_name.load().get(tenant).cloned();
        if let Some(counters) = known.or_else(|| self.open(tenant)) {
            counters.count(record);
        }
    }

    fn open(&self, tenant: &str) -> Option<Arc<TenantCounters>> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = BTreeMap::clone(&self.by_name.load());
        if all.len() >= TENANTS_MAX {
            return None;
        }
        let counters = Arc::clone(all.entry(tenant.to_owned()).or_default());
        self.by_name.store(Arc::new(all));
        Some(counters)
    }

    /// All tenants with their counters.
    pub(super) fn all(&self) -> Arc<BTreeMap<String, Arc<TenantCounters>>> {
        self.by_name.load_full()
    }
}

// === impl TenantCounters ===

impl TenantCounters {
    fn count(&self, record: &Record) {
        self.requests[ErrorCode::index(record.outcome)].fetch_add(1, Relaxed);
        let charged = [record.charged.prompt, record.charged.output];
        for (sum, tokens) in self.tokens.iter().zip(charged) {
            sum.fetch_add(tokens, Relaxed);
        }
        self.clamped.fetch_add(u64::from(record.band_clamped), Relaxed);
    }

    /// The outcomes that have occurred, with their numbers.
    pub(super) fn endings(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = ERROR_CODES.iter().zip(&self.requests);
        counts
            .map(|(outcome, count)| (outcome.name, count.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
    }
}

impl Default for TenantCounters {
    fn default() -> Self {
        let requests = array::from_fn(|_| AtomicU64::new(0));
        Self { requests, tokens: Default::default(), clamped: AtomicU64::new(0) }
    }
}
