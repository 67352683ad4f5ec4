//! The counters of all requests with the same pair of model names.
//!
//! A request finds its counters once and then updates fields. Values that can be computed from
//! these fields are not counted a second time.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use flow::{BANDS, Span};

use super::Record;
use super::histogram::Histogram;
use super::labels::NONE;
use super::outcome::{self, PUSH_ERRORS};
use super::size_histogram::SizeHistogram;
use super::traces::TraceId;
use crate::error_codes::{ERROR_CODES, ErrorCode};

/// Status classes as label values, the first for an unknown status; an invalid one counts as the
/// last.
pub(super) const CLASSES: [&str; 6] = [NONE, "1xx", "2xx", "3xx", "4xx", "5xx"];

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct ModelCounters {
    /// By band, outcome and status class.
    requests: [Endings; BANDS],
    /// The same for requests without a band.
    local: Endings,
    /// By band, then failed or succeeded.
    pub(super) queue_latency: [[Histogram; 2]; BANDS],
    pub(super) first_byte: [Histogram; BANDS],
    pub(super) total: [Histogram; BANDS],
    pub(super) bypassed: AtomicU64,
    /// Ended by the client while waiting, and while at a backend.
    pub(super) cancelled: [AtomicU64; 2],
    /// Those that could not be queued, by [`PUSH_ERRORS`]. One that had been queued and left the
    /// queue for the same reason is not among them.
    pub(super) push_errors: [AtomicU64; PUSH_ERRORS.len()],
    pub(super) retries: AtomicU64,
    /// Responses whose first byte came after their objective.
    pub(super) late: AtomicU64,
    /// The time of a whole response over its tokens, and the time from token to token after the
    /// first.
    pub(super) token_times: [Histogram; 2],
    /// Input and output.
    pub(super) tokens: [SizeHistogram; 2],
    pub(super) bytes: [SizeHistogram; 2],
    /// Tokens of prompts that were cached, where a backend said so, and that were expected to be.
    pub(super) cached: SizeHistogram,
    pub(super) cached_expected: AtomicU64,
}

/// By outcome and status class.
#[derive(Debug)]
struct Endings([[AtomicU64; CLASSES.len()]; ERROR_CODES.len()]);

/// The number of requests of a band with one outcome.
pub(super) struct Ending {
    /// `None` for requests without a band.
    pub(super) band: Option<usize>,
    pub(super) outcome: &'static str,
    pub(super) class: &'static str,
    pub(super) count: u64,
}

// === impl ModelCounters ===

impl ModelCounters {
    pub(super) fn count(&self, record: &Record) {
        for (sizes, bytes) in self.bytes.iter().zip([record.bytes_in, record.bytes_out]) {
            sizes.add(bytes);
        }
        let class = (usize::from(record.status) / 100).min(CLASSES.len() - 1);
        let outcome = ErrorCode::index(record.outcome);
        // A request that did not use the queue must not count in the figures of the queue.
        let Some(band) = record.band.map(|band| band as usize) else {
            self.local.0[outcome][class].fetch_add(1, Relaxed);
            return;
        };
        self.requests[band].0[outcome][class].fetch_add(1, Relaxed);
        self.total[band].add(record.total);
        if let Some(first_byte) = record.first_byte {
            self.first_byte[band].add(first_byte);
        }
        match record.waited {
            _ if record.bypassed => _ = self.bypassed.fetch_add(1, Relaxed),
            Some(waited) => {
                self.queue_latency[band][usize::from(record.waited_well())].add(waited);
            }
            None => self.count_push_error(record.outcome),
        }
        if outcome::is_cancel(record.outcome) {
            let at_backend = record.attempts > 0 && !record.waits;
            self.cancelled[usize::from(at_backend)].fetch_add(1, Relaxed);
        }
        if record.attempts > 1 {
            self.retries.fetch_add(u64::from(record.attempts) - 1, Relaxed);
        }
        self.count_tokens(record);
    }

    fn count_tokens(&self, record: &Record) {
        if let Some(found) = record.cached_tokens {
            self.cached.add(found);
            self.cached_expected.fetch_add(record.cached_expected, Relaxed);
        }
        for (sizes, tokens) in self.tokens.iter().zip([record.prompt_tokens, record.output_tokens])
        {
            tokens.iter().for_each(|&tokens| sizes.add(tokens));
        }
        let Some(first_byte) = record.first_byte else { return };
        if record.slo_ttft.is_some_and(|objective| first_byte > objective) {
            self.late.fetch_add(1, Relaxed);
        }
        let tokens = record.output_tokens.unwrap_or(0);
        let after_first = Span::from_nanos(record.total.nanos().saturating_sub(first_byte.nanos()));
        let times = [(record.total, tokens), (after_first, tokens.saturating_sub(1))];
        for (histogram, (span, tokens)) in self.token_times.iter().zip(times) {
            let each = span.nanos().checked_div(tokens);
            each.iter().for_each(|&nanos| histogram.add(Span::from_nanos(nanos)));
        }
    }

    /// A request without a wait has ended: its outcome may be that it could not wait.
    fn count_push_error(&self, outcome: &str) {
        self.push_errors_of(outcome).into_iter().for_each(|count| _ = count.fetch_add(1, Relaxed));
    }

    /// Those that could not be queued for this reason, if it is one.
    pub(super) fn push_errors_of(&self, outcome: &str) -> Option<&AtomicU64> {
        let mut errors = PUSH_ERRORS.into_iter().zip(&self.push_errors);
        errors.find(|&(error, _)| error == outcome).map(|(_, count)| count)
    }

    /// Names the trace of a request that was counted.
    pub(super) fn exemplify(&self, record: &Record, trace: (TraceId, Duration)) {
        let Some(band) = record.band.map(|band| band as usize) else { return };
        self.total[band].exemplify(record.total, trace);
        if let Some(first_byte) = record.first_byte {
            self.first_byte[band].exemplify(first_byte, trace);
        }
        if let Some(waited) = record.waited.filter(|_| !record.bypassed) {
            let served = usize::from(record.waited_well());
            self.queue_latency[band][served].exemplify(waited, trace);
        }
    }

    /// All outcomes that have occurred.
    pub(super) fn endings(&self) -> impl Iterator<Item = Ending> {
        let bands = self.requests.iter().enumerate().map(|(band, endings)| (Some(band), endings));
        let counts = bands.chain([(None, &self.local)]).flat_map(|(band, outcomes)| {
            let outcomes = outcomes.0.iter().zip(&ERROR_CODES);
            outcomes.flat_map(move |(classes, outcome)| {
                let classes = classes.iter().zip(CLASSES);
                classes.map(move |(count, class)| Ending {
                    band,
                    outcome: outcome.name,
                    class,
                    count: count.load(Relaxed),
                })
            })
        });
        counts.filter(|ending| ending.count > 0)
    }

    /// The number of requests with an outcome, over all bands.
    pub(super) fn ended_in(&self, outcome: &str) -> u64 {
        let at = ErrorCode::index(outcome);
        let counts = self.requests.iter().flat_map(|outcomes| &outcomes.0[at]);
        counts.map(|count| count.load(Relaxed)).sum()
    }
}

// === impl Endings ===

impl Default for Endings {
    fn default() -> Self {
        Self(array::from_fn(|_| Default::default()))
    }
}

/// The values of two counters.
pub(super) fn read(pair: &[AtomicU64; 2]) -> [u64; 2] {
    array::from_fn(|at| pair[at].load(Relaxed))
}
