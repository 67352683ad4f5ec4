//! What the clients saw, class by class.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use sim::measure::nearest_rank;

use crate::table::table;

/// What all classes saw.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Since the first request was due.
    pub elapsed: Duration,
    /// In the order of the plan.
    pub classes: Vec<Summary>,
}

/// What one class saw.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The class.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered well, to the last byte.
    pub ok: u64,
    /// Requests that failed, by code: the server's own, its status, or `no_connection`,
    /// `no_answer`, `cut`, `timeout`.
    pub failed: BTreeMap<String, u64>,
    /// Requests under way.
    pub unfinished: u64,
    /// Bytes of answers.
    pub bytes: u64,
    /// To the end of good answers.
    pub latency: Quantiles,
    /// To the first byte of the body of good answers.
    pub first_byte: Quantiles,
    /// The same for all requests sent, whatever became of them.
    pub waits: Waits,
}

/// How long requests waited for the first byte of a good answer, those included that never had
/// one; nothing where they are too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Half of all requests waited at most this long.
    pub half: Option<Duration>,
    /// Nine in ten waited at most this long.
    pub nine_tenths: Option<Duration>,
}

/// Durations, in order: half were at most `p50`, and so on. All zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Quantiles {
    pub p50: Duration,
    pub p90: Duration,
    pub p99: Duration,
    pub max: Duration,
}

// === impl Report ===

impl Report {
    pub(super) fn new(elapsed: Duration, classes: impl Iterator<Item = Summary>) -> Self {
        Self { elapsed, classes: classes.collect() }
    }

    /// What one class saw.
    pub fn class(&self, name: &str) -> Option<&Summary> {
        self.classes.iter().find(|class| class.name == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["class", "sent", "ok", "failed", "open", "p50", "p90", "p99", "first p50"];
        let rows = self.classes.iter().map(Summary::row).collect();
        table(f, &format!("{:.1} s, times in ms", self.elapsed.as_secs_f64()), &heads, rows)
    }
}

// === impl Summary ===

impl Summary {
    fn row(&self) -> Vec<String> {
        let millis = |span: Duration| format!("{:.1}", span.as_secs_f64() * 1000.0);
        let failed: Vec<String> =
            self.failed.iter().map(|(code, count)| format!("{count} {code}")).collect();
        vec![
            self.name.clone(),
            self.sent.to_string(),
            self.ok.to_string(),
            if failed.is_empty() { "0".to_owned() } else { failed.join(", ") },
            self.unfinished.to_string(),
            millis(self.latency.p50),
            millis(self.latency.p90),
            millis(self.latency.p99),
            millis(self.first_byte.p50),
        ]
    }
}

// === impl Quantiles ===

impl Quantiles {
    pub(super) fn of(durations: &[Duration]) -> Self {
        let mut sorted = durations.to_vec();
        sorted.sort_unstable();
        let rank = |per_mille| nearest_rank(&sorted, per_mille).unwrap_or_default();
        Self { p50: rank(500), p90: rank(900), p99: rank(990), max: rank(1000) }
    }
}

// === impl Waits ===

impl Waits {
    pub(super) fn of(durations: &[Duration], sent: u64) -> Self {
        let mut waits: Vec<Option<Duration>> = durations.iter().copied().map(Some).collect();
        waits.sort_unstable();
        // Requests without a first byte waited longer than all others.
        waits.resize(waits.len().max(sent as usize), None);
        let rank = |per_mille| nearest_rank(&waits, per_mille).flatten();
        Self { half: rank(500), nine_tenths: rank(900) }
    }
}
