//! Q08, Q09, N05, N07 as far as they are pure: how waits end, exactly once.

use super::fixture::{Fixture, MODEL, backend, limited_to};
use crate::{
    Ask, BackendId, Band, Event, Eviction, FlowClass, Misuse, Refusal, RequeuePosition, Settings,
    Span, Stage, Ticket, Time, Usage, Verdict,
};

fn evicted(fixture: &mut Fixture) -> Vec<(Ticket, Eviction)> {
    let events = std::mem::take(&mut fixture.events);
    let ended = events.into_iter().filter_map(|event| match event {
        Event::Evicted { ticket, reason, .. } => Some((ticket, reason)),
        Event::Granted { .. } => None,
    });
    ended.collect()
}

/// Q08: the default of 30 s; an ask waits until then and not beyond a tick past it.
#[test]
fn q08_a_wait_ends_at_its_time_to_live() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    fixture.pass(Span::from_millis(29_999));
    assert_eq!(evicted(&mut fixture), []);
    let wake = fixture.gate.next_wake().unwrap();
    assert!(wake <= Time::from_millis(30_002), "late by at most two ticks: {wake:?}");
    fixture.now = wake;
    fixture.gate.wake(wake);
    fixture.collect();
    assert_eq!(evicted(&mut fixture), [(waiting, Eviction::Expired)]);
    assert_eq!(fixture.gate.next_wake(), None);
}

/// Q08: an expired ask is never granted, even if `wake` was not called.
#[test]
fn q08_an_expired_ask_is_never_granted() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("a");
    let ask = fixture.ask("a");
    let Verdict::Queued { ticket: late } =
        fixture.offer(Ask { ttl: Some(Span::from_secs(1)), ..ask })
    else {
        panic!("the backend is full")
    };
    let on_time = fixture.queue("a", Band::Normal);
    fixture.now = Time::from_millis(1000);
    fixture.settle(running, 1);
    let ended = fixture.events.clone();
    assert!(matches!(
        ended[0],
        Event::Evicted { ticket, reason: Eviction::Expired, .. } if ticket == late
    ));
    assert!(matches!(ended[1], Event::Granted { ticket, .. } if ticket == on_time));
}

/// Q08: the wheel keeps every deadline from a millisecond to a year, in any order.
#[test]
fn q08_deadlines_at_every_distance_are_kept() {
    let mut fixture = Fixture::new(Settings { total_capacity: 4000, ..limited_to(1.0) }, 1);
    fixture.gate.configure(
        Settings {
            default_class: FlowClass { capacity: 4000, ..FlowClass::default() },
            ..fixture.gate.settings().clone()
        },
        fixture.now,
    );
    fixture.start("a");
    let mut dice = super::fixture::Dice(8);
    let mut due = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        let digits = 1 + dice.below(10) as u32;
        let millis = 1 + dice.below(10u64.pow(digits));
        let ask = Ask { ttl: Some(Span::from_millis(millis)), ..fixture.ask("a") };
        let Verdict::Queued { ticket } = fixture.gate.offer(ask, fixture.now) else {
            panic!("full")
        };
        due.insert(ticket, fixture.now.after(Span::from_millis(millis)));
        fixture.now = fixture.now.after(Span::from_nanos(dice.below(3_000_000)));
        expire_on_time(&mut fixture, &mut due);
    }
    while let Some(wake) = fixture.gate.next_wake() {
        fixture.now = fixture.now.max(wake);
        expire_on_time(&mut fixture, &mut due);
    }
    assert!(due.is_empty());
}

fn expire_on_time(fixture: &mut Fixture, due: &mut std::collections::BTreeMap<Ticket, Time>) {
    fixture.gate.wake(fixture.now);
    while let Some(Event::Evicted { ticket, .. }) = fixture.gate.poll_event() {
        let deadline = due.remove(&ticket).unwrap();
        assert!(deadline <= fixture.now, "early");
        let late = fixture.now.since(deadline);
        assert!(late <= Span::from_millis(5), "late by {late:?}");
    }
}

/// C09: the client's own deadline has its own reason, before and during the wait.
#[test]
fn c09_the_clients_deadline_and_the_time_to_live_have_different_codes() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    fixture.start("a");
    let ask = fixture.ask("a");
    let soon = Time::from_millis(500);
    let Verdict::Queued { ticket } = fixture.offer(Ask { deadline: Some(soon), ..ask }) else {
        panic!("the backend is full")
    };
    fixture.pass(Span::from_secs(1));
    assert_eq!(evicted(&mut fixture), [(ticket, Eviction::DeadlineExceeded)]);
    let verdict = fixture.offer(Ask { deadline: Some(soon), ..ask });
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::DeadlineExceeded, .. }));
}

