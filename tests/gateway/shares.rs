//! Q, P, C, W: what flows and bands get by their weights, costs, limits and orders.

use crate::support::gateway::ONE;
use crate::support::queueing::{self, count, order_of};
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat};

const TEAMS: &str = "flow_by = [\"header:x-team\"]\n";

fn of_team(team: &str) -> HttpRequest {
    chat("m").header("x-team", team).tag(team)
}

#[test]
fn q01_requests_without_the_header_share_one_flow() {
    let backend = Backend::held();
    let sections = format!("[queue]\nflow_capacity = 2\n{TEAMS}{ONE}");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &of_team("first"));
    let mut calls = vec![running];
    for others in 0..2 {
        calls.push(gateway.enqueue(&chat("m"), others));
    }
    gateway.ask(&chat("m")).refused(503, "flow_full");
    calls.push(gateway.enqueue(&of_team("named"), 2));
    let page = gateway.get("/flows").json();
    let flows = page["flows"].as_array().unwrap();
    let depth = |name: &str| {
        let flow = flows.iter().find(|flow| flow["name"] == name);
        flow.unwrap_or_else(|| panic!("no {name}: {page}"))["queue_depth"].clone()
    };
    assert_eq!((depth("-"), depth("named")), (2.into(), 1.into()));
    backend.open();
    queueing::succeed(calls);
}

#[test]
fn q03_backlogged_flows_are_served_in_the_ratio_of_their_weights() {
    let weight = "[[flows]]\nmatch = { \"header:x-team\" = \"res*\" }\nweight = 3.0\n";
    let sections = format!("[queue]\n{TEAMS}{ONE}{weight}");
    // The lighter team comes first.
    let asks = [vec![of_team("other"); 16], vec![of_team("research"); 16]].concat();
    let order = order_of(&sections, &Backend::held(), &asks);
    let research = count(&order[..16], "research");
    assert!((11..=13).contains(&research), "three of four: {order:?}");
}

/// Both teams state the same length, and one of them uses a hundred times as much.
#[test]
fn q04_a_flow_that_understates_its_length_pays_for_the_tokens_it_used() {
    let backend = Backend::start(|seen| {
        let used = if seen.tag() == "greedy" { 1000 } else { 10 };
        let usage = format!("\"prompt_tokens\":5,\"completion_tokens\":{used}");
        ScriptedResponse::json(200, &format!("{{\"choices\":[],\"usage\":{{{usage}}}}}")).held()
    });
    let sections = format!("[queue]\ncost = \"tokens\"\n{TEAMS}{ONE}");
    let asks = ["greedy", "honest"].map(|team| vec![of_team(team).with("max_tokens", 10); 8]);
    let order = order_of(&sections, &backend, &asks.concat());
    assert_eq!(count(&order[..9], "honest"), 8, "one of the others costs as much: {order:?}");
}

#[test]
fn p04_weighted_bands_share_the_service_and_none_starves() {
    let weights = "[queue.bands]\ncritical = 1\nhigh = 6\nnormal = 3\nbest_effort = 1\n";
    let sections = format!("{weights}{ONE}");
    let asks = ["best-effort", "normal", "high"]
        .map(|band| vec![chat("m").tag(band).priority(band); 20])
        .concat();
    let order = order_of(&sections, &Backend::held(), &asks);
    let served = ["high", "normal", "best-effort"].map(|band| count(&order[..20], band));
    let near = served.iter().zip([12, 6, 2]).all(|(&found, share)| found.abs_diff(share) <= 1);
    assert!(near, "{served:?} of 12, 6 and 2: {order:?}");
}

#[test]
fn p09_a_flow_at_its_limit_lets_others_pass() {
    let backend = Backend::held();
    let bounds = "[controller]\nlower_bound_per_backend = 3\nwatermark_per_backend = 3\n\
        upper_bound_per_backend = 3\n";
    let limit = "[[flows]]\nmatch = { \"header:x-team\" = \"limited\" }\nmax_in_flight = 1\n";
    let gateway = Gateway::before(&format!("[queue]\n{TEAMS}{bounds}{limit}"), &backend);
    let mut calls = vec![gateway.send(&of_team("limited"))];
    backend.await_running(1);
    calls.push(gateway.enqueue(&of_team("limited").priority("critical"), 0));
    calls.extend((0..2).map(|_| gateway.send(&of_team("free").priority("best-effort"))));
    backend.await_running(3);
    assert_eq!((gateway.depth(), count(&backend.tags(), "limited")), (1, 1));
    backend.open();
    queueing::succeed(calls);
    gateway.await_idle();
}

#[test]
fn w05_the_earliest_deadline_of_a_flow_goes_first_if_configured() {
    let due = |name: &str, millis: &str| chat("m").tag(name).header("X-Request-Timeout-Ms", millis);
    let asks =
        [chat("m").tag("none"), due("late", "28000"), due("soon", "20000"), due("mid", "24000")];
    let sections = format!("[queue]\norder = \"deadline\"\n{ONE}");
    let order = order_of(&sections, &Backend::held(), &asks);
    assert_eq!(order, ["soon", "mid", "late", "none"]);
    assert_eq!(order_of(ONE, &Backend::held(), &asks), ["none", "late", "soon", "mid"], "fifo");
}

#[test]
fn c06_stock_in_tokens_counts_long_requests_for_more() {
    let backend = Backend::held();
    let bounds = "[controller]\nstock = \"tokens\"\nlower_bound_per_backend = 200\n\
        watermark_per_backend = 200\nupper_bound_per_backend = 200\n";
    let gateway = Gateway::before(bounds, &backend);
    let of_length = |tokens: u32| chat("m").with("max_tokens", tokens);
    let mut calls: Vec<Call> = (0..4).map(|_| gateway.send(&of_length(10))).collect();
    backend.await_running(4);
    calls.push(gateway.send(&of_length(1000)));
    backend.await_running(5);
    let stock = gateway.metrics().sum("tidegate_stock_level");
    assert!((1040.0..1400.0).contains(&stock), "{stock} tokens in flight");
    calls.push(gateway.enqueue(&of_length(10), 0));
    backend.open();
    queueing::succeed(calls);
    gateway.await_idle();
}
