//! What the observer knows of live requests and of the past, for status pages and diagnosis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flow::{RouteReason, Time};

#[cfg(feature = "dbus")]
use super::backend_counters::AttemptCounts;
use super::backend_counters::BackendCounters;
use super::{LastRefusals, Observer, Record, RequestMistake, outcome};
use crate::backend::RecentTime;

impl Observer {
    /// The attempts of the live request under this index of a ticket.
    pub(crate) fn attempts_of(&self, index: usize) -> Option<u32> {
        self.ticket_ids.attempts(index)
    }

    /// Whether the live request under this index of a ticket has this id.
    pub(crate) fn has_id(&self, index: usize, id: &[u8]) -> bool {
        self.ticket_ids.has(index, id)
    }

    /// Why its backend was chosen.
    pub(crate) fn reason_of(&self, index: usize) -> Option<&'static str> {
        self.ticket_ids.reason(index).map(RouteReason::text)
    }

    /// One of the requests that ended last, and when it ended.
    pub(crate) fn ended_request(&self, id: &[u8]) -> Option<(Time, Record)> {
        self.ended.find(id)
    }

    /// The requests that ended last, the last first, and when they ended.
    pub(crate) fn last_ended(&self, most: usize) -> Vec<(Time, Record)> {
        self.ended.last(most)
    }

    /// All backends with their successful and failed attempts.
    #[cfg(feature = "dbus")]
    pub(crate) fn attempts(&self) -> Vec<(Arc<str>, [u64; 2])> {
        let split = |(name, [answered, others @ ..]): (_, AttemptCounts)| {
            (name, [answered, others.iter().sum()])
        };
        self.backends.attempts().into_iter().map(split).collect()
    }

    /// What clients did wrong most often since then, for each reason.
    pub(crate) fn mistakes(&self, since: Time) -> Vec<RequestMistake> {
        self.ended.mistakes(since)
    }

    /// The paths that do not exist of requests since then, with their numbers.
    pub(crate) fn unknown_paths(&self, since: Time) -> BTreeMap<String, usize> {
        self.unknown_paths.since(since)
    }

    /// Requests whose clients left before any response began, or while it stood still.
    pub(crate) fn left_unanswered(&self) -> u64 {
        self.left_unanswered.load(Relaxed)
    }

    /// The last text in the place of a priority that names no band, and the requests with one.
    pub(crate) fn unknown_priorities(&self) -> (String, u64) {
        self.unknown_priorities.read()
    }

    /// The number of ended requests by band, `None` without one, and outcome.
    pub(crate) fn endings(&self) -> BTreeMap<(Option<usize>, &'static str), u64> {
        let mut sums = BTreeMap::new();
        for (_, counters) in self.model_labels.all() {
            for ending in counters.endings() {
                let outcome = match (ending.outcome, ending.class) {
                    (outcome::OK, "3xx" | "4xx") => outcome::REFUSED_BY_BACKEND,
                    (outcome::OK, "5xx") => outcome::FAILED_BY_BACKEND,
                    (outcome, _) => outcome,
                };
                *sums.entry((ending.band, outcome)).or_default() += ending.count;
            }
        }
        sums
    }

    /// Answered and failed attempts by backend. One that was full did not fail.
    pub(crate) fn attempt_ends(&self) -> BTreeMap<Arc<str>, [u64; 2]> {
        let ends = |backend: &BackendCounters| {
            let [answered, refused, failed, _] = backend.attempts();
            [answered, refused + failed]
        };
        self.backends.all().into_iter().map(|(name, backend)| (name, ends(&backend))).collect()
    }

    /// The recent mean time of requests at a backend in milliseconds.
    pub(crate) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.backends.latency_ms(backend)
    }

    /// The time of a whole response of a backend by the last ones; `None` if they are old.
    pub(crate) fn latency_now(&self, backend: &str, now: Time) -> Option<RecentTime> {
        self.backends.latency_now(backend, now)
    }

    /// The recent mean length of a backend's responses in tokens.
    pub(crate) fn output_tokens(&self, backend: &str) -> Option<f64> {
        self.backends.output_tokens(backend)
    }

    /// How many of a backend's last responses refused the request.
    pub(crate) fn last_refusals(&self, backend: &str) -> LastRefusals {
        self.backends.last_refusals(backend)
    }
}
