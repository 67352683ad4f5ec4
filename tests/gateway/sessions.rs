//! O04: fairness between the sessions of a flow.

use crate::support::gateway::ONE;
use crate::support::{Backend, Call, Gateway, HttpRequest, chat, queueing};

const TEAMS: &str = "[queue]\nflow_by = [\"header:x-team\"]\n";
const SESSIONS: &str = "session_by = [\"session\"]\n";

/// A request of a session in a team; the backend sees its kind as a tag.
fn of(team: &str, session: &str, tag: &str) -> HttpRequest {
    chat("m").header("x-team", team).header("x-session-id", session).tag(tag)
}

/// The tags in the order of service.
fn order_of(sections: &str, asks: &[HttpRequest]) -> Vec<String> {
    let backend = Backend::held();
    let first = of("first", "first", "first").priority("critical");
    let (gateway, running) = Gateway::occupied(sections, &backend, &first);
    let mut calls: Vec<Call> = vec![running];
    for (others, ask) in asks.iter().enumerate() {
        calls.push(gateway.enqueue(ask, others));
    }
    backend.open();
    queueing::succeed(calls);
    gateway.await_idle();
    backend.tags().split_off(1)
}

fn count(order: &[String], tag: &str) -> usize {
    order.iter().filter(|found| *found == tag).count()
}

#[test]
fn o04_a_chat_takes_turns_with_an_agent_that_sent_many_calls_before_it() {
    let calls = vec![of("team", "agent", "agent"); 20];
    let asks = [calls, vec![of("team", "chat", "chat"); 5]].concat();
    let order = order_of(&format!("{TEAMS}{SESSIONS}{ONE}"), &asks);
    assert!(count(&order[..11], "chat") >= 4, "they take turns: {order:?}");
    let order = order_of(&format!("{TEAMS}{ONE}"), &asks);
    assert_eq!(count(&order[..20], "chat"), 0, "without the key, first come: {order:?}");
}

#[test]
fn o04_sessions_that_a_client_invents_divide_only_the_share_of_its_team() {
    let invented = (0..16).map(|call| of("many", &format!("invented-{call}"), "many"));
    let asks: Vec<_> = invented.chain((0..16).map(|_| of("one", "kept", "one"))).collect();
    let order = order_of(&format!("{TEAMS}{SESSIONS}{ONE}"), &asks);
    let many = count(&order[..16], "many");
    assert!((7..=9).contains(&many), "half and half: {order:?}");
}

#[test]
fn o04_sessions_may_be_told_apart_by_a_header() {
    let agent = |name: &str| chat("m").header("x-team", "team").header("x-agent", name).tag(name);
    let asks = [vec![agent("crawler"); 12], vec![agent("helper"); 4]].concat();
    let by_agent = "session_by = [\"header:x-agent\"]\n";
    let order = order_of(&format!("{TEAMS}{by_agent}{ONE}"), &asks);
    assert!(count(&order[..9], "helper") >= 3, "they take turns: {order:?}");
}
