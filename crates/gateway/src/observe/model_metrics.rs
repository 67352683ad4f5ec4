//! All that is counted of the requests for one model by one name.
//!
//! A page is found once for each request; from there every count is a field. What can be summed
//! from these fields when somebody asks is not counted a second time.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flow::BANDS;

use super::Record;
use super::histogram::Histogram;
use super::outcome::{self, OUTCOMES};

/// Classes of status codes as label values; what is no status counts as the last.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct ModelMetrics {
    /// By band, outcome and class of status.
    requests: [Endings; BANDS],
    /// The same of what has no band.
    local: Endings,
    /// By band, then failed or served.
    pub(super) queue_latency: [[Histogram; 2]; BANDS],
    pub(super) first_byte: [Histogram; BANDS],
    pub(super) total: [Histogram; BANDS],
    pub(super) bypassed: AtomicU64,
    /// Ended by the client while they waited, and while they were at a backend.
    pub(super) cancelled: [AtomicU64; 2],
    pub(super) retries: AtomicU64,
    /// In and out.
    pub(super) tokens: [AtomicU64; 2],
    pub(super) bytes: [AtomicU64; 2],
}

/// By outcome and class of status.
type Endings = [[AtomicU64; CLASSES.len()]; OUTCOMES.len()];

/// How many requests of a band ended in one way.
pub(super) struct Ending {
    /// Nothing for what has none.
    pub(super) band: Option<usize>,
    pub(super) outcome: &'static str,
    pub(super) class: &'static str,
    pub(super) count: u64,
}

// === impl ModelMetrics ===

impl ModelMetrics {
    pub(super) fn count(&self, record: &Record) {
        for (sum, bytes) in self.bytes.iter().zip([record.bytes_in, record.bytes_out]) {
            sum.fetch_add(bytes, Relaxed);
        }
        let class = (usize::from(record.status) / 100).clamp(1, CLASSES.len()) - 1;
        let outcome = outcome::index(record.outcome);
        // What took no turn says nothing of how long turns take, nor of who gave up waiting.
        let Some(band) = record.band.map(|band| band as usize) else {
            self.local[outcome][class].fetch_add(1, Relaxed);
            return;
        };
        self.requests[band][outcome][class].fetch_add(1, Relaxed);
        self.total[band].add(record.total);
        if let Some(first_byte) = record.first_byte {
            self.first_byte[band].add(first_byte);
        }
        match record.waited {
            _ if record.bypassed => _ = self.bypassed.fetch_add(1, Relaxed),
            Some(waited) => self.queue_latency[band][usize::from(record.succeeded())].add(waited),
            None => {}
        }
        if outcome::is_cancel(record.outcome) {
            self.cancelled[usize::from(record.attempts > 0)].fetch_add(1, Relaxed);
        }
        if record.attempts > 1 {
            self.retries.fetch_add(u64::from(record.attempts) - 1, Relaxed);
        }
        let tokens = [record.prompt_tokens, record.output_tokens];
        for (sum, tokens) in self.tokens.iter().zip(tokens) {
            sum.fetch_add(tokens.unwrap_or(0), Relaxed);
        }
    }

    /// Every way in which a request has ended so far.
    pub(super) fn endings(&self) -> impl Iterator<Item = Ending> {
        let bands = self.requests.iter().enumerate().map(|(band, endings)| (Some(band), endings));
        let counts = bands.chain([(None, &self.local)]).flat_map(|(band, outcomes)| {
            let outcomes = outcomes.iter().zip(OUTCOMES);
            outcomes.flat_map(move |(classes, outcome)| {
                let classes = classes.iter().zip(CLASSES);
                classes.map(move |(count, class)| Ending {
                    band,
                    outcome,
                    class,
                    count: count.load(Relaxed),
                })
            })
        });
        counts.filter(|ending| ending.count > 0)
    }

    /// How many requests ended in a way, whatever their band.
    pub(super) fn ended_in(&self, outcome: &str) -> u64 {
        let at = outcome::index(outcome);
        let counts = self.requests.iter().flat_map(|outcomes| &outcomes[at]);
        counts.map(|count| count.load(Relaxed)).sum()
    }
}

/// Two counters as they stand.
pub(super) fn read(pair: &[AtomicU64; 2]) -> [u64; 2] {
    array::from_fn(|at| pair[at].load(Relaxed))
}
