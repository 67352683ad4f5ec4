//! The section `dispatch`: where batch work waits and how it is sent.

use std::collections::{BTreeMap, BTreeSet};

use store::PUBSUB_LEASE_MAX;

use super::batch::BATCH_QUEUE;
use super::{defaults, gates};
use crate::config::Source;
use crate::config::sections::QUEUES;
use crate::config::settings::dispatch::{Batch, Dispatch, PubSub, Queue, Redis};
use crate::gates::GateSettings;
use crate::schema::Section;
use crate::upstream::client::BaseUrl;

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
        pubsub: pubsub(&section.section("pubsub")),
        workers: section.get("workers"),
        request_timeout: section.get("request_timeout"),
        lease: section.get("lease"),
        attempts_max: section.given("attempts"),
        backoff: section.get("backoff"),
        backoff_max: section.get("backoff_max"),
        answer_limit: section.get("answer_limit"),
        queues: queues(section.sections("queues"), source, batch),
        gates,
    };
    if dispatch.backoff_max < dispatch.backoff {
        section.refuse("backoff_max", "is less than dispatch.backoff");
    }
    check_pubsub(section, &dispatch);
    add_default_gates(&mut dispatch);
    names.extend([INSIDE, OUTSIDE].map(str::to_owned));
    names.extend(dispatch.gates.iter().map(|gate| gate.name.clone()));
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
    let (cluster, sentinel) = (section.get("cluster"), section.given("sentinel"));
    if cluster && sentinel.is_some() {
        section.refuse("sentinel", "has no effect with cluster = true: a cluster has no sentinels");
    }
    Some(Redis {
        urls,
        ca_file: section.path("ca_file"),
        cluster,
        sentinel,
        replicas: section.get("replicas"),
        results: section.get("results"),
        retries: section.get("retries"),
    })
}

fn pubsub(section: &Section<'_>) -> Option<PubSub> {
    let keys = ["results", "dead_letters", "endpoint"];
    let others = keys.iter().any(|key| section.given::<String>(key).is_some());
    let project: Option<String> = section.given("project");
    let credentials = section.path("credentials");
    if project.is_none() && !others && credentials.is_none() {
        return None;
    }
    if !cfg!(feature = "pubsub") {
        section.refuse("project", "has no effect: this program was built without Pub/Sub");
    }
    let results: Option<String> = section.given("results");
    for (key, is_missing) in [("project", project.is_none()), ("results", results.is_none())] {
        if is_missing {
            section.refuse(key, "is missing");
        }
    }
    Some(PubSub {
        project: project.unwrap_or_default(),
        results: results.unwrap_or_default(),
        dead_letters: section.given("dead_letters"),
        credentials,
        endpoint: section.given("endpoint"),
    })
}

/// What Pub/Sub cannot do.
fn check_pubsub(section: &Section<'_>, dispatch: &Dispatch) {
    if dispatch.pubsub.is_none() {
        return;
    }
    if dispatch.redis.is_some() {
        let what = "stands beside dispatch.redis: leave one out. A second dispatcher can have the \
                    other";
        section.refuse("pubsub", what);
    }
    if dispatch.lease > PUBSUB_LEASE_MAX {
        let what = "is longer than 10m, the longest that Pub/Sub lends a message (dispatch.pubsub)";
        section.refuse("lease", what);
    }
    for queue in dispatch.queues.iter().filter(|queue| queue.results_ttl.is_some()) {
        let what = format!(
            "has {:?} with results_ttl, which has no effect in Pub/Sub: the topic says how long it \
             keeps messages",
            queue.name
        );
        section.refuse("queues", what);
    }
}

fn queues(sections: Vec<Section<'_>>, source: &Source, batch: &Batch) -> Vec<Queue> {
    let mut queues = named_queues(&sections);
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

/// The queues of the file. Their names must differ.
fn named_queues(sections: &[Section<'_>]) -> Vec<Queue> {
    let mut names = BTreeMap::new();
    let mut queues: Vec<Queue> = Vec::new();
    for section in sections {
        let queue = queue(section);
        let here = section.location().path.clone();
        if let Some(other) = names.insert(queue.name.clone(), here) {
            let what = format!("is {:?}, which is the name of {other} already", queue.name);
            section.refuse("name", what);
        }
        queues.push(queue);
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
        path: section.given("path"),
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
    let is_configured = |name: &str| dispatch.gates.iter().any(|gate| gate.name == name);
    let missing = [INSIDE, OUTSIDE].map(|name| (name, !is_configured(name)));
    for (kind, _) in missing.into_iter().filter(|(_, missing)| *missing) {
        let users = |queue: &&mut Queue| queue.gates.iter().any(|gate| gate == kind);
        let mut users: Vec<&mut Queue> = dispatch.queues.iter_mut().filter(users).collect();
        if kind == OUTSIDE {
            name_by_target(&mut users);
        }
        let mut names: Vec<String> = Vec::new();
        for gate in users.iter().flat_map(|queue| &queue.gates) {
            if gate.starts_with(kind) && !names.contains(gate) {
                names.push(gate.clone());
            }
        }
        let gates = names
            .into_iter()
            .filter_map(|name| Some(GateSettings { name, ..crate::gates::with_defaults(kind)? }));
        dispatch.gates.extend(gates);
    }
}

/// Gives each target a gate of its own, because the responses of one say nothing about another.
fn name_by_target(queues: &mut [&mut Queue]) {
    let place = |queue: &Queue| {
        let target = queue.target.clone().unwrap_or_default();
        BaseUrl::parse(&target).map_or(target, |base| base.place)
    };
    let places: BTreeSet<String> = queues.iter().map(|queue| place(queue)).collect();
    if places.len() < 2 {
        return;
    }
    for queue in queues {
        let own = format!("{OUTSIDE} {}", place(queue));
        queue
            .gates
            .iter_mut()
            .filter(|gate| *gate == OUTSIDE)
            .for_each(|gate| own.clone_into(gate));
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
