//! The time from token to token at each backend over the last hour, as a measure of its own: a lone
//! backend has no peer.
//!
//! Streams share an engine, so a token takes longer while more of them run. Only moments with a
//! similar number of requests are compared.

use std::collections::{BTreeMap, VecDeque};

use flow::{Span, Time};

use super::situation::BackendCondition;

/// The time between two samples, how many are kept of a backend, and for how long.
const SAMPLE_EVERY: Span = Span::from_secs(5);
const SAMPLES_MAX: usize = 120;
const KEPT: Span = Span::from_secs(3600);
/// A measurement counts for so long. A backend that the router avoids gets about one request in a
/// minute.
const MEASURED_KEPT: Span = Span::from_secs(120);
/// Younger samples may already show what is wrong.
const SETTLED: Span = Span::from_secs(30);
/// Fewer samples say nothing.
const SAMPLES_LEAST: usize = 3;
/// A sample counts if the backend had at least this part of its present requests.
const LOAD_PART: f64 = 0.5;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct TokenPaces {
    by_backend: BTreeMap<String, VecDeque<PaceSample>>,
    /// The last measurement of each backend, and when it was first seen.
    measured: BTreeMap<String, (f64, Time)>,
}

#[derive(Clone, Copy, Debug)]
struct PaceSample {
    at: Time,
    token_ms: f64,
    in_flight: u32,
}

// === impl TokenPaces ===

impl TokenPaces {
    /// Adds the usual time of a backend, and takes a sample. What a slow backend does is not usual.
    pub(super) fn watch(&mut self, backend: &mut BackendCondition, now: Time) {
        let Some(token_ms) = backend.token_ms else { return };
        let measured = self.measured.entry(backend.id.clone()).or_insert((token_ms, now));
        if measured.0 != token_ms {
            *measured = (token_ms, now);
        }
        backend.token_ms_is_old = now.since(measured.1) > MEASURED_KEPT;
        if backend.in_flight == 0 {
            return;
        }
        let samples = self.by_backend.entry(backend.id.clone()).or_default();
        samples.retain(|sample| now.since(sample.at) <= KEPT);
        backend.usual_token_ms = usual(samples, backend.in_flight, now);
        let due = samples.back().is_none_or(|last| now.since(last.at) >= SAMPLE_EVERY);
        if due && !backend.was_slow {
            samples.push_back(PaceSample { at: now, token_ms, in_flight: backend.in_flight });
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
    }

    /// Forgets backends that have left.
    pub(super) fn retain(&mut self, known: &[BackendCondition]) {
        let stays = |id: &String| known.iter().any(|backend| backend.id == *id);
        self.by_backend.retain(|id, _| stays(id));
        self.measured.retain(|id, _| stays(id));
    }
}

/// The median of the settled samples with a similar load.
fn usual(samples: &VecDeque<PaceSample>, in_flight: u32, now: Time) -> Option<f64> {
    let least = f64::from(in_flight) * LOAD_PART;
    let is_settled = |sample: &&PaceSample| now.since(sample.at) >= SETTLED;
    let is_similar = |sample: &&PaceSample| f64::from(sample.in_flight) >= least;
    let settled = samples.iter().filter(is_settled).filter(is_similar);
    let mut paces: Vec<f64> = settled.map(|sample| sample.token_ms).collect();
    paces.sort_by(f64::total_cmp);
    paces.get(paces.len() / 2).copied().filter(|_| paces.len() >= SAMPLES_LEAST)
}
