//! C01–C04, C06–C08: stock, bounds, bypass and dequeue.

use super::bench::{Bench, MODEL, backend, limited_to, watermark_of_two};
use crate::{
    Ask, BackendId, BackendSupply, Band, Hysteresis, Refusal, Settings, StockUnit, Usage, Verdict,
};

/// C02: watermark 2 with one backend: bypass fills up to 3 in flight, dequeue refills up to 2.
#[test]
fn c02_watermark_of_two_bypasses_to_three_and_refills_to_two() {
    let mut bench = Bench::new(watermark_of_two(), 1);
    let running: Vec<_> = (0..3).map(|_| bench.start("a")).collect();
    for _ in 0..3 {
        bench.queue("a", Band::Normal);
    }
    bench.settle(running[0], 1);
    assert_eq!(bench.gate.in_flight(), 2, "2 is not below the lower bound of 1.8");
    bench.settle(running[1], 1);
    assert_eq!(bench.gate.in_flight(), 2, "refilled from 1");
    assert_eq!(bench.gate.depth(), 2);
}

/// C02: five backends: lower 9, upper 11; products that are whole numbers admit no extra ask.
#[test]
fn c02_bounds_scale_with_ready_backends_without_rounding_surprises() {
    let around = Hysteresis::around(2.0, 0.1).unwrap();
    for bounds in [around, Hysteresis::default()] {
        let mut bench = Bench::new(Settings { bounds: bounds.into(), ..Settings::default() }, 5);
        let mut running: Vec<_> = (0..11).map(|_| bench.start("a")).collect();
        for _ in 0..20 {
            bench.queue("a", Band::Normal);
        }
        for left in (9..11).rev() {
            bench.settle(running.pop().unwrap(), 1);
            assert_eq!(bench.gate.in_flight(), left);
        }
        bench.settle(running.pop().unwrap(), 1);
        assert_eq!(bench.gate.in_flight(), 9);
        let scaled = bench.gate.bounds(MODEL).map(|bound| bound.round() as u64);
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
    assert_eq!(name(Hysteresis::between(0.0, 2.0, 4.0)), "lower_bound_per_backend");
    assert_eq!(name(Hysteresis::between(1.0, 2.0, 1.5)), "upper_bound_per_backend");
}

/// C01: stock goes up on grant only and down on completion only, whatever the ending.
#[test]
fn c01_stock_follows_grants_and_endings_exactly() {
    let mut bench = Bench::new(limited_to(4.0), 1);
    let running: Vec<_> = (0..4).map(|_| bench.start("a")).collect();
    let waiting = bench.queue("a", Band::Normal);
    assert_eq!(bench.gate.backends().next().unwrap().stock, 4);
    bench.gate.cancel(waiting, bench.now).unwrap();
    assert_eq!(bench.gate.backends().next().unwrap().stock, 4, "a waiting ask holds no stock");
    bench.settle(running[0], 0);
    bench.gate.settle(running[1], Usage::Unknown, bench.now).unwrap();
    bench.gate.cancel(running[2], bench.now).unwrap();
    assert_eq!(bench.gate.backends().next().unwrap().stock, 1);
}

/// C03: nothing overtakes what waits: with stock between the bounds a newcomer queues.
#[test]
fn c03_bypass_needs_an_empty_queue() {
    let mut bench = Bench::new(watermark_of_two(), 1);
    let running: Vec<_> = (0..3).map(|_| bench.start("a")).collect();
    let first = bench.queue("a", Band::Normal);
    bench.settle(running[0], 1);
    let second = bench.queue("b", Band::Normal);
    bench.settle(running[1], 1);
    bench.settle(running[2], 1);
    assert_eq!(bench.granted(), [first, second]);
    bench.settle(first, 1);
    bench.start("c");
}

/// C04: a completion, a new ready backend and a changed bound each release the next at once.
#[test]
fn c04_every_cause_of_room_releases_the_next_ask() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let running = bench.start("a");
    let waiting: Vec<_> = (0..3).map(|_| bench.queue("a", Band::Normal)).collect();
    bench.settle(running, 1);
    assert_eq!(bench.granted(), [waiting[0]], "a completion");
    bench.supply(&[backend(0, &[1]), backend(1, &[1])]);
    assert_eq!(bench.granted(), [waiting[1]], "a new backend");
    bench.gate.configure(limited_to(2.0), bench.now);
    bench.collect();
    assert_eq!(bench.granted(), [waiting[2]], "a changed bound");
}

/// C06: stock in tokens: one ask may pass the bound, the next must wait.
#[test]
fn c06_stock_can_be_counted_in_tokens() {
    let settings = Settings { stock: StockUnit::Tokens, ..limited_to(1000.0) };
    let mut bench = Bench::new(settings, 1);
    let ask = bench.ask("a");
    let large = Ask { tokens: 900, ..ask };
    assert!(matches!(bench.offer(large), Verdict::Granted { .. }));
    assert!(matches!(bench.offer(large), Verdict::Granted { .. }));
    assert!(matches!(bench.offer(large), Verdict::Queued { .. }));
    assert_eq!(bench.gate.backends().next().unwrap().stock, 1800);
}

