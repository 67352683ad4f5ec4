//! A tenant beside one that takes more than its share: by many requests, or by many names.

use std::time::Duration;

use crate::support::gateway::{ONE, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, ScriptedResponse, Stopwatch, chat};

const SERVICE: Duration = Duration::from_millis(200);

#[test]
fn q06_a_flooding_team_does_not_slow_a_quiet_one() {
    let serve =
        |_: &_| ScriptedResponse(vec![Step::Work(SERVICE)]).then_all(ScriptedResponse::ok());
    let backends = [Backend::start(serve), Backend::start(serve)];
    let sections = "[queue]\nmax_size = 2000\nflow_by = [\"header:x-team\"]\n[controller]\n\
        lower_bound_per_backend = 4\nwatermark_per_backend = 4\nupper_bound_per_backend = 4\n";
    let [one, two] = &backends;
    let gateway =
        Gateway::start(&config(sections, &[("one", one.address()), ("two", two.address())]));
    // Forty requests are served each second, so hundreds stay outstanding while the quiet team
    // asks.
    let flood: Vec<_> =
        (0..500).map(|_| gateway.send(&chat("m").header("x-team", "loud"))).collect();
    gateway.await_metrics("flooded", |metrics| {
        let depth = metrics.sum("nexus_queue_depth");
        if depth >= 400.0 { Ok(()) } else { Err(depth.to_string()) }
    });
    let mut waits: Vec<Duration> = Vec::new();
    for _ in 0..9 {
        let watch = Stopwatch::start();
        assert_eq!(gateway.ask(&chat("m").header("x-team", "quiet")).status, 200);
        waits.push(watch.elapsed());
    }
    assert!(gateway.depth() >= 200, "the flood stood all the while");
    let most: Vec<usize> = backends.iter().map(Backend::most).collect();
    assert_eq!(most, [4, 4]);
    drop(flood);
    waits.sort_unstable();
    // The promise is 0.42 s, which the benchmark measures on a quiet machine. First come, first
    // served would take 12 s here.
    assert!(waits[4] < Duration::from_millis(1200), "{waits:?}");
    gateway.await_idle();
}

/// Fairness is between the names of flows. A client gains nothing by inventing names if it cannot
/// choose the name of its flow; here a proxy sets it. A client that chooses the name has as many
/// shares as names.
#[test]
fn q06_invented_names_gain_nothing_where_a_proxy_names_the_flow() {
    for (flow_by, expected) in [("header:x-tenant", 9..=11), ("header:x-team", 0..=1)] {
        let backend = Backend::held();
        let sections = format!("[queue]\nflow_by = [\"{flow_by}\"]\n{ONE}");
        let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
        let mut calls = vec![running];
        for number in 0..30 {
            let greedy = chat("m").tag("greedy").header("x-tenant", "greedy");
            let greedy = greedy.header("x-team", &format!("team-{number}"));
            calls.push(gateway.enqueue(&greedy, 2 * number));
            let honest = chat("m").tag("honest").header("x-tenant", "honest");
            calls.push(gateway.enqueue(&honest.header("x-team", "honest"), 2 * number + 1));
        }
        backend.open();
        assert!(calls.into_iter().all(|call| call.finish().status == 200));
        let order = backend.tags();
        let served = order[1..21].iter().filter(|tag| *tag == "honest").count();
        assert!(expected.contains(&served), "{flow_by}: {served} of the first 20 are honest");
    }
}
