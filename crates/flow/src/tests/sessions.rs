//! O04: the sessions of a flow share its grants and its capacity, one level below the flows.

use std::collections::BTreeMap;

use super::fixture::{Dice, Fixture, limited_to};
use crate::queue::session_order::IDLE_MAX;
use crate::{
    Ask, Band, Event, Eviction, FlowClass, Order, Refusal, Settings, Span, Stage, Ticket, Verdict,
};

const AGENT: u32 = 1;
const CHAT: u32 = 2;

/// The largest cost of an ask in the test of the bounds.
const COST_MAX: u64 = 50;

/// One place, and flows whose sessions share their grants.
fn shared(places: f64) -> Settings {
    let class = FlowClass { ttl: Span::from_secs(1000), capacity: 20_000, ..FlowClass::default() };
    Settings {
        order: Order::Session,
        total_capacity: 20_000,
        default_class: class,
        ..limited_to(places)
    }
}

/// A fixture whose only place is taken, and the ask that holds it.
fn full() -> (Fixture, Ticket) {
    let mut fixture = Fixture::new(shared(1.0), 1);
    let running = fixture.start("other");
    (fixture, running)
}

fn offer(fixture: &mut Fixture, flow: &str, session: u32, cost: u64) -> Ticket {
    let ask = Ask { flow_session: session, cost, ..fixture.ask(flow) };
    match fixture.offer(ask) {
        Verdict::Queued { ticket } => ticket,
        other => panic!("session {session}: expected to wait, got {other:?}"),
    }
}

/// Ends the ask in flight at its cost and returns the one that follows.
fn next(fixture: &mut Fixture, running: Ticket, cost: u64) -> Ticket {
    fixture.settle(running, cost);
    let granted = fixture.granted();
    assert_eq!(granted.len(), 1, "one place, one grant");
    granted[0]
}

#[test]
fn o04_an_agent_with_a_hundred_calls_does_not_starve_a_chat_of_its_tenant() {
    let (mut fixture, mut running) = full();
    let calls: Vec<_> = (0..100).map(|_| offer(&mut fixture, "team", AGENT, 1)).collect();
    running = next(&mut fixture, running, 1);
    assert_eq!(running, calls[0]);
    for round in 0..20 {
        let chat = offer(&mut fixture, "team", CHAT, 1);
        running = next(&mut fixture, running, 1);
        if running != chat {
            running = next(&mut fixture, running, 1);
        }
        assert_eq!(running, chat, "round {round}: at most one call of the agent goes before");
    }
}

#[test]
fn o04_fresh_names_do_not_starve_a_session_that_waits() {
    let (mut fixture, mut running) = full();
    let chats: Vec<_> = (0..100).map(|_| offer(&mut fixture, "team", CHAT, 10)).collect();
    let (mut of_chat, mut fresh) = (0, None);
    for call in 0..100 {
        // One ask under a fresh name always waits.
        if fresh.is_none() || fresh == Some(running) {
            fresh = Some(offer(&mut fixture, "team", 1000 + call, 10));
        }
        running = next(&mut fixture, running, 10);
        of_chat += u32::from(chats.contains(&running));
    }
    assert!(of_chat >= 40, "{of_chat} of 100 grants");
}

/// A full flow of twelve places in one or two bands, with this many asks of each session.
fn filled(waiting: &[(u32, u32)]) -> Fixture {
    let class = FlowClass { capacity: 12, ..shared(1.0).default_class };
    let mut fixture = Fixture::new(Settings { default_class: class, ..shared(1.0) }, 1);
    fixture.start("other");
    for &(session, count) in waiting {
        (0..count).for_each(|_| _ = offer(&mut fixture, "team", session, 1));
    }
    fixture
}

/// Offers an ask of a session; returns the asks that are displaced, or `None` if it is refused.
fn squeeze(fixture: &mut Fixture, session: u32) -> Option<Vec<Ticket>> {
    let ask = Ask { flow_session: session, ..fixture.ask("team") };
    let verdict = fixture.offer(ask);
    let displaced = std::mem::take(&mut fixture.events).into_iter().map(|event| match event {
        Event::Evicted { ticket, reason: Eviction::Displaced, .. } => ticket,
        other => panic!("{other:?}"),
    });
    match verdict {
        Verdict::Queued { .. } => Some(displaced.collect()),
        Verdict::Refused { reason, .. } => {
            assert_eq!((reason, displaced.count()), (Refusal::FlowFull, 0));
            None
        }
        Verdict::Granted { .. } => panic!("there is no room"),
    }
}

