//! P: how a request gets its band, and the effect of the band.

use crate::support::gateway::ONE;
use crate::support::{Backend, Call, Gateway, HttpRequest, chat, queueing};

const BANDS: [&str; 4] = ["critical", "high", "normal", "best_effort"];
const TEAMS: &str = "flow_by = [\"header:x-team\"]\n";

/// A gateway with one request at its only backend, so that all others wait.
fn occupied(sections: &str, backend: &Backend) -> (Gateway, Call) {
    let first = chat("m").tag("running").priority("critical");
    Gateway::occupied(&format!("{sections}{ONE}"), backend, &first)
}

/// The band in which each of these requests waits.
fn bands_of(asks: &[HttpRequest], sections: &str) -> Vec<String> {
    let backend = Backend::held();
    let (gateway, _running) = occupied(sections, &backend);
    let mut waiting = Vec::new();
    let mut bands = Vec::new();
    for ask in asks {
        waiting.push(gateway.enqueue(ask, waiting.len()));
        let now = gateway.get("/health").json()["queue"]["waiting"].clone();
        let counts: Vec<u64> = BANDS.iter().map(|band| now[band].as_u64().unwrap()).collect();
        bands.push(counts);
    }
    let before = std::iter::once(vec![0; BANDS.len()]).chain(bands.clone());
    let grew = |(before, after): (Vec<u64>, &Vec<u64>)| {
        let grew = (0..BANDS.len()).find(|&at| after[at] > before[at]);
        BANDS[grew.unwrap()].to_owned()
    };
    before.zip(&bands).map(grew).collect()
}

#[test]
fn p02_the_first_known_value_sets_the_band() {
    let sections = "[[models]]\nname = \"batch\"\nband = \"best-effort\"\n\
        targets = [{ model = \"m\" }]\n[[objectives]]\nname = \"chat-critical\"\n\
        band = \"critical\"\n";
    let m = || chat("m");
    let objective = |name: &str| m().header("x-gateway-inference-objective", name);
    let (asks, bands): (Vec<HttpRequest>, Vec<&str>) = [
        (m(), "normal"),
        (m().priority("critical"), "critical"),
        (m().priority("HIGH"), "high"),
        (m().priority("Best-Effort"), "best_effort"),
        (m().priority("Sheddable"), "best_effort"),
        (m().priority("Standard"), "normal"),
        (m().priority("absurd").header("X-Nexus-Priority", "high"), "high"),
        (m().priority("best-effort").header("X-Nexus-Priority", "high"), "best_effort"),
        (objective("chat-critical"), "critical"),
        (objective("nobody"), "normal"),
        (objective("chat-critical").header("X-Nexus-Priority", "normal"), "normal"),
        (m().header("X-Media-Type", "realtime"), "critical"),
        (m().header("X-Media-Type", "audio"), "high"),
        (m().header("X-Media-Type", "text"), "normal"),
        (m().with("service_tier", "flex"), "best_effort"),
        (m().with("service_tier", "priority"), "high"),
        (m().with("service_tier", "default"), "normal"),
        (m().with("service_tier", "auto"), "normal"),
        (m().with("service_tier", 7), "normal"),
        (m().with("service_tier", "priority").priority("best-effort"), "best_effort"),
        (chat("batch").with("service_tier", "default"), "normal"),
        (chat("batch").with("service_tier", "auto"), "best_effort"),
        (chat("batch"), "best_effort"),
        (chat("batch").header("X-Media-Type", "audio"), "high"),
    ]
    .into_iter()
    .unzip();
    assert_eq!(bands_of(&asks, sections), bands);
}

#[test]
fn p02_rules_give_a_band_to_teams_and_headers_and_limit_it() {
    let sections = "[[models]]\nname = \"batch\"\nband = \"best-effort\"\n\
        targets = [{ model = \"m\" }]\n\
        [[band_rules]]\nmatch = { \"header:x-team\" = \"lab-*\" }\nband_max = \"high\"\n\
        [[band_rules]]\nmatch = { \"header:x-tier\" = \"gold\" }\nband = \"critical\"\n\
        [[band_rules]]\nmatch = { fairness_id = \"crawler\" }\nband = \"best-effort\"\n\
        band_max = \"normal\"\n";
    let m = || chat("m");
    let team = |name: &str| m().header("x-team", name);
    let gold = || m().header("x-tier", "gold");
    let crawler = || m().header("x-gateway-inference-fairness-id", "crawler");
    let (asks, bands): (Vec<HttpRequest>, Vec<&str>) = [
        (m(), "normal"),
        (team("lab-1"), "normal"),
        (team("lab-1").priority("critical"), "high"),
        (team("lab-1").priority("best-effort"), "best_effort"),
        (team("web").priority("critical"), "critical"),
        (gold(), "critical"),
        (gold().priority("normal"), "normal"),
        (gold().with("service_tier", "flex"), "best_effort"),
        (gold().header("x-team", "lab-2"), "high"),
        (crawler(), "best_effort"),
        (crawler().header("x-tier", "gold").header("x-team", "lab-1"), "normal"),
        (chat("batch").header("x-tier", "gold"), "critical"),
    ]
    .into_iter()
    .unzip();
    assert_eq!(bands_of(&asks, sections), bands);
}

#[test]
fn p03_higher_bands_go_first_and_each_in_order_of_arrival() {
    let backend = Backend::held();
    let (gateway, running) = occupied("", &backend);
    queueing::check_bands(&gateway, &backend, running);
}

