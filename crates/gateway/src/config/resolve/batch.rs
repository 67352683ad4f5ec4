//! The sections `batch` and `dispatch`: where batch work waits and how it is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::Band;

use super::server::{address, listen};
use super::{DAY, HOUR, MILLI, beside, gates, set};
use crate::config::Source;
use crate::config::keywords;
use crate::config::resolved::dispatch::{Batch, Dispatch, Queue, Redis};
use crate::config::section::Section;
use crate::config::tree::{Node, Value};
use crate::upstream::client::BaseUrl;

/// The queue of the Batch API.
pub const BATCH_QUEUE: &str = "batch";
/// The gates of queues that name none: where this gateway is the target, and where another is.
const INSIDE: &str = "gateway";
const OUTSIDE: &str = "aimd";

const SECOND: Duration = Duration::from_secs(1);
const WEIGHTS: &str = "more than 0 and at most 1000000";

pub(super) fn batch(mut section: Section<'_>, source: &Source) -> Batch {
    let default = Batch::default();
    let folder = section.text("folder").map(|folder| beside(source, folder));
    let usize_of = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let batch = Batch {
        folder: source.batch.clone().or(folder),
        file_limit: section.size("file_limit", 1 << 10..=1 << 40).unwrap_or(default.file_limit),
        files_limit: section.size("files_limit", 1 << 10..=1 << 50).unwrap_or(default.files_limit),
        lines_max: section.count("lines_max", 1..=10_000_000).unwrap_or(default.lines_max),
        line_limit: usize_of(section.size("line_limit", 1 << 10..=1 << 30))
            .unwrap_or(default.line_limit),
        keep: section.duration("keep", SECOND..=DAY * 3650).unwrap_or(default.keep),
    };
    section.finish();
    batch
}

