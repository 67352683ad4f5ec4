//! Counters of each backend: attempts by result, and the duration of responses.
//!
//! They go when their backend has left: a fleet whose members change names, such as pods, must not
//! fill the bound with names of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use flow::Time;
use http::Method;

use super::Record;
use super::histogram::Histogram;
use super::last_answers::{LastAnswers, LastRefusals};
use super::outcome;
use crate::backend::{Attempt, RecentTime, RecentTimes};

/// The most backends with counters of their own; all others share `other`.
pub(super) const BACKENDS_MAX: usize = 1000;
pub(super) const OTHER: &str = "other";
/// The weight of the newest response in the mean; about the last sixteen count.
const FRESH_SHARE: f64 = 1.0 / 16.0;

/// The results of an attempt, as label values.
pub(super) const RESULTS: [&str; 4] = ["answered", "refused", "failed", "full"];

/// Attempts by result, as in [`RESULTS`].
pub(super) type AttemptCounts = [u64; RESULTS.len()];

/// The name under which D-Bus shows the attempts at backends that have left.
#[cfg(feature = "dbus")]
const REMOVED: &str = "removed";

#[derive(Debug, Default)]
pub(super) struct BackendCounters {
    /// By result, as in [`RESULTS`].
    attempts: [AtomicU64; RESULTS.len()],
    /// The mean in milliseconds as the bits of an `f64`; 0 before the first response. Of two
    /// concurrent updates one may be lost, which a mean tolerates.
    latency_ms: AtomicU64,
    /// The mean number of tokens of a response, in the same form.
    output_tokens: AtomicU64,
    /// The last times of whole responses.
    last: RecentTimes,
    /// Which of its last responses refused the request.
    answers: LastAnswers,
    /// From the grant of the backend to the first byte of its response.
    pub(super) first_byte: Histogram,
    /// Whether the last scrape did not know the backend any more.
    unlisted: AtomicBool,
}

type Index = BTreeMap<Arc<str>, Arc<BackendCounters>>;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct CountersByBackend {
    index: ArcSwap<Index>,
    /// The attempts at backends that have left. The lock also guards changes of the index.
    removed: Mutex<AttemptCounts>,
}

// === impl CountersByBackend ===

impl CountersByBackend {
    pub(super) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.index.load().get(backend)?.mean()
    }

    /// The time of a whole response by the last ones; `None` if they are old.
    pub(super) fn latency_now(&self, backend: &str, now: Time) -> Option<RecentTime> {
        self.index.load().get(backend)?.last.now(now)
    }

    /// The mean length of its responses in tokens, where it is known.
    pub(super) fn output_tokens(&self, backend: &str) -> Option<f64> {
        known(&self.index.load().get(backend)?.output_tokens)
    }

    /// How many of its last responses refused the request.
    pub(super) fn last_refusals(&self, backend: &str) -> LastRefusals {
        self.index.load().get(backend).map(|known| known.answers.refusals()).unwrap_or_default()
    }

    /// All backends that the last scrape knew, by name.
    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<BackendCounters>)> {
        let index = self.index.load();
        let listed = index.iter().filter(|(_, backend)| !backend.unlisted.load(Relaxed));
        listed.map(|(name, backend)| (Arc::clone(name), Arc::clone(backend))).collect()
    }

    /// The attempts at each backend since the start, those at backends that have left as one.
    #[cfg(feature = "dbus")]
    pub(super) fn attempts(&self) -> Vec<(Arc<str>, AttemptCounts)> {
        let index = self.index.load();
        let present = index.iter().map(|(name, backend)| (Arc::clone(name), backend.attempts()));
        let removed = *self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = (removed != AttemptCounts::default()).then(|| (REMOVED.into(), removed));
        present.chain(removed).collect()
    }

    /// Hides the backends that are not listed, and forgets those that were not listed the last time
    /// either: a backend that joins between the listing and this call keeps its counters.
    pub(super) fn retain(&self, listed: &BTreeSet<&str>) {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.index.load();
        let mut index = Index::clone(&known);
        index.retain(|name, backend| {
            let unlisted = !listed.contains(&**name) && **name != *OTHER;
            let gone = backend.unlisted.swap(unlisted, Relaxed) && unlisted;
            if gone {
                removed.iter_mut().zip(backend.attempts()).for_each(|(sum, count)| *sum += count);
            }
            !gone
        });
        if index.len() < known.len() {
            self.index.store(Arc::new(index));
        }
    }

    /// The counters of a backend, created on first use.
    pub(super) fn find(&self, backend: &str) -> Arc<BackendCounters> {
        if let Some(known) = self.index.load().get(backend) {
            return Arc::clone(known);
        }
        self.open(backend)
    }

    fn open(&self, backend: &str) -> Arc<BackendCounters> {
        let _changing = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
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
            // It was never there.
            Attempt::NotSent => return,
            Attempt::Full(_) => 3,
        };
        self.attempts[result].fetch_add(1, Relaxed);
    }

    /// Attempts by result.
    pub(super) fn attempts(&self) -> AttemptCounts {
        std::array::from_fn(|at| self.attempts[at].load(Relaxed))
    }

    /// Adds the times of a request that has ended.
    pub(super) fn ended(&self, record: &Record) {
        if let Some(first_byte) = record.backend_first_byte {
            self.first_byte.add(first_byte);
        }
        // The gateway itself answers requests without a band.
        if record.outcome == outcome::OK && record.band.is_some() && record.method == Method::POST {
            self.answers.add(record.status);
        }
        if record.succeeded() {
            smooth(&self.latency_ms, record.at_backend.secs_f64() * 1e3);
            if let Some(tokens) = record.output_tokens {
                smooth(&self.output_tokens, tokens as f64);
            }
        }
    }

    /// Keeps the time of a response that ended now.
    pub(super) fn responded(&self, record: &Record, now: Time) {
        if record.succeeded() {
            let (taken, tokens) = (record.at_backend, record.output_tokens);
            self.last.add(RecentTime { at: now, taken, tokens });
        }
    }

    fn mean(&self) -> Option<f64> {
        known(&self.latency_ms)
    }
}

/// Adds a value to a mean.
fn smooth(mean: &AtomicU64, fresh: f64) {
    let next = known(mean).map_or(fresh, |known| known + (fresh - known) * FRESH_SHARE);
    mean.store(next.max(f64::MIN_POSITIVE).to_bits(), Relaxed);
}

fn known(mean: &AtomicU64) -> Option<f64> {
    let mean = f64::from_bits(mean.load(Relaxed));
    (mean > 0.0).then_some(mean)
}
