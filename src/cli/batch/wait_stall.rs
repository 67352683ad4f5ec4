//! Why a batch makes no progress: the state of the gates of its queue, from the gateway's status
//! page.

use std::time::Duration;

use gateway::config::BATCH_QUEUE;
use serde_json::Value;
use tokio::time::Instant;

use super::api::Api;
use super::batch_info::BatchInfo;
use crate::cli::plain;

/// The time without progress after which the reasons are printed.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// The interval at which they are printed again: a gate may stay closed all day.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// The most reasons that are printed; `dispatch explain` shows all of them.
const REASONS_MAX: usize = 8;

/// Measures the time since a batch last made progress.
#[derive(Debug)]
pub(super) struct StallTimer {
    status: String,
    done: u64,
    /// The time at which the reasons are due.
    due: Instant,
}

/// The reasons why the requests of batches wait.
pub(super) async fn reasons(api: &Api) -> Vec<String> {
    // The status pages may have another address, or be forbidden: then name the command.
    let mut reasons = api.overview().await.map(read).unwrap_or_default();
    if reasons.is_empty() {
        reasons.push(format!("run {} at the address of the status pages", api.explain()));
    }
    reasons
}

fn read(page: Value) -> Vec<String> {
    let page = plain::value(page);
    let rows = |key: &str| page[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let errors = rows("trouble").iter().filter_map(Value::as_str);
    let mut reasons: Vec<String> =
        errors.map(|error| format!("the store is unavailable: {error}")).collect();
    let Some(queue) = rows("queues").iter().find(|queue| queue["name"] == BATCH_QUEUE) else {
        return reasons;
    };
    let names = queue["gates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let gates = rows("gates").iter().filter(|gate| names.contains(&gate["name"]));
    reasons.extend(gates.map(gate_state));
    if let Some(retry) = queue["retry"].as_u64().filter(|retry| *retry > 0) {
        reasons.push(format!("{retry} waiting for a retry"));
    }
    reasons.truncate(REASONS_MAX);
    reasons
}

fn gate_state(gate: &Value) -> String {
    let [name, state] = ["name", "state"].map(|key| gate[key].as_str().unwrap_or("?"));
    let by = gate["by"].as_str().map_or(String::new(), |by| format!(" ({by})"));
    format!("gate {name} is {state}{by}")
}

// === impl StallTimer ===

impl StallTimer {
    pub(super) fn new(now: Instant) -> Self {
        Self { status: String::new(), done: 0, due: now + STALLED_AFTER }
    }

    /// Whether the reasons are to be printed now.
    pub(super) fn is_due(&mut self, batch: &BatchInfo, now: Instant) -> bool {
        if self.status != batch.status || self.done != batch.done() {
            let due = now + STALLED_AFTER;
            *self = Self { status: batch.status.clone(), done: batch.done(), due };
        }
        let due = batch.is_in_progress() && now >= self.due;
        if due {
            self.due = now + REPEAT_AFTER;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::batch::batch_info::tests::info;

    #[test]
    fn d10_the_gates_of_the_batch_queue_are_the_reasons() {
        let page = json!({
            "queues": [{"name": "q", "gates": ["other"]},
                {"name": "batch", "gates": ["gateway"], "retry": 3}],
            "gates": [{"name": "other", "state": "open"},
                {"name": "gateway", "state": "closed", "by": "8\u{1b}in use"}],
            "trouble": ["the disk is full"]});
        let expected = [
            "the store is unavailable: the disk is full",
            "gate gateway is closed (8 in use)",
            "3 waiting for a retry",
        ];
        assert_eq!(read(page), expected);
        for unexpected in [json!(null), json!([]), json!({"queues": 5}), json!({"queues": [1]})] {
            assert!(read(unexpected).is_empty());
        }
    }

    #[test]
    fn d10_the_reasons_of_a_stalled_batch_are_due_after_ten_seconds_and_each_minute() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut stall = StallTimer::new(start);
        let [one, two] = [1, 2].map(|done| info("in_progress", [9, done, 0]));
        let seen =
            [(&one, 1), (&one, 10), (&one, 11), (&one, 12), (&one, 71), (&two, 72), (&two, 82)];
        let due = seen.map(|(batch, seconds)| stall.is_due(batch, at(seconds)));
        assert_eq!(due, [false, false, true, false, true, false, true]);
        let mut stall = StallTimer::new(start);
        let early = info("validating", [0, 0, 0]);
        assert!(!stall.is_due(&early, at(1)) && !stall.is_due(&early, at(99)));
    }
}