pub(super) fn dispatch(mut section: Section<'_>, source: &Source, batch: &Batch) -> Dispatch {
    let default = Dispatch::default();
    let (gates, mut names) = gates::resolve(section.sections("gates"));
    let mut dispatch = Dispatch {
        listen: listen(&mut section, "listen").unwrap_or(default.listen),
        redis: redis(section.section("redis"), source),
        gates,
        ..default
    };
    timing(&mut section, &mut dispatch);
    // Whether it can be read is told once, by the section `server`.
    set(&mut dispatch.listen, source.listen.as_deref().and_then(address));
    let sections = section.sections("queues");
    dispatch.queues = queues(sections, source, batch);
    add_default_gates(&mut dispatch);
    names.extend([INSIDE, OUTSIDE].map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    check_gates(&section, &dispatch, &names);
    section.finish();
    dispatch
}

fn timing(section: &mut Section<'_>, dispatch: &mut Dispatch) {
    set(&mut dispatch.workers, section.count("workers", 1..=65_536).map(|count| count as usize));
    set(&mut dispatch.request_timeout, section.duration("request_timeout", MILLI..=DAY));
    set(&mut dispatch.lease, section.duration("lease", SECOND..=DAY));
    set(&mut dispatch.attempts_max, section.count("attempts", 1..=1000));
    set(&mut dispatch.backoff, section.duration("backoff", MILLI..=HOUR));
    set(&mut dispatch.backoff_max, section.duration("backoff_max", MILLI..=DAY));
    let limit = section.size("answer_limit", 1 << 10..=1 << 30);
    set(&mut dispatch.answer_limit, limit.and_then(|limit| usize::try_from(limit).ok()));
    if dispatch.backoff_max < dispatch.backoff {
        section.refuse("backoff_max", "is less than dispatch.backoff".into());
    }
}

fn redis(mut section: Section<'_>, source: &Source) -> Option<Redis> {
    let urls = section.texts("urls").unwrap_or_default();
    for (url, place) in &urls {
        if !url.starts_with("redis://") {
            section.report().problem(place, format!("is {url:?}, write it as redis://host:6379"));
        }
    }
    let urls: Vec<String> = urls.into_iter().map(|(url, _)| url).collect();
    let flagged = source.redis.iter().inspect(|url| {
        if !url.starts_with("redis://") {
            let what = format!("--redis is {url:?}, write it as redis://host:6379");
            section.report().flag_problem(what);
        }
    });
    let flagged: Vec<String> = flagged.cloned().collect();
    let redis = Redis {
        urls: if flagged.is_empty() { urls } else { flagged },
        cluster: section.flag("cluster").unwrap_or_default(),
        replicas: section.count("replicas", 0..=16).unwrap_or_default(),
        results: section.text("results").unwrap_or_else(|| "result-list".into()),
        retries: section.text("retries").unwrap_or_else(|| "retry-sortedset".into()),
    };
    section.finish();
    (!redis.urls.is_empty()).then_some(redis)
}

fn queues(sections: Vec<Section<'_>>, source: &Source, batch: &Batch) -> Vec<Queue> {
    let mut names = BTreeMap::new();
    let mut queues: Vec<Queue> = Vec::new();
    for mut section in sections {
        section.require("name");
        let queue = queue(&mut section);
        let here = section.place().path.clone();
        if let Some(other) = names.insert(queue.name.clone(), here) {
            let what = format!("is {:?}, which is the name of {other} already", queue.name);
            section.refuse("name", what);
        }
        queues.push(queue);
        section.finish();
    }
    for name in &source.queues {
        if !names.contains_key(name) {
            queues.push(Queue { name: name.clone(), ..Queue::default() });
        }
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

fn queue(section: &mut Section<'_>) -> Queue {
    let default = Queue::default();
    Queue {
        name: section.text("name").unwrap_or_default(),
        weight: weight(section, "weight").unwrap_or(default.weight),
        tenants: tenants(section),
        target: target(section),
        path: path(section).unwrap_or(default.path),
        band: section.word("band", keywords::BANDS).unwrap_or(Band::BestEffort),
        objective: section.text("objective"),
        gates: section
            .texts("gates")
            .map(|gates| gates.into_iter().map(|(gate, _)| gate).collect())
            .unwrap_or_default(),
        results: section.text("results"),
        results_ttl: section.duration("results_ttl", SECOND..=DAY * 365),
    }
}

fn weight(section: &mut Section<'_>, key: &'static str) -> Option<f64> {
    let weight = section.number(key)?;
    if weight > 0.0 && weight <= 1e6 {
        return Some(weight);
    }
    section.refuse(key, format!("is {weight}, allowed is {WEIGHTS}"));
    None
}

/// Tenants are named by whoever submits, so their names are not known beforehand.
fn tenants(section: &mut Section<'_>) -> Vec<(String, f64)> {
    let report = section.report();
    let table = section.section("tenants").into_table();
    let weight = |(name, node): (String, Node)| {
        let weight = match node.value {
            Value::Integer(weight) => weight as f64,
            Value::Float(weight) => weight,
            _ => f64::NAN,
        };
        if weight > 0.0 && weight <= 1e6 {
            return Some((name, weight));
        }
        report.problem(&node.place, format!("is {}, allowed is {WEIGHTS}", node.value));
        None
    };
    table.into_iter().filter_map(weight).collect()
}

fn target(section: &mut Section<'_>) -> Option<String> {
    let target = section.text("target")?;
    if let Err(problem) = BaseUrl::parse(&target) {
        section.refuse("target", problem);
    }
    Some(target)
}

fn path(section: &mut Section<'_>) -> Option<String> {
    let path = section.text("path")?;
    if !path.starts_with('/') {
        section.refuse("path", format!("is {path:?}, it must begin with /"));
    }
    Some(path)
}

/// Every queue has a gate: one that watches the gateway, or one that watches its answers.
fn add_default_gates(dispatch: &mut Dispatch) {
    for queue in dispatch.queues.iter_mut().filter(|queue| queue.gates.is_empty()) {
        let gate = if queue.target.is_none() { INSIDE } else { OUTSIDE };
        queue.gates.push(gate.into());
    }
    for (name, gate) in [(INSIDE, gates::inside(INSIDE)), (OUTSIDE, gates::outside(OUTSIDE))] {
        let wanted =
            dispatch.queues.iter().any(|queue| queue.gates.iter().any(|gate| gate == name));
        if wanted && !dispatch.gates.iter().any(|gate| gate.name == name) {
            dispatch.gates.push(gate);
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