/// Waits are counted in service times: how many requests are served before.
#[test]
fn p08_high_requests_wait_a_tenth_as_long_as_normal_ones() {
    let backend = Backend::held();
    let (gateway, running) = occupied("", &backend);
    let mut calls = vec![running];
    // The high requests come in the middle, where first come, first served would give equal waits.
    for others in 0..63 {
        let band = if (30..33).contains(&others) { "high" } else { "normal" };
        calls.push(gateway.enqueue(&chat("m").tag(band).priority(band), others));
    }
    backend.open();
    queueing::succeed(calls);
    let order = backend.tags();
    let wait = |band: &str| {
        let own = order.iter().enumerate().filter(|(_, tag)| *tag == band);
        let waits: Vec<f64> = own.map(|(before, _)| before as f64).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    assert!(wait("high") <= 0.1 * wait("normal"), "{} {}", wait("high"), wait("normal"));
}

#[test]
fn p05_and_p06_a_higher_newcomer_takes_the_newest_place_of_the_lowest_band() {
    let backend = Backend::held();
    let sections = format!("[queue]\ntotal_capacity = 3\n{TEAMS}");
    let (gateway, running) = occupied(&sections, &backend);
    let team = |tag: &str, team: &str, band: &str| {
        chat("m").tag(tag).header("x-team", team).priority(band)
    };
    let old = gateway.enqueue(&team("old", "a", "best-effort"), 0);
    let new = gateway.enqueue(&team("new", "a", "best-effort"), 1);
    let normal = gateway.enqueue(&team("normal", "b", "normal"), 2);
    let high = gateway.send(&team("high", "c", "high"));
    new.finish().refused(503, "preempted");
    assert_eq!(gateway.depth(), 3);
    gateway.ask(&team("equal", "d", "best-effort")).refused(503, "too_many_flows");
    backend.open();
    for call in [running, high, normal, old] {
        assert_eq!(call.finish().status, 200);
    }
    assert_eq!(backend.tags(), ["running", "high", "normal", "old"]);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tidegate_preemptions_total"), 1.0);
    gateway.await_idle();
}

#[test]
fn p05_a_stream_that_waits_can_be_preempted_too() {
    let backend = Backend::held();
    let (gateway, _running) = occupied("[queue]\ntotal_capacity = 1\n", &backend);
    let victim = gateway.enqueue(&chat("m").streamed(), 0);
    let _newcomer = gateway.send(&chat("m").priority("high"));
    victim.finish().refused(503, "preempted");
    assert_eq!(gateway.depth(), 1);
}

#[test]
fn p07_critical_flows_have_places_of_their_own() {
    let backend = Backend::held();
    let sections = format!("[queue]\ntotal_capacity = 4\nflow_capacity = 2\n{TEAMS}");
    let (gateway, running) = occupied(&sections, &backend);
    let ask = |team: &str, band: &str| chat("m").header("x-team", team).priority(band);
    let mut evicted = Vec::new();
    for (others, team) in ["a", "a", "b", "b"].into_iter().enumerate() {
        evicted.push(gateway.enqueue(&ask(team, "high"), others));
    }
    let mut served = vec![running];
    for team in ["a", "a", "b", "b"] {
        served.push(gateway.send(&ask(team, "critical")));
    }
    for call in evicted {
        call.finish().refused(503, "preempted");
    }
    gateway.ask(&ask("a", "critical")).refused(503, "flow_full");
    gateway.ask(&ask("c", "critical")).refused(503, "too_many_flows");
    gateway.ask(&ask("c", "high")).refused(503, "too_many_flows");
    backend.open();
    assert!(served.into_iter().all(|call| call.finish().status == 200));
}

#[test]
fn q07_all_bands_of_a_flow_share_its_capacity() {
    let backend = Backend::held();
    let (gateway, running) = occupied("[queue]\nflow_capacity = 3\n", &backend);
    queueing::check_flow_capacity(&gateway, &backend, running);
}

/// Critical requests find room in a full queue, within the capacity of their flow, whatever share
/// their band has.
#[test]
fn p07_critical_requests_find_room_under_weighted_bands() {
    let small = "{ critical = 1, high = 33, normal = 33, best_effort = 33 }";
    let large = "{ critical = 70, high = 15, normal = 10, best_effort = 5 }";
    for bands in [small, large] {
        let backend = Backend::held();
        let limits = "total_capacity = 8\nflow_capacity = 4\n";
        let sections = format!("[queue]\nbands = {bands}\n{limits}{TEAMS}");
        let (gateway, running) = occupied(&sections, &backend);
        let ask = |team: &str, band: &str| chat("m").header("x-team", team).priority(band);
        let others = ["best-effort", "normal", "high", "high"].into_iter().cycle().take(8);
        let others = others.zip(["a", "b"].into_iter().cycle()).enumerate();
        let full: Vec<Call> = others
            .map(|(others, (band, team))| gateway.enqueue(&ask(team, band), others))
            .collect();
        let critical: Vec<Call> = (0..4).map(|_| gateway.send(&ask("pager", "critical"))).collect();
        gateway.await_metrics("all critical requests wait", |metrics| {
            let found = metrics.sum_where("tidegate_queue_length", "band=\"critical\"");
            if found == 4.0 { Ok(()) } else { Err(format!("{found} wait")) }
        });
        assert_eq!(gateway.depth(), 8);
        gateway.ask(&ask("pager", "critical")).refused(503, "flow_full");
        backend.open();
        queueing::succeed([running]);
        queueing::succeed(critical);
        let full = full.into_iter().map(Call::finish);
        assert_eq!(full.filter(|answer| answer.status == 503).count(), 4, "critical took four");
    }
}
