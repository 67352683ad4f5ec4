//! Why a batch does not move: what the gates of its queue say, as far as the gateway tells.

use std::time::Duration;

use gateway::config::BATCH_QUEUE;
use serde_json::Value;
use tokio::time::Instant;

use super::api::Api;
use super::info::Info;
use crate::cli::plain;

/// How long nothing may move before somebody wonders.
const STILL: Duration = Duration::from_secs(10);
/// How often it is told again: what is closed may stay closed all day.
const AGAIN: Duration = Duration::from_secs(60);
/// Gates and troubles that are told; whoever has more looks at the page itself.
const TOLD_MAX: usize = 8;

/// When a batch last moved.
#[derive(Debug)]
pub(super) struct Stillness {
    status: String,
    done: u64,
    /// When it is time to say why.
    due: Instant,
}

/// What keeps the requests of batches from going.
pub(super) async fn why(api: &Api) -> Vec<String> {
    // The pages may be at another address, or forbidden: then there is still the command.
    let mut told = api.overview().await.map(read).unwrap_or_default();
    if told.is_empty() {
        told.push(format!("{} says why, where the status pages are", api.explain()));
    }
    told
}

fn read(page: Value) -> Vec<String> {
    let page = plain::value(page);
    let rows = |key: &str| page[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let troubles = rows("trouble").iter().filter_map(Value::as_str);
    let mut told: Vec<String> =
        troubles.map(|trouble| format!("the queue cannot be used: {trouble}")).collect();
    let Some(queue) = rows("queues").iter().find(|queue| queue["name"] == BATCH_QUEUE) else {
        return told;
    };
    let ours = queue["gates"].as_array().map(Vec::as_slice).unwrap_or_default();
    for gate in rows("gates").iter().filter(|gate| ours.contains(&gate["name"])) {
        let [name, state] = ["name", "state"].map(|key| gate[key].as_str().unwrap_or("?"));
        let by = gate["by"].as_str().map_or(String::new(), |by| format!(" ({by})"));
        told.push(format!("gate {name} is {state}{by}"));
    }
    if let Some(retry) = queue["retry"].as_u64().filter(|retry| *retry > 0) {
        told.push(format!("{retry} wait for another try"));
    }
    told.truncate(TOLD_MAX);
    told
}

// === impl Stillness ===

impl Stillness {
    pub(super) fn new(now: Instant) -> Self {
        Self { status: String::new(), done: 0, due: now + STILL }
    }

    /// Whether it is time to say why a batch stands still.
    pub(super) fn is_long(&mut self, batch: &Info, now: Instant) -> bool {
        if self.status != batch.status || self.done != batch.done() {
            *self = Self { status: batch.status.clone(), done: batch.done(), due: now + STILL };
        }
        let long = batch.is_in_progress() && now >= self.due;
        if long {
            self.due = now + AGAIN;
        }
        long
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::batch::info::tests::info;

    #[test]
    fn d10_the_gates_of_the_batch_queue_say_why_nothing_goes() {
        let page = json!({
            "queues": [{"name": "q", "gates": ["other"]},
                {"name": "batch", "gates": ["gateway"], "retry": 3}],
            "gates": [{"name": "other", "state": "open"},
                {"name": "gateway", "state": "closed", "by": "8\u{1b}taken"}],
            "trouble": ["the disk is full"]});
        let told = [
            "the queue cannot be used: the disk is full",
            "gate gateway is closed (8 taken)",
            "3 wait for another try",
        ];
        assert_eq!(read(page), told);
        for strange in [json!(null), json!([]), json!({"queues": 5}), json!({"queues": [1]})] {
            assert!(read(strange).is_empty());
        }
    }

    #[test]
    fn d10_a_batch_that_stands_still_is_wondered_at_now_and_then() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut still = Stillness::new(start);
        let [one, two] = [1, 2].map(|done| info("in_progress", [9, done, 0]));
        let seen =
            [(&one, 1), (&one, 10), (&one, 11), (&one, 12), (&one, 71), (&two, 72), (&two, 82)];
        let told = seen.map(|(batch, seconds)| still.is_long(batch, at(seconds)));
        assert_eq!(told, [false, false, true, false, true, false, true]);
        let mut still = Stillness::new(start);
        let early = info("validating", [0, 0, 0]);
        assert!(!still.is_long(&early, at(1)) && !still.is_long(&early, at(99)));
    }
}
