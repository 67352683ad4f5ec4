//! C01–C04, C06–C08: stock, bounds, bypass and dequeue.

use super::fixture::{Fixture, MODEL, backend, limited_to, watermark_of_two};
use crate::{
    Ask, BackendId, BackendSupply, Band, Hysteresis, Refusal, Settings, StockUnit, Usage, Verdict,
};

/// C02: watermark 2 with one backend: bypass fills up to 3 in flight, dequeue refills up to 2.
#[test]
fn c02_watermark_of_two_bypasses_to_three_and_refills_to_two() {
    let mut fixture = Fixture::new(watermark_of_two(), 1);
    let running: Vec<_> = (0..3).map(|_| fixture.start("a")).collect();
    for _ in 0..3 {
        fixture.queue("a", Band::Normal);
    }
    fixture.settle(running[0], 1);
    assert_eq!(fixture.gate.in_flight(), 2, "2 is not below the lower bound of 1.8");
    fixture.settle(running[1], 1);
    assert_eq!(fixture.gate.in_flight(), 2, "refilled from 1");
    assert_eq!(fixture.gate.depth(), 2);
}

/// C02: five backends: lower 9, upper 11; products that are whole numbers admit no extra ask.
#[test]
fn c02_bounds_scale_with_ready_backends_without_rounding_surprises() {
    let around = Hysteresis::around(2.0, 0.1).unwrap();
    for bounds in [around, Hysteresis::default()] {
        let mut fixture =
            Fixture::new(Settings { bounds: bounds.into(), ..Settings::default() }, 5);
        let mut running: Vec<_> = (0..11).map(|_| fixture.start("a")).collect();
        for _ in 0..20 {
            fixture.queue("a", Band::Normal);
        }
        for left in (9..11).rev() {
            fixture.settle(running.pop().unwrap(), 1);
            assert_eq!(fixture.gate.in_flight(), left);
        }
        fixture.settle(running.pop().unwrap(), 1);
        assert_eq!(fixture.gate.in_flight(), 9);
        let scaled = fixture.gate.bounds(MODEL).map(|bound| bound.round() as u64);
        assert_eq!(scaled, [9, 10, 11]);
    }
}

/// C02: keys outside their range are refused with the key's name.
#[test]
fn c02_impossible_bounds_are_refused() {
    let name = |result: Result<Hysteresis, crate::OutOfRange>| result.unwrap_err().what;
    assert_eq!(name(Hysteresis::around(2.0, 0.0)), "percentage_deviation_for_bounds");
    assert_eq!(name(Hysteresis::around(2.0, 1.0)), "percentage_deviation_for_bounds");
    assert_eq!(name(Hysteresis::around(2.0, f64::NAN)), "percentage_deviation_for_bounds");
    assert_eq!(name(Hysteresis::around(0.0, 0.1)), "watermark_per_backend");
    assert_eq!(name(Hysteresis::around(f64::INFINITY, 0.1)), "watermark_per_backend");
    assert_eq!(name(Hysteresis::between(3.0, 2.0, 4.0)), "lower_bound_per_backend");
    assert_eq!(name(Hysteresis::between(-0.1, 2.0, 4.0)), "lower_bound_per_backend");
    assert_eq!(name(Hysteresis::between(f64::NAN, 2.0, 4.0)), "lower_bound_per_backend");
    assert_eq!(name(Hysteresis::between(1.0, 2.0, 1.5)), "upper_bound_per_backend");
}

