//! O01: a flood of long responses leaves a few places free for requests that must not wait.

use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, ScriptedResponse, chat};

const TEAMS: &str = "[queue]\nmax_size = 500\nflow_capacity = 500\n\
    flow_by = [\"header:x-team\"]\n[controller]\n";
const PLACES: &str = "lower_bound_per_backend = 32\nwatermark_per_backend = 32\n\
    upper_bound_per_backend = 32\n";

/// Which requests of a quiet team and a critical one reach a backend with 32 places while a flood
/// of sixty has taken this many, and none of its responses ends.
fn reaches_beside_a_flood(sections: &str, taken: usize) -> Vec<String> {
    let end = || ScriptedResponse::raw("0\r\n\r\n");
    let held = move || ScriptedResponse::stream_begun("a").then(Step::Hold).then_all(end());
    let backend = Backend::start(move |_| held()).reports_places(32);
    let gateway = Gateway::before(sections, &backend);
    backend.await_metrics_read();
    let flood = chat("m").tag("flood").header("x-team", "loud").streamed();
    let mut calls: Vec<_> = (0..60).map(|_| gateway.send(&flood)).collect();
    backend.await_running(taken);
    gateway.await_depth(60 - taken);
    let one = &gateway.get("/backends").json()[0];
    assert_eq!(one["kept_places"], 32 - taken, "{one}");
    if taken < 32 {
        let status = gateway.get("/status").json();
        assert_eq!(status["stock"]["binding"], "reserve", "{}", status["stock"]);
    }
    let others = [
        chat("m").tag("quiet").header("x-team", "quiet").streamed(),
        chat("m").tag("critical").header("x-team", "pager").priority("critical").streamed(),
    ];
    calls.extend(others.iter().map(|ask| gateway.send(ask)));
    gateway.await_metrics("the others have come", |metrics| {
        let come = metrics.sum("nexus_queue_depth") + backend.running() as f64;
        if come >= 62.0 { Ok(()) } else { Err(come.to_string()) }
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
    let on = format!("{TEAMS}{PLACES}reserve_share_max = 0.1875\n");
    assert_eq!(reaches_beside_a_flood(&on, 26), ["critical", "quiet"]);
}

#[test]
fn o01_without_a_key_automatic_bounds_leave_a_place_for_a_critical_request() {
    assert_eq!(reaches_beside_a_flood(TEAMS, 31), ["critical"]);
}

#[test]
fn o01_with_fixed_bounds_or_a_share_of_zero_a_flood_takes_every_place() {
    let fixed = format!("{TEAMS}{PLACES}");
    assert!(reaches_beside_a_flood(&fixed, 32).is_empty());
    let none = format!("{TEAMS}reserve_share_max = 0\n");
    assert!(reaches_beside_a_flood(&none, 32).is_empty());
}
