//! The section `dispatch`: where batch work waits and how it is sent.

use std::collections::BTreeMap;

use super::batch::BATCH_QUEUE;
use super::{defaults, gates};
use crate::config::Source;
use crate::config::keys::QUEUES;
use crate::config::settings::dispatch::{Batch, Dispatch, Queue, Redis};
use crate::schema::Section;

/// The gates of queues that name none: where this gateway is the target, and where another is.
const INSIDE: &str = "gateway";
const OUTSIDE: &str = "aimd";

pub(in crate::config) fn dispatch(
    section: &Section<'_>,
    source: &Source,
    batch: &Batch,
) -> Dispatch {
    let (gates, mut names) = gates::gates(section.sections("gates"));
    let mut dispatch = Dispatch {
        listen: section.get("listen"),
        redis: redis(&section.section("redis")),
        workers: section.get("workers"),
        request_timeout: section.get("request_timeout"),
        lease: section.get("lease"),
        attempts_max: section.get("attempts"),
        backoff: section.get("backoff"),
        backoff_max: section.get("backoff_max"),
        answer_limit: section.get("answer_limit"),
        queues: queues(section.sections("queues"), source, batch),
        gates,
    };
    if dispatch.backoff_max < dispatch.backoff {
        section.refuse("backoff_max", "is less than dispatch.backoff");
    }
    add_default_gates(&mut dispatch);
    names.extend([INSIDE, OUTSIDE].map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    check_gates(section, &dispatch, &names);
    dispatch
}

fn redis(section: &Section<'_>) -> Option<Redis> {
    let urls: Vec<String> = section.given("urls").unwrap_or_default();
    if urls.is_empty() {
        return None;
    }
    Some(Redis {
        urls,
        cluster: section.get("cluster"),
        replicas: section.get("replicas"),
        results: section.get("results"),
        retries: section.get("retries"),
    })
}

fn queues(sections: Vec<Section<'_>>, source: &Source, batch: &Batch) -> Vec<Queue> {
    let mut names = BTreeMap::new();
    let mut queues: Vec<Queue> = Vec::new();
    for section in sections {
        let queue = queue(&section);
        let here = section.location().path.clone();
        if let Some(other) = names.insert(queue.name.clone(), here) {
            let what = format!("is {:?}, which is the name of {other} already", queue.name);
            section.refuse("name", what);
        }
        queues.push(queue);
    }
    if batch.folder.is_some() && !queues.iter().any(|queue| queue.name == BATCH_QUEUE) {
        queues.push(Queue { name: BATCH_QUEUE.into(), ..Queue::default() });
    }
    if let Some(target) = &source.target {
        for queue in queues.iter_mut().filter(|queue| queue.target.is_none()) {
            queue.target = Some(target.clone());
        }
    }
    queues
}

fn queue(section: &Section<'_>) -> Queue {
    let tenants = section.map("tenants").into_iter();
    Queue {
        name: section.given("name").unwrap_or_default(),
        weight: section.get("weight"),
        tenants: tenants.map(|(name, weight, _)| (name, weight)).collect(),
        target: section.given("target"),
        path: section.get("path"),
        band: section.get("band"),
        objective: section.given("objective"),
        gates: section.given("gates").unwrap_or_default(),
        results: section.given("results"),
        results_ttl: section.given("results_ttl"),
    }
}

/// Every queue has a gate: one that watches the gateway, or one that watches the responses.
fn add_default_gates(dispatch: &mut Dispatch) {
    for queue in dispatch.queues.iter_mut().filter(|queue| queue.gates.is_empty()) {
        let gate = if queue.target.is_none() { INSIDE } else { OUTSIDE };
        queue.gates.push(gate.into());
    }
    for name in [INSIDE, OUTSIDE] {
        let wanted =
            dispatch.queues.iter().any(|queue| queue.gates.iter().any(|gate| gate == name));
        if wanted && !dispatch.gates.iter().any(|gate| gate.name == name) {
            dispatch.gates.extend(crate::gates::with_defaults(name));
        }
    }
}

/// `known` are all names that a queue may use.
fn check_gates(section: &Section<'_>, dispatch: &Dispatch, known: &[String]) {
    for queue in &dispatch.queues {
        for gate in queue.gates.iter().filter(|gate| !known.contains(gate)) {
            let what = format!(
                "has {:?} with the gate {gate:?}, which is not in [[dispatch.gates]]; \
                 known are: {}",
                queue.name,
                known.join(", ")
            );
            section.refuse("queues", what);
        }
    }
}

// === impl Queue ===

impl Default for Queue {
    fn default() -> Self {
        defaults(&QUEUES, queue)
    }
}