/// Q09: a client that leaves frees its place at once, and only once.
#[test]
fn q09_cancel_frees_the_place_and_ends_the_ticket() {
    let settings = Settings { total_capacity: 1, ..limited_to(1.0) };
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    assert_eq!(fixture.gate.cancel(waiting, fixture.now), Ok(Stage::Waiting));
    assert_eq!(fixture.gate.cancel(waiting, fixture.now), Err(Misuse::UnknownTicket));
    assert_eq!(fixture.gate.next_wake(), None, "its deadline is gone too");
    let second = fixture.queue("a", Band::Normal);
    assert_eq!(fixture.gate.cancel(running, fixture.now), Ok(Stage::InFlight));
    fixture.collect();
    assert_eq!(fixture.granted(), [second]);
}

/// N05: the ask of a failed backend is re-queued with a full refund and the same deadline, needs no
/// room, and goes to another backend.
#[test]
fn n05_a_requeued_ask_keeps_its_deadline_and_avoids_the_backend() {
    let settings = Settings { total_capacity: 1, ..limited_to(1.0) };
    let mut fixture = Fixture::new(settings, 2);
    let first = fixture.start("a");
    let second = fixture.start("a");
    fixture.queue("b", Band::Normal);
    let failed = fixture.gate.backend_of(first).unwrap();
    fixture.pass(Span::from_secs(20));
    fixture.gate.requeue(first, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted().len(), 1, "the other flow takes the freed place");
    assert_eq!(fixture.gate.depth(), 1);
    let mut expiring = Fixture { gate: fixture.gate.clone(), now: fixture.now, events: Vec::new() };
    expiring.pass(Span::from_millis(10_003));
    assert_eq!(evicted(&mut expiring), [(first, Eviction::Expired)], "30 s after its offer");
    fixture.settle(second, 1);
    assert_eq!(fixture.granted(), [first]);
    assert_ne!(fixture.gate.backend_of(first).unwrap(), failed);
}

/// M03: for whoever looks, an ask is as old as its first arrival, and not as the ask that had its
/// slot before.
#[test]
fn m03_a_requeued_ask_is_as_old_as_its_first_arrival() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let first = fixture.start("a");
    let arrived = fixture.now;
    for place in [RequeuePosition::Back, RequeuePosition::Original, RequeuePosition::Back] {
        fixture.pass(Span::from_secs(2));
        fixture.gate.requeue(first, place, fixture.now).unwrap();
        fixture.collect();
        let seen: Vec<Time> = fixture.gate.asks().map(|ask| ask.arrival).collect();
        assert_eq!(seen, [arrived], "{place:?}");
    }
    fixture.settle(first, 1);
    fixture.start("a");
    assert_eq!(fixture.gate.asks().next().unwrap().arrival, fixture.now);
}

/// N05: with a single backend, that backend is tried again.
#[test]
fn n05_the_only_backend_is_not_avoided() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let first = fixture.start("a");
    fixture.gate.requeue(first, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [first]);
}

/// N05: the old place after a full backend, the back of the flow queue after a failure.
#[test]
fn n05_places_after_a_requeue() {
    for (place, expected) in
        [(RequeuePosition::Original, [0, 1, 2]), (RequeuePosition::Back, [1, 2, 0])]
    {
        let mut fixture = Fixture::new(limited_to(1.0), 1);
        let blocker = fixture.start("x");
        let tickets: Vec<_> = (0..3).map(|_| fixture.queue("a", Band::Normal)).collect();
        fixture.settle(blocker, 1);
        assert_eq!(fixture.granted(), [tickets[0]]);
        fixture.gate.requeue(tickets[0], place, fixture.now).unwrap();
        fixture.collect();
        let running = fixture.granted();
        let mut order = running.clone();
        order.extend(fixture.run_dry(running));
        assert_eq!(order, expected.map(|at| tickets[at]), "{place:?}");
    }
}

/// N05: a re-queue refunds the charge, so a flow whose backends fail loses nothing by it.
#[test]
fn n05_a_requeue_is_refunded_whole() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let blocker = fixture.start("x");
    let a: Vec<_> = (0..4).map(|_| fixture.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..4).map(|_| fixture.queue("b", Band::Normal)).collect();
    fixture.settle(blocker, 1);
    assert_eq!(fixture.granted(), [a[0]]);
    for _ in 0..5 {
        fixture.gate.requeue(a[0], RequeuePosition::Original, fixture.now).unwrap();
        fixture.collect();
        fixture.granted();
        let running = fixture.gate.backend_of(a[0]).map_or(b[0], |_| a[0]);
        if running == b[0] {
            fixture.settle(b[0], 1);
            fixture.granted();
            break;
        }
    }
    assert!(fixture.gate.backend_of(a[0]).is_some(), "a's turn was not used up by failures");
}