/// Theorem 7: a session gets its whole share of a full flow and no more, and the session with most
/// asks loses its newest ones.
#[test]
fn o04_a_session_gets_its_share_of_a_full_flow() {
    let mut fixture = filled(&[(AGENT, 12)]);
    let mut calls: Vec<_> = fixture.gate.asks().filter(|ask| ask.stage == Stage::Waiting).collect();
    calls.sort_by_key(|ask| ask.ticket);
    assert_eq!(squeeze(&mut fixture, AGENT), None, "it has all the places");
    for _ in 0..6 {
        let newest = calls.pop().unwrap().ticket;
        assert_eq!(squeeze(&mut fixture, CHAT), Some(vec![newest]));
    }
    assert_eq!(squeeze(&mut fixture, CHAT), None, "six of twelve is its share");
    assert_eq!(squeeze(&mut fixture, AGENT), None, "and the agent's");
    let mut fixture = filled(&[(AGENT, 7), (CHAT, 5)]);
    assert_eq!(squeeze(&mut fixture, 3).map(|displaced| displaced.len()), Some(1));
    assert_eq!(squeeze(&mut fixture, AGENT), None, "it has more than a third");
}

/// More sessions than places: then no session has a whole share, and the flow is full.
#[test]
fn o04_sessions_beyond_the_places_of_a_flow_displace_no_other() {
    let one_each: Vec<_> = (0..12).map(|session| (session, 1)).collect();
    let mut fixture = filled(&one_each);
    assert_eq!(squeeze(&mut fixture, 12), None);
}

/// Without sessions, and in another band, no ask is displaced.
#[test]
fn o04_no_session_is_displaced_by_a_lower_band() {
    let mut fixture = filled(&[(AGENT, 12)]);
    let low = Ask { flow_session: CHAT, band: Band::BestEffort, ..fixture.ask("team") };
    let refused = fixture.offer(low);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::FlowFull, .. }), "{refused:?}");
}

#[test]
fn o04_an_idle_session_earns_no_credit() {
    let (mut fixture, mut running) = full();
    let chat = offer(&mut fixture, "team", CHAT, 1);
    (0..200).for_each(|_| _ = offer(&mut fixture, "team", AGENT, 1));
    running = next(&mut fixture, running, 1);
    assert_eq!(running, chat);
    (0..100).for_each(|_| running = next(&mut fixture, running, 1));
    let chats: Vec<_> = (0..10).map(|_| offer(&mut fixture, "team", CHAT, 1)).collect();
    let order: Vec<_> = (0..10)
        .map(|_| {
            running = next(&mut fixture, running, 1);
            chats.contains(&running)
        })
        .collect();
    let of_chat = order.iter().filter(|&&chat| chat).count();
    assert!((4..=6).contains(&of_chat), "they take turns: {order:?}");
}

#[test]
fn o04_a_refund_from_before_a_session_waited_is_no_credit() {
    let mut fixture = Fixture::new(shared(2.0), 1);
    let mut running = fixture.start("other");
    let held = fixture.start("other");
    let large = offer(&mut fixture, "team", CHAT, 1000);
    (0..3000).for_each(|_| _ = offer(&mut fixture, "team", AGENT, 1));
    running = loop {
        running = next(&mut fixture, running, 1);
        if running == large {
            break held;
        }
    };
    // The chat is idle while its large ask runs; then it waits again.
    (0..1100).for_each(|_| running = next(&mut fixture, running, 1));
    let chats: Vec<_> = (0..40).map(|_| offer(&mut fixture, "team", CHAT, 1)).collect();
    running = next(&mut fixture, running, 1);
    fixture.settle(large, 1);
    let mut granted = fixture.granted();
    assert_eq!(granted.len(), 1);
    for _ in 0..20 {
        granted.push(next(&mut fixture, running, 1));
        running = *granted.last().unwrap();
    }
    let of_chat = granted.iter().filter(|ticket| chats.contains(ticket)).count();
    assert!(of_chat <= 12, "{of_chat} of {} grants", granted.len());
}

