//! Q08, Q09, N05, N07 as far as they are pure: how waits end, exactly once.

use super::bench::{Bench, MODEL, backend, limited_to};
use crate::{
    Ask, BackendId, Band, Event, Eviction, FlowClass, Misuse, Refusal, RequeuePosition, Settings,
    Span, Stage, Ticket, Time, Usage, Verdict,
};

fn evicted(bench: &mut Bench) -> Vec<(Ticket, Eviction)> {
    let events = std::mem::take(&mut bench.events);
    let ended = events.into_iter().filter_map(|event| match event {
        Event::Evicted { ticket, reason, .. } => Some((ticket, reason)),
        Event::Granted { .. } => None,
    });
    ended.collect()
}

/// Q08: the default of 30 s; an ask waits until then and not beyond a tick past it.
#[test]
fn q08_a_wait_ends_at_its_time_to_live() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    bench.pass(Span::from_millis(29_999));
    assert_eq!(evicted(&mut bench), []);
    let wake = bench.gate.next_wake().unwrap();
    assert!(wake <= Time::from_millis(30_002), "late by at most two ticks: {wake:?}");
    bench.now = wake;
    bench.gate.wake(wake);
    bench.collect();
    assert_eq!(evicted(&mut bench), [(waiting, Eviction::Expired)]);
    assert_eq!(bench.gate.next_wake(), None);
}

/// Q08: an expired ask is never granted, even when nobody has called `wake`.
#[test]
fn q08_an_expired_ask_is_never_granted() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let running = bench.start("a");
    let ask = bench.ask("a");
    let Verdict::Queued { ticket: late } =
        bench.offer(Ask { ttl: Some(Span::from_secs(1)), ..ask })
    else {
        panic!("the backend is full")
    };
    let on_time = bench.queue("a", Band::Normal);
    bench.now = Time::from_millis(1000);
    bench.settle(running, 1);
    let ended = bench.events.clone();
    assert!(matches!(
        ended[0],
        Event::Evicted { ticket, reason: Eviction::Expired, .. } if ticket == late
    ));
    assert!(matches!(ended[1], Event::Granted { ticket, .. } if ticket == on_time));
}

/// Q08: the wheel keeps every deadline from a millisecond to a year, in any order.
#[test]
fn q08_every_deadline_is_kept_whatever_its_distance() {
    let mut bench = Bench::new(Settings { total_capacity: 4000, ..limited_to(1.0) }, 1);
    bench.gate.configure(
        Settings {
            default_class: FlowClass { capacity: 4000, ..FlowClass::default() },
            ..bench.gate.settings().clone()
        },
        bench.now,
    );
    bench.start("a");
    let mut dice = super::bench::Dice(8);
    let mut due = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        let digits = 1 + dice.below(10) as u32;
        let millis = 1 + dice.below(10u64.pow(digits));
        let ask = Ask { ttl: Some(Span::from_millis(millis)), ..bench.ask("a") };
        let Verdict::Queued { ticket } = bench.gate.offer(ask, bench.now) else { panic!("full") };
        due.insert(ticket, bench.now.after(Span::from_millis(millis)));
        bench.now = bench.now.after(Span::from_nanos(dice.below(3_000_000)));
        expire_on_time(&mut bench, &mut due);
    }
    while let Some(wake) = bench.gate.next_wake() {
        bench.now = bench.now.max(wake);
        expire_on_time(&mut bench, &mut due);
    }
    assert!(due.is_empty());
}

fn expire_on_time(bench: &mut Bench, due: &mut std::collections::BTreeMap<Ticket, Time>) {
    bench.gate.wake(bench.now);
    while let Some(Event::Evicted { ticket, .. }) = bench.gate.poll_event() {
        let deadline = due.remove(&ticket).unwrap();
        assert!(deadline <= bench.now, "early");
        let late = bench.now.since(deadline);
        assert!(late <= Span::from_millis(5), "late by {late:?}");
    }
}

