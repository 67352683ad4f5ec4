//! O04: fairness between the sessions of a flow.

use crate::support::gateway::ONE;
use crate::support::queueing::{count, order_of, succeed};
use crate::support::{Backend, Gateway, HttpRequest, chat};

const TEAMS: &str = "[queue]\nflow_by = [\"header:x-team\"]\n";
const SESSIONS: &str = "session_by = [\"session\"]\n";

/// A request of a session in a team; the backend sees its kind as a tag.
fn of(team: &str, session: &str, tag: &str) -> HttpRequest {
    chat("m").header("x-team", team).header("x-session-id", session).tag(tag)
}

#[test]
fn o04_a_chat_takes_turns_with_an_agent_that_sent_many_calls_before_it() {
    let calls = vec![of("team", "agent", "agent"); 20];
    let asks = [calls, vec![of("team", "chat", "chat"); 5]].concat();
    let order = order_of(&format!("{TEAMS}{SESSIONS}{ONE}"), &Backend::held(), &asks);
    assert!(count(&order[..11], "chat") >= 4, "they take turns: {order:?}");
    let order = order_of(&format!("{TEAMS}{ONE}"), &Backend::held(), &asks);
    assert_eq!(count(&order[..20], "chat"), 0, "without the key, first come: {order:?}");
}

#[test]
fn o04_sessions_that_a_client_invents_divide_only_the_share_of_its_team() {
    let invented = (0..16).map(|call| of("many", &format!("invented-{call}"), "many"));
    let asks: Vec<_> = invented.chain((0..16).map(|_| of("one", "kept", "one"))).collect();
    let order = order_of(&format!("{TEAMS}{SESSIONS}{ONE}"), &Backend::held(), &asks);
    let many = count(&order[..16], "many");
    assert!((7..=9).contains(&many), "half and half: {order:?}");
}

/// A flow of eight places is full of calls of one agent. A colleague has a share of the places:
/// four requests, each in the place of the agent's newest call, and no more.
#[test]
fn o04_a_chat_has_its_share_of_a_flow_that_an_agent_has_filled() {
    let backend = Backend::held();
    let section = format!("{TEAMS}{SESSIONS}flow_capacity = 8\n{ONE}");
    let first = chat("m").header("x-team", "first");
    let (gateway, running) = Gateway::occupied(&section, &backend, &first);
    let mut calls: Vec<_> =
        (0..8).map(|others| gateway.enqueue(&of("team", "agent", "agent"), others)).collect();
    gateway.ask(&of("team", "agent", "agent")).refused(503, "flow_full");
    let mut chats = Vec::new();
    for _ in 0..4 {
        chats.push(gateway.send(&of("team", "chat", "chat")));
        let displaced = calls.pop().unwrap().finish();
        displaced.refused(503, "flow_full");
        assert!(displaced.retry_after() >= 1);
        assert!(displaced.text().contains("'team'"), "{}", displaced.text());
        assert_eq!(gateway.depth(), 8);
    }
    for session in ["chat", "agent"] {
        gateway.ask(&of("team", session, session)).refused(503, "flow_full");
    }
    backend.open();
    succeed([running]);
    succeed(calls);
    succeed(chats);
    assert_eq!(count(&backend.tags(), "chat"), 4);
    gateway.await_idle();
}

#[test]
fn o04_sessions_may_be_told_apart_by_a_header() {
    let agent = |name: &str| chat("m").header("x-team", "team").header("x-agent", name).tag(name);
    let asks = [vec![agent("crawler"); 12], vec![agent("helper"); 4]].concat();
    let by_agent = "session_by = [\"header:x-agent\"]\n";
    let order = order_of(&format!("{TEAMS}{by_agent}{ONE}"), &Backend::held(), &asks);
    assert!(count(&order[..9], "helper") >= 3, "they take turns: {order:?}");
}