/// C06: a change of unit counts again what is in flight.
#[test]
fn c06_a_change_of_unit_recounts_what_is_in_flight() {
    let mut bench = Bench::new(limited_to(8.0), 1);
    let ask = bench.ask("a");
    let Verdict::Granted { ticket, .. } = bench.offer(Ask { tokens: 70, ..ask }) else {
        panic!("an idle backend takes it");
    };
    bench.gate.configure(Settings { stock: StockUnit::Tokens, ..limited_to(100.0) }, bench.now);
    bench.collect();
    assert_eq!(bench.gate.backends().next().unwrap().stock, 70);
    bench.settle(ticket, 1);
    assert_eq!(bench.gate.backends().next().unwrap().stock, 0);
}

/// C07: domains never touch: a full one leaves the other's asks alone.
#[test]
fn c07_one_domain_never_blocks_another() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[1]), backend(1, &[2])]);
    bench.start("a");
    bench.queue("a", Band::Critical);
    let ask = bench.ask("a");
    let other = bench.offer(Ask { model: crate::ModelId(2), ..ask });
    assert!(matches!(other, Verdict::Granted { backend: BackendId(1), .. }));
}

/// C07: with no ready backend asks wait; the first ready one releases them.
#[test]
fn c07_nothing_is_sent_into_the_void() {
    let down = BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut bench = Bench::with(limited_to(2.0), &[down]);
    let waiting: Vec<_> = (0..3).map(|_| bench.queue("a", Band::Normal)).collect();
    assert_eq!(bench.gate.in_flight(), 0);
    bench.supply(&[backend(0, &[1])]);
    assert_eq!(bench.granted(), waiting[..2]);
}

/// C07: inside a domain a flow whose backends have no room is skipped.
#[test]
fn c07_a_flow_without_room_is_skipped() {
    let both = [backend(0, &[1, 3]), backend(1, &[2, 3])];
    let mut bench = Bench::with(limited_to(1.0), &both);
    let ask = bench.ask("a");
    let on = |model| Ask { model: crate::ModelId(model), ..ask };
    let Verdict::Granted { ticket: first, .. } = bench.offer(on(1)) else { panic!("idle") };
    let Verdict::Granted { ticket: second, .. } = bench.offer(on(2)) else { panic!("idle") };
    let Verdict::Queued { ticket: blocked } = bench.offer(on(1)) else { panic!("full") };
    let Verdict::Queued { ticket: able } = bench.offer(on(2)) else { panic!("full") };
    bench.settle(second, 1);
    assert_eq!(bench.granted(), [able], "the older ask needs the backend that is full");
    bench.settle(first, 1);
    assert_eq!(bench.granted(), [blocked]);
}

/// What hangs on a backend that is no longer ready takes no place from the others.
#[test]
fn c07_stock_at_a_dead_backend_does_not_count_against_the_living() {
    let mut bench = Bench::new(limited_to(1.0), 2);
    bench.start("a");
    bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    let stuck = BackendSupply { ready: false, ..backend(0, &[1]) };
    bench.supply(&[stuck, backend(1, &[1]), backend(2, &[1])]);
    assert_eq!(bench.granted(), [waiting]);
}

/// C08: with queueing disabled, or of size 0, what would wait is refused and the rest works.
#[test]
fn c08_a_disabled_queue_refuses_what_would_wait() {
    let disabled = Settings { enabled: false, ..limited_to(1.0) };
    let empty = Settings { total_capacity: 0, ..limited_to(1.0) };
    for settings in [disabled, empty] {
        let mut bench = Bench::new(settings, 1);
        let running = bench.start("a");
        assert_eq!(bench.refusal("a", Band::Critical), Refusal::QueueDisabled);
        bench.settle(running, 1);
        bench.start("a");
    }
}

/// The backend with the least pending is chosen, and ties are spread.
#[test]
fn r03_pending_is_tracked_exactly_and_ties_are_spread() {
    let mut bench = Bench::new(limited_to(2.0), 3);
    let tickets: Vec<_> = (0..6).map(|_| bench.start("a")).collect();
    let chosen: Vec<_> =
        tickets.iter().map(|&ticket| bench.gate.backend_of(ticket).unwrap().0).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
    bench.settle(tickets[1], 1);
    let next = bench.start("a");
    assert_eq!(bench.gate.backend_of(next), Some(BackendId(1)));
    let pending: Vec<u32> = bench.gate.backends().map(|b| b.in_flight[1]).collect();
    assert_eq!(pending, [2, 2, 2]);
}