/// C02: with a lower bound of 0 the source would never let a waiting ask go. Here one goes whenever
/// a backend has no stock.
#[test]
fn c02_a_lower_bound_of_zero_waits_for_an_idle_backend() {
    for stock in [StockUnit::Requests, StockUnit::Tokens] {
        let bounds = Hysteresis::between(0.0, 2.0, 2.0).unwrap().into();
        let mut fixture = Fixture::new(Settings { bounds, stock, ..Settings::default() }, 2);
        assert_eq!(fixture.gate.bounds(MODEL), [0.0, 4.0, 4.0]);
        let running: Vec<_> = (0..4).map(|_| fixture.start("flow")).collect();
        let waiting: Vec<_> = (0..4).map(|_| fixture.queue("flow", Band::Normal)).collect();
        let mut order = Vec::new();
        for ticket in running {
            fixture.settle(ticket, 1);
            order.extend(fixture.granted());
            assert!(fixture.gate.in_flight() <= 4);
        }
        assert!(!order.is_empty(), "{stock:?}: an idle backend takes an ask");
        let rest = fixture.run_dry(order.clone());
        order.extend(rest);
        assert_eq!(order, waiting, "{stock:?}: none stays");
    }
}

/// C01: stock goes up on grant only and down on completion only, however the ask ends.
#[test]
fn c01_stock_follows_grants_and_endings_exactly() {
    let mut fixture = Fixture::new(limited_to(4.0), 1);
    let running: Vec<_> = (0..4).map(|_| fixture.start("a")).collect();
    let waiting = fixture.queue("a", Band::Normal);
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 4);
    fixture.gate.cancel(waiting, fixture.now).unwrap();
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 4, "a waiting ask holds no stock");
    fixture.settle(running[0], 0);
    fixture.gate.settle(running[1], Usage::Unknown, fixture.now).unwrap();
    fixture.gate.cancel(running[2], fixture.now).unwrap();
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 1);
}

/// C03: no ask overtakes waiting asks: with stock between the bounds a new ask queues.
#[test]
fn c03_bypass_needs_an_empty_queue() {
    let mut fixture = Fixture::new(watermark_of_two(), 1);
    let running: Vec<_> = (0..3).map(|_| fixture.start("a")).collect();
    let first = fixture.queue("a", Band::Normal);
    fixture.settle(running[0], 1);
    let second = fixture.queue("b", Band::Normal);
    fixture.settle(running[1], 1);
    fixture.settle(running[2], 1);
    assert_eq!(fixture.granted(), [first, second]);
    fixture.settle(first, 1);
    fixture.start("c");
}

/// C04: a completion, a new ready backend and a changed bound each release the next at once.
#[test]
fn c04_every_cause_of_room_releases_the_next_ask() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("a");
    let waiting: Vec<_> = (0..3).map(|_| fixture.queue("a", Band::Normal)).collect();
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [waiting[0]], "a completion");
    fixture.supply(&[backend(0, &[1]), backend(1, &[1])]);
    assert_eq!(fixture.granted(), [waiting[1]], "a new backend");
    fixture.gate.configure(limited_to(2.0), fixture.now);
    fixture.collect();
    assert_eq!(fixture.granted(), [waiting[2]], "a changed bound");
}

/// C06: stock in tokens: one ask may pass the bound, the next must wait.
#[test]
fn c06_stock_can_be_counted_in_tokens() {
    let settings = Settings { stock: StockUnit::Tokens, ..limited_to(1000.0) };
    let mut fixture = Fixture::new(settings, 1);
    let ask = fixture.ask("a");
    let large = Ask { tokens: 900, ..ask };
    assert!(matches!(fixture.offer(large), Verdict::Granted { .. }));
    assert!(matches!(fixture.offer(large), Verdict::Granted { .. }));
    assert!(matches!(fixture.offer(large), Verdict::Queued { .. }));
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 1800);
}

/// C06: a change of unit recounts the asks in flight.
#[test]
fn c06_a_change_of_unit_recounts_the_asks_in_flight() {
    let mut fixture = Fixture::new(limited_to(8.0), 1);
    let ask = fixture.ask("a");
    let Verdict::Granted { ticket, .. } = fixture.offer(Ask { tokens: 70, ..ask }) else {
        panic!("an idle backend takes it");
    };
    fixture.gate.configure(Settings { stock: StockUnit::Tokens, ..limited_to(100.0) }, fixture.now);
    fixture.collect();
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 70);
    fixture.settle(ticket, 1);
    assert_eq!(fixture.gate.backends().next().unwrap().stock, 0);
}