/// C09: the client's own deadline has its own answer, before and while it waits.
#[test]
fn c09_the_clients_deadline_is_told_apart_from_the_time_to_live() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    bench.start("a");
    let ask = bench.ask("a");
    let soon = Time::from_millis(500);
    let Verdict::Queued { ticket } = bench.offer(Ask { deadline: Some(soon), ..ask }) else {
        panic!("the backend is full")
    };
    bench.pass(Span::from_secs(1));
    assert_eq!(evicted(&mut bench), [(ticket, Eviction::DeadlineExceeded)]);
    let verdict = bench.offer(Ask { deadline: Some(soon), ..ask });
    assert!(matches!(verdict, Verdict::Refused { reason: Refusal::DeadlineExceeded, .. }));
}

/// Q09: a client that leaves frees its place at once, and only once.
#[test]
fn q09_cancel_frees_the_place_and_ends_the_ticket() {
    let settings = Settings { total_capacity: 1, ..limited_to(1.0) };
    let mut bench = Bench::new(settings, 1);
    let running = bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    assert_eq!(bench.gate.cancel(waiting, bench.now), Ok(Stage::Waiting));
    assert_eq!(bench.gate.cancel(waiting, bench.now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.next_wake(), None, "its deadline is gone too");
    let second = bench.queue("a", Band::Normal);
    assert_eq!(bench.gate.cancel(running, bench.now), Ok(Stage::InFlight));
    bench.collect();
    assert_eq!(bench.granted(), [second]);
}

/// N05: a failed backend's ask comes back with a full refund, the same deadline and no need for
/// room, and goes elsewhere.
#[test]
fn n05_a_requeued_ask_keeps_its_deadline_and_avoids_the_backend() {
    let settings = Settings { total_capacity: 1, ..limited_to(1.0) };
    let mut bench = Bench::new(settings, 2);
    let first = bench.start("a");
    let second = bench.start("a");
    bench.queue("b", Band::Normal);
    let failed = bench.gate.backend_of(first).unwrap();
    bench.pass(Span::from_secs(20));
    bench.gate.requeue(first, RequeuePosition::Back, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted().len(), 1, "the other flow takes the freed place");
    assert_eq!(bench.gate.depth(), 1);
    let mut expiring = Bench { gate: bench.gate.clone(), now: bench.now, events: Vec::new() };
    expiring.pass(Span::from_millis(10_003));
    assert_eq!(evicted(&mut expiring), [(first, Eviction::Expired)], "30 s after its offer");
    bench.settle(second, 1);
    assert_eq!(bench.granted(), [first]);
    assert_ne!(bench.gate.backend_of(first).unwrap(), failed);
}

/// N05: with one backend there is nowhere else: it is tried again.
#[test]
fn n05_the_only_backend_is_not_avoided() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let first = bench.start("a");
    bench.gate.requeue(first, RequeuePosition::Original, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted(), [first]);
}

/// N05: old place for a full backend, back of the line for a failure.
#[test]
fn n05_places_after_a_requeue() {
    for (place, expected) in
        [(RequeuePosition::Original, [0, 1, 2]), (RequeuePosition::Back, [1, 2, 0])]
    {
        let mut bench = Bench::new(limited_to(1.0), 1);
        let blocker = bench.start("x");
        let tickets: Vec<_> = (0..3).map(|_| bench.queue("a", Band::Normal)).collect();
        bench.settle(blocker, 1);
        assert_eq!(bench.granted(), [tickets[0]]);
        bench.gate.requeue(tickets[0], place, bench.now).unwrap();
        bench.collect();
        let running = bench.granted();
        let mut order = running.clone();
        order.extend(bench.run_dry(running));
        assert_eq!(order, expected.map(|at| tickets[at]), "{place:?}");
    }
}