/// Q03: a flow whose asks end in errors after their work has the turns that it pays for.
#[test]
fn q03_work_that_fails_is_paid_for() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let blocker = fixture.start("x");
    let failing = fixture.queue("failing", Band::Normal);
    fixture.fill("sound", Band::Normal, 10);
    fixture.settle(blocker, 1);
    let mut turns = [0, 0];
    for _ in 0..20 {
        let running = fixture.granted()[0];
        fixture.pass(Span::from_secs(1));
        if running == failing {
            turns[0] += 1;
            fixture.gate.requeue(running, RequeuePosition::Original, fixture.now).unwrap();
            fixture.collect();
        } else {
            turns[1] += 1;
            fixture.settle(running, 1);
        }
    }
    assert_eq!(turns, [10, 10]);
}

/// N07: closing evicts every waiting ask, refuses new asks, and lets asks in flight finish.
#[test]
fn n07_close_evicts_all_waiting_asks_and_lets_the_others_finish() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("a");
    let waiting: Vec<_> = (0..5).map(|_| fixture.queue("a", Band::Normal)).collect();
    fixture.gate.close(fixture.now);
    fixture.collect();
    let told: Vec<_> = evicted(&mut fixture);
    assert_eq!(told, waiting.iter().map(|&t| (t, Eviction::ShuttingDown)).collect::<Vec<_>>());
    assert_eq!(fixture.refusal("a", Band::Critical), Refusal::ShuttingDown);
    fixture.gate.requeue(running, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(evicted(&mut fixture), [(running, Eviction::ShuttingDown)]);
    assert_eq!(
        fixture.gate.settle(running, Usage::Unknown, fixture.now),
        Err(Misuse::UnknownTicket)
    );
    assert_eq!(fixture.gate.in_flight() + fixture.gate.depth(), 0);
}

/// N04: changes during the wait of an ask count when it is granted.
#[test]
fn n04_the_backend_is_chosen_when_the_ask_goes() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[MODEL.0])]);
    fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    fixture.supply(&[backend(9, &[MODEL.0])]);
    assert_eq!(fixture.granted(), [waiting]);
    assert_eq!(fixture.gate.backend_of(waiting), Some(BackendId(9)));
}

/// Envoy used the next endpoint: the ask no longer counts at the first, and counts at the second.
#[test]
fn x02_an_ask_that_was_served_elsewhere_counts_there() {
    let mut fixture = Fixture::new(limited_to(1.0), 3);
    let (first, second) = (fixture.start("a"), fixture.start("a"));
    let at = |fixture: &Fixture, ticket| fixture.gate.backend_of(ticket).unwrap();
    let (from, busy) = (at(&fixture, first), at(&fixture, second));
    let third = fixture.start("a");
    let to = at(&fixture, third);
    fixture.settle(third, 1);
    fixture.gate.moved(first, to, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(at(&fixture, first), to);
    let next = fixture.start("b");
    assert_eq!(at(&fixture, next), from, "the only one that is free");
    let waiting = fixture.queue("b", Band::Normal);
    fixture.gate.moved(first, busy, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [waiting], "what it left is there for who waits");
    fixture.gate.moved(first, BackendId(99), fixture.now).unwrap();
    assert_eq!(at(&fixture, first), busy, "that ticket is unknown");
    [first, second, next, waiting].into_iter().for_each(|ticket| fixture.settle(ticket, 1));
    assert_eq!((fixture.gate.in_flight(), fixture.gate.depth()), (0, 0));
}

/// A flow with a limit at each backend keeps it when one of its asks moves.
#[test]
fn x02_limits_per_backend_follow_an_ask_that_moved() {
    let class = FlowClass { in_flight_per_backend_max: Some(1), ..FlowClass::default() };
    let settings = Settings { default_class: class, ..limited_to(8.0) };
    let mut fixture = Fixture::new(settings, 2);
    let (first, second) = (fixture.start("a"), fixture.start("a"));
    let [left, right] = [first, second].map(|ticket| fixture.gate.backend_of(ticket).unwrap());
    assert_ne!(left, right);
    let waiting = fixture.queue("a", Band::Normal);
    fixture.gate.moved(first, right, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [waiting], "it may use the one that was left");
    assert_eq!(fixture.gate.backend_of(waiting), Some(left));
    fixture.queue("a", Band::Normal);
}