#[test]
fn o04_sessions_pay_what_they_cost_and_not_what_was_estimated() {
    let (mut fixture, mut running) = full();
    let mut paid: BTreeMap<u32, u64> = BTreeMap::new();
    let mut owners: BTreeMap<Ticket, u32> = BTreeMap::new();
    for _ in 0..400 {
        // The agent's asks are estimated at a hundred times their cost.
        owners.insert(offer(&mut fixture, "team", AGENT, 1000), AGENT);
        owners.insert(offer(&mut fixture, "team", CHAT, 10), CHAT);
    }
    running = next(&mut fixture, running, 1);
    for _ in 0..400 {
        *paid.entry(owners[&running]).or_default() += 10;
        running = next(&mut fixture, running, 10);
    }
    let (agent, chat) = (paid[&AGENT], paid[&CHAT]);
    assert!(agent.abs_diff(chat) <= 1010, "agent {agent}, chat {chat}");
}

/// Theorem 6: both bounds, at every grant, among sessions and flows that always wait.
#[test]
fn o04_the_bound_holds_for_flows_and_for_their_sessions() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut fixture, mut running) = full();
        let mut owners = BTreeMap::new();
        let mut served = BTreeMap::new();
        let sessions: Vec<u32> = (0..2).map(|_| 1 + dice.below(4) as u32).collect();
        let flows = ["first", "second"];
        let mut send = |fixture: &mut Fixture, owner: (usize, u32)| {
            let cost = 1 + dice.below(COST_MAX);
            let ticket = offer(fixture, flows[owner.0], owner.1, cost);
            (ticket, (owner, cost))
        };
        for (flow, &count) in sessions.iter().enumerate() {
            for owner in (0..count).map(|session| (flow, session)) {
                served.insert(owner, 0);
                owners.extend([send(&mut fixture, owner), send(&mut fixture, owner)]);
            }
        }
        running = next(&mut fixture, running, 1);
        for grant in 0..300 {
            let (owner, cost) = owners[&running];
            *served.get_mut(&owner).unwrap() += cost;
            check(&served, (seed, grant));
            // The session sends again before the place is free, so that it always waits.
            owners.extend([send(&mut fixture, owner)]);
            running = next(&mut fixture, running, cost);
        }
    }
}

fn check(served: &BTreeMap<(usize, u32), u64>, at: (u64, u32)) {
    for (one, first) in served {
        for (other, second) in served.range(one..).filter(|(other, _)| other.0 == one.0) {
            let lead = first.abs_diff(*second);
            assert!(lead <= 2 * COST_MAX, "seed and grant {at:?}: {one:?}, {other:?} by {lead}");
        }
    }
    let total =
        |flow| served.iter().filter(move |(owner, _)| owner.0 == flow).map(|(_, cost)| cost);
    let lead = total(0).sum::<u64>().abs_diff(total(1).sum());
    assert!(lead <= 2 * COST_MAX, "seed and grant {at:?}: the flows by {lead}");
}

#[test]
fn o04_few_sessions_are_remembered_whatever_names_clients_invent() {
    let (mut fixture, mut running) = full();
    for name in 0..2000 {
        let ticket = offer(&mut fixture, "team", name, 1);
        running = next(&mut fixture, running, 1);
        assert_eq!(running, ticket);
    }
    let flow_queues = &fixture.gate.flow_queues;
    let most = flow_queues.ids().filter_map(|at| flow_queues[at].ordered.sessions());
    let most = most.map(|order| order.counts().0).max();
    assert_eq!(most, Some(IDLE_MAX));
}

#[test]
fn o04_late_asks_of_a_session_go_behind_fresh_ones_of_another() {
    let settings = Settings { objectives: [Span::from_secs(2); crate::BANDS], ..shared(1.0) };
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("other");
    let late = offer(&mut fixture, "team", AGENT, 1);
    fixture.pass(Span::from_secs(5));
    let fresh = offer(&mut fixture, "team", CHAT, 1);
    let first = next(&mut fixture, running, 1);
    let second = next(&mut fixture, first, 1);
    assert_eq!([first, second], [fresh, late]);
}
