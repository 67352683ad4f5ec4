//! O01: a flood of long responses leaves a few places free for requests that must not wait.

use crate::support::{Backend, Gateway, chat};

const TEAMS: &str = "[queue]\nmax_size = 500\nflow_capacity = 500\n\
    flow_by = [\"header:x-team\"]\n[controller]\nlower_bound_per_backend = 32\n\
    watermark_per_backend = 32\nupper_bound_per_backend = 32\n";

/// Whether requests of a quiet team and a critical one reach the backend while a flood of sixty
/// holds as many places as it may get, and none of its responses ends.
fn reaches_beside_a_flood(sections: &str) -> Vec<String> {
    let backend = Backend::held();
    let gateway = Gateway::before(sections, &backend);
    let flood = chat("m").tag("flood").header("x-team", "loud");
    let mut calls: Vec<_> = (0..60).map(|_| gateway.send(&flood)).collect();
    gateway.await_metrics("flooded", |metrics| {
        let taken = metrics.sum("nexus_queue_depth") + backend.running() as f64;
        if taken >= 60.0 { Ok(()) } else { Err(taken.to_string()) }
    });
    let others = [
        chat("m").tag("quiet").header("x-team", "quiet"),
        chat("m").tag("critical").header("x-team", "pager").priority("critical"),
    ];
    calls.extend(others.iter().map(|ask| gateway.send(ask)));
    gateway.await_metrics("the others have come", |metrics| {
        let taken = metrics.sum("nexus_queue_depth") + backend.running() as f64;
        if taken >= 62.0 { Ok(()) } else { Err(taken.to_string()) }
    });
    let mut reached: Vec<String> = backend.tags();
    reached.retain(|tag| tag != "flood");
    reached.sort();
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    reached
}

#[test]
fn o01_a_flood_leaves_places_for_a_quiet_team_and_a_critical_request() {
    let on = format!("{TEAMS}reserve_share_max = 0.1875\n");
    assert_eq!(reaches_beside_a_flood(&on), ["critical", "quiet"]);
}

#[test]
fn o01_without_the_key_a_flood_takes_every_place() {
    assert!(reaches_beside_a_flood(TEAMS).is_empty());
}
