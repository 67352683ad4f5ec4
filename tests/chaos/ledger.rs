//! The ledger: the outcome of each request as its client saw it, against the gateway's own records.

use std::collections::BTreeMap;

use serde_json::Value;

use super::traffic::Fresh;
use crate::support::Metrics;

/// The outcome of one request, as its client saw it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) outcome: ClientOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientOutcome {
    /// A whole response with this status.
    Answered(u16),
    /// The response began and was cut, visibly.
    Cut,
    /// The connection ended without a response, while the client waited for one.
    Silent,
    /// The client left, or did not send its whole request.
    Left,
}

/// All outcomes of a run.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) entries: Vec<Entry>,
}

/// Statuses that a client of this traffic may get. 500 is not among them.
const STATUSES: [u16; 11] = [200, 400, 401, 404, 408, 413, 429, 431, 502, 503, 504];

// === impl Entry ===

impl Entry {
    /// A response that ended cleanly. A response with status 200 must then be complete.
    pub(super) fn answered(fresh: &Fresh, status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        if status == 200 && fresh.streamed {
            let complete = text.ends_with("data: [DONE]\n\n") && !text.contains("\"error\"");
            assert!(complete, "{}: a cut stream ended cleanly: {text}", fresh.id);
        } else {
            let read: Result<Value, _> = serde_json::from_str(&text);
            let body =
                read.unwrap_or_else(|error| panic!("{} {status}: {error}: {text}", fresh.id));
            let key = if status == 200 { "choices" } else { "error" };
            assert!(!body[key].is_null(), "{} {status}: {text}", fresh.id);
        }
        Self::of(fresh, ClientOutcome::Answered(status))
    }

    pub(super) fn of(fresh: &Fresh, outcome: ClientOutcome) -> Self {
        Self { id: fresh.id.clone(), outcome }
    }
}

// === impl Ledger ===

impl Ledger {
    /// How often each outcome came.
    pub(super) fn table(&self) -> String {
        let mut counts: BTreeMap<ClientOutcome, usize> = BTreeMap::new();
        for entry in &self.entries {
            *counts.entry(entry.outcome).or_default() += 1;
        }
        let row = |(outcome, count): (&ClientOutcome, &usize)| format!("{outcome:?}: {count}");
        counts.iter().map(row).collect::<Vec<_>>().join(", ")
    }
}

/// Each request has the one line in the access log that its client's outcome demands.
pub(super) fn check_log(ledger: &Ledger, lines: &[Value]) {
    let mut by_id: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for line in lines {
        by_id.entry(line["request_id"].as_str().unwrap_or_default()).or_default().push(line);
    }
    for Entry { id, outcome } in &ledger.entries {
        let found = by_id.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        let at_most_once = *outcome == ClientOutcome::Left && found.is_empty();
        assert!(found.len() == 1 || at_most_once, "{id} {outcome:?}: {found:?}");
        let Some(line) = found.first() else { continue };
        let agrees = match outcome {
            ClientOutcome::Answered(status) => {
                STATUSES.contains(status)
                    && line["status"] == *status
                    && (*status == 200) == (line["outcome"] == "ok")
            }
            ClientOutcome::Cut => line["outcome"] != "ok",
            ClientOutcome::Silent => false,
            ClientOutcome::Left => true,
        };
        assert!(agrees, "{id} {outcome:?}: {line}");
    }
    let failures = ["internal", "other"];
    let internal = lines.iter().find(|line| failures.iter().any(|code| line["outcome"] == *code));
    assert!(internal.is_none(), "{internal:?}");
}

/// The counters are the sums of the access log.
pub(super) fn check_metrics(lines: &[Value], metrics: &Metrics) {
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        *outcomes.entry(line["outcome"].as_str().unwrap()).or_default() += 1;
    }
    eprintln!("access log: {outcomes:?}");
    for (outcome, count) in &outcomes {
        let label = format!("outcome=\"{outcome}\"");
        let counted = metrics.sum_where("tidegate_requests_total", &label);
        assert_eq!(counted, *count as f64, "{outcome}");
    }
    assert_eq!(metrics.sum("tidegate_requests_total"), lines.len() as f64);
    let entered = metrics.sum("nexus_queue_enqueued_total");
    let left = metrics.sum("nexus_queue_dequeued_total");
    eprintln!("queue: {entered} entered, {left} granted");
    assert!(left <= entered, "{left} left of {entered}");
}