/// N05: a re-queue refunds the charge, so a flow whose backends fail loses nothing by it.
#[test]
fn n05_a_requeue_is_refunded_whole() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let blocker = bench.start("x");
    let a: Vec<_> = (0..4).map(|_| bench.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..4).map(|_| bench.queue("b", Band::Normal)).collect();
    bench.settle(blocker, 1);
    assert_eq!(bench.granted(), [a[0]]);
    for _ in 0..5 {
        bench.gate.requeue(a[0], RequeuePosition::Original, bench.now).unwrap();
        bench.collect();
        bench.granted();
        let running = bench.gate.backend_of(a[0]).map_or(b[0], |_| a[0]);
        if running == b[0] {
            bench.settle(b[0], 1);
            bench.granted();
            break;
        }
    }
    assert!(bench.gate.backend_of(a[0]).is_some(), "a's turn was not used up by failures");
}

/// N07: closing tells everyone who waits, refuses newcomers, and lets the rest finish.
#[test]
fn n07_close_evicts_all_waiting_and_lets_flights_land() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let running = bench.start("a");
    let waiting: Vec<_> = (0..5).map(|_| bench.queue("a", Band::Normal)).collect();
    bench.gate.close(bench.now);
    bench.collect();
    let told: Vec<_> = evicted(&mut bench);
    assert_eq!(told, waiting.iter().map(|&t| (t, Eviction::ShuttingDown)).collect::<Vec<_>>());
    assert_eq!(bench.refusal("a", Band::Critical), Refusal::ShuttingDown);
    bench.gate.requeue(running, RequeuePosition::Original, bench.now).unwrap();
    bench.collect();
    assert_eq!(evicted(&mut bench), [(running, Eviction::ShuttingDown)]);
    assert_eq!(bench.gate.settle(running, Usage::Unknown, bench.now), Err(Misuse::UnknownTicket));
    assert_eq!(bench.gate.in_flight() + bench.gate.depth(), 0);
}

/// N04: what changed while an ask waited counts when it is granted.
#[test]
fn n04_the_backend_is_chosen_when_the_ask_goes() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[MODEL.0])]);
    bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    bench.supply(&[backend(9, &[MODEL.0])]);
    assert_eq!(bench.granted(), [waiting]);
    assert_eq!(bench.gate.backend_of(waiting), Some(BackendId(9)));
}

/// Envoy went on to the next endpoint: the first is free again, and the second is as full as it is.
#[test]
fn x02_an_ask_that_was_served_elsewhere_counts_there() {
    let mut bench = Bench::new(limited_to(1.0), 3);
    let (first, second) = (bench.start("a"), bench.start("a"));
    let at = |bench: &Bench, ticket| bench.gate.backend_of(ticket).unwrap();
    let (from, busy) = (at(&bench, first), at(&bench, second));
    let third = bench.start("a");
    let to = at(&bench, third);
    bench.settle(third, 1);
    bench.gate.moved(first, to, bench.now).unwrap();
    bench.collect();
    assert_eq!(at(&bench, first), to);
    let next = bench.start("b");
    assert_eq!(at(&bench, next), from, "the only one that is free");
    let waiting = bench.queue("b", Band::Normal);
    bench.gate.moved(first, busy, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted(), [waiting], "what it left is there for who waits");
    bench.gate.moved(first, BackendId(99), bench.now).unwrap();
    assert_eq!(at(&bench, first), busy, "nobody knows that one");
    [first, second, next, waiting].into_iter().for_each(|ticket| bench.settle(ticket, 1));
    assert_eq!((bench.gate.in_flight(), bench.gate.depth()), (0, 0));
}

/// A flow with a limit at each backend keeps it when one of its asks moves.
#[test]
fn x02_limits_per_backend_follow_an_ask_that_moved() {
    let class = FlowClass { in_flight_per_backend_max: Some(1), ..FlowClass::default() };
    let settings = Settings { default_class: class, ..limited_to(8.0) };
    let mut bench = Bench::new(settings, 2);
    let (first, second) = (bench.start("a"), bench.start("a"));
    let [left, right] = [first, second].map(|ticket| bench.gate.backend_of(ticket).unwrap());
    assert_ne!(left, right);
    let waiting = bench.queue("a", Band::Normal);
    bench.gate.moved(first, right, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted(), [waiting], "it may use the one that was left");
    assert_eq!(bench.gate.backend_of(waiting), Some(left));
    bench.queue("a", Band::Normal);
}