/// C07: domains are independent: a full domain does not hold back another.
#[test]
fn c07_one_domain_never_blocks_another() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1]), backend(1, &[2])]);
    fixture.start("a");
    fixture.queue("a", Band::Critical);
    let ask = fixture.ask("a");
    let other = fixture.offer(Ask { model: crate::ModelId(2), ..ask });
    assert!(matches!(other, Verdict::Granted { backend: BackendId(1), .. }));
}

/// C07: with no ready backend asks wait; the first ready one releases them.
#[test]
fn c07_asks_wait_while_no_backend_is_ready() {
    let down = BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut fixture = Fixture::with(limited_to(2.0), &[down]);
    let waiting: Vec<_> = (0..3).map(|_| fixture.queue("a", Band::Normal)).collect();
    assert_eq!(fixture.gate.in_flight(), 0);
    fixture.supply(&[backend(0, &[1])]);
    assert_eq!(fixture.granted(), waiting[..2]);
}

/// C07: inside a domain a flow whose backends have no room is skipped.
#[test]
fn c07_a_flow_without_room_is_skipped() {
    let both = [backend(0, &[1, 3]), backend(1, &[2, 3])];
    let mut fixture = Fixture::with(limited_to(1.0), &both);
    let ask = fixture.ask("a");
    let on = |model| Ask { model: crate::ModelId(model), ..ask };
    let Verdict::Granted { ticket: first, .. } = fixture.offer(on(1)) else { panic!("idle") };
    let Verdict::Granted { ticket: second, .. } = fixture.offer(on(2)) else { panic!("idle") };
    let Verdict::Queued { ticket: blocked } = fixture.offer(on(1)) else { panic!("full") };
    let Verdict::Queued { ticket: able } = fixture.offer(on(2)) else { panic!("full") };
    fixture.settle(second, 1);
    assert_eq!(fixture.granted(), [able], "the older ask needs the backend that is full");
    fixture.settle(first, 1);
    assert_eq!(fixture.granted(), [blocked]);
}

/// Asks at a backend that is no longer ready take no place from the others.
#[test]
fn c07_stock_at_a_dead_backend_does_not_count_against_ready_ones() {
    let mut fixture = Fixture::new(limited_to(1.0), 2);
    fixture.start("a");
    fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    let stuck = BackendSupply { ready: false, ..backend(0, &[1]) };
    fixture.supply(&[stuck, backend(1, &[1]), backend(2, &[1])]);
    assert_eq!(fixture.granted(), [waiting]);
}

/// C08: with queueing disabled, or of size 0, asks that would wait are refused and others are
/// granted.
#[test]
fn c08_a_disabled_queue_refuses_asks_that_would_wait() {
    let disabled = Settings { enabled: false, ..limited_to(1.0) };
    let empty = Settings { total_capacity: 0, ..limited_to(1.0) };
    for settings in [disabled, empty] {
        let mut fixture = Fixture::new(settings, 1);
        let running = fixture.start("a");
        assert_eq!(fixture.refusal("a", Band::Critical), Refusal::QueueDisabled);
        fixture.settle(running, 1);
        fixture.start("a");
    }
}

/// The backend with the least pending is chosen, and ties are spread.
#[test]
fn r03_pending_is_tracked_exactly_and_ties_are_spread() {
    let mut fixture = Fixture::new(limited_to(2.0), 3);
    let tickets: Vec<_> = (0..6).map(|_| fixture.start("a")).collect();
    let chosen: Vec<_> =
        tickets.iter().map(|&ticket| fixture.gate.backend_of(ticket).unwrap().0).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
    fixture.settle(tickets[1], 1);
    let next = fixture.start("a");
    assert_eq!(fixture.gate.backend_of(next), Some(BackendId(1)));
    let pending: Vec<u32> = fixture.gate.backends().map(|b| b.in_flight[1]).collect();
    assert_eq!(pending, [2, 2, 2]);
}
