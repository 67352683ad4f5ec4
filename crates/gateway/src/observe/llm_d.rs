//! The flow-control metrics of llm-d's endpoint picker, under the names that its dashboards know.
//!
//! What they mean here is what they mean there, with these differences: bands stand under a number
//! that would put a request into them, the fairness id is always `all` because ids that clients
//! invent must not become series, and requests that pass the queue by have no queue duration.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, ModelId, Stage};

use super::book::{Book, Names};
use super::gauges::{Alive, saturations};
use super::page::Page;
use super::text::{Family, Kind, Text};
use super::truth::Truth;

/// A priority for each band, from best-effort to critical.
const PRIORITIES: [&str; BANDS] = ["-1", "0", "1", "10"];
const POOL: (&str, &str) = ("inference_pool", "tidegate");
const FAIRNESS: (&str, &str) = ("fairness_id", "all");

/// The newer name of a family and the one before it, which is still in use.
macro_rules! twins {
    ($name:literal) => {
        [concat!("llm_d_epp_", $name), concat!("inference_extension_", $name)]
    };
}

/// Writes them all.
pub(super) fn write(text: &mut Text, truth: &Truth, alive: &BTreeMap<Names, Alive>, book: &Book) {
    let pages = book.pages();
    write_sizes(text, alive);
    write_servers(text, truth);
    write_fullness(text, truth);
    write_durations(text, &pages);
    write_endings(text, &pages);
}

fn write_sizes(text: &mut Text, alive: &BTreeMap<Names, Alive>) {
    for name in twins!("flow_control_queue_size") {
        let mut family = text.bare(name, Kind::Gauge, "Requests waiting in the queue.");
        for (names, counts) in alive {
            for (priority, count) in PRIORITIES.into_iter().zip(counts.waiting) {
                let [model, target] = labels(names);
                family.add(&[FAIRNESS, ("priority", priority), POOL, model, target], count);
            }
        }
    }
}

/// Whoever shares out what is left, such as a batch dispatcher, needs to know of how many servers.
fn write_servers(text: &mut Text, truth: &Truth) {
    let ready = truth.backends.iter().filter(|backend| backend.ready).count();
    for name in ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"] {
        let help = "Backends that take requests.";
        text.bare(name, Kind::Gauge, help).add(&[("name", POOL.1)], ready);
    }
}

fn write_fullness(text: &mut Text, truth: &Truth) {
    for name in twins!("flow_control_pool_saturation") {
        let help = "How full the backends are, 1 being what is aimed at.";
        let mut family = text.bare(name, Kind::Gauge, help);
        family.add(&[POOL, ("stage", "effective")], saturation(truth));
    }
    for name in twins!("flow_control_capacity_utilization_requests") {
        let help = "The part of the queue that a newcomer of the priority cannot have.";
        let mut family = text.bare(name, Kind::Gauge, help);
        for (priority, share) in PRIORITIES.into_iter().zip(saturations(truth)) {
            family.add(&[("priority", priority), POOL], share);
        }
    }
    for name in twins!("flow_control_global_capacity_utilization_requests") {
        let share = f64::from(truth.depth()) / f64::from(truth.capacity.max(1));
        let help = "The part of the queue that is taken.";
        text.bare(name, Kind::Gauge, help).add(&[POOL], share);
    }
}

fn write_durations(text: &mut Text, pages: &[(Names, Arc<Page>)]) {
    for name in twins!("flow_control_request_queue_duration_seconds") {
        let help = "How long requests were in the queue.";
        let mut family = text.bare(name, Kind::Histogram, help);
        pages.iter().for_each(|(names, page)| add_durations(&mut family, names, page));
    }
}

fn add_durations(family: &mut Family<'_>, names: &Names, page: &Page) {
    let [model, target] = labels(names);
    for (priority, pair) in PRIORITIES.into_iter().zip(&page.queue_latency) {
        for (outcome, histogram) in ["NotDispatched", "Dispatched"].into_iter().zip(pair) {
            let ways = [("priority", priority), ("outcome", outcome)];
            let reading = histogram.read();
            if reading.count > 0 {
                family.add_histogram(&[FAIRNESS, ways[0], ways[1], POOL, model, target], &reading);
            }
        }
    }
}

fn write_endings(text: &mut Text, pages: &[(Names, Arc<Page>)]) {
    let mut counts: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    for ending in pages.iter().flat_map(|(_, page)| page.endings()) {
        // What is answered here was none of flow control's.
        let Some(band) = ending.band else { continue };
        *counts.entry((outcome(ending.outcome), band)).or_default() += ending.count;
    }
    for name in twins!("flow_control_requests_total") {
        let help = "Requests that have ended, by what flow control made of them.";
        let mut family = text.bare(name, Kind::Counter, help);
        for ((outcome, band), count) in &counts {
            family.add(&[("outcome", outcome), ("priority", PRIORITIES[*band]), POOL], count);
        }
    }
}

fn labels(names: &Names) -> [(&str, &str); 2] {
    [("model_name", &names.model), ("target_model_name", &names.target)]
}

/// An outcome of ours in llm-d's words.
fn outcome(ours: &str) -> &'static str {
    match ours {
        "flow_full" | "too_many_flows" | "queue_full" | "not_critical" | "queue_disabled"
        | "wait_too_long" | "overloaded" => "RejectedCapacity",
        "no_backend" => "RejectedNoEndpoints",
        "queue_timeout" | "deadline_exceeded" => "EvictedTTL",
        "client_closed" => "EvictedContextCancelled",
        "preempted" => "EvictedOther",
        "ok" | "backend_error" => "Dispatched",
        _ => "RejectedOther",
    }
}

/// How full the fullest model's backends are.
fn saturation(truth: &Truth) -> f64 {
    let mut stock: BTreeMap<ModelId, u64> = BTreeMap::new();
    for ask in truth.asks.iter().filter(|ask| ask.stage == Stage::InFlight) {
        *stock.entry(ask.model).or_default() += ask.stock;
    }
    let full = truth.model_bounds.iter().filter_map(|(model, [_, watermark, _])| {
        let stock = *stock.get(model)? as f64;
        (watermark.is_finite() && *watermark > 0.0).then(|| stock / watermark)
    });
    full.fold(0.0, f64::max)
}
