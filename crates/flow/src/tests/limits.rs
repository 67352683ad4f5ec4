//! P09: limits on what a flow has in flight.

use super::bench::{Bench, Dice, MODEL, backend, limited_to};
use crate::{Ask, Band, FlowClass, Settings, Ticket, Verdict};

fn with_class(class: FlowClass, slots: f64) -> Settings {
    Settings { classes: vec![class], ..limited_to(slots) }
}

impl Bench {
    fn send_limited(&mut self, flow: &str) -> Verdict {
        let flow = self.gate.flow(flow, 1);
        self.offer(Ask::new(flow, MODEL))
    }

    fn queue_limited(&mut self, flow: &str) -> Ticket {
        match self.send_limited(flow) {
            Verdict::Queued { ticket } => ticket,
            other => panic!("{flow}: expected to wait, got {other:?}"),
        }
    }
}

/// P09: a flow at its limit is skipped without blocking others.
#[test]
fn p09_a_flow_at_its_limit_is_skipped() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut bench = Bench::new(with_class(class, 3.0), 1);
    let Verdict::Granted { ticket: running, .. } = bench.send_limited("small") else {
        panic!("an idle backend takes it");
    };
    let kept = bench.queue_limited("small");
    let large = bench.start("large");
    bench.start("large");
    let next = bench.queue("large", Band::Normal);
    bench.settle(large, 1);
    assert_eq!(bench.granted(), [next], "the flow at its limit stands in nobody's way");
    bench.settle(running, 1);
    assert_eq!(bench.granted(), [kept], "its turn comes when its own ask ends");
}

/// P09: per backend: the flow goes where it still may, and waits when it may nowhere.
#[test]
fn p09_limits_per_backend_steer_and_then_hold() {
    let class = FlowClass { in_flight_per_backend_max: Some(1), ..FlowClass::default() };
    let mut bench = Bench::new(with_class(class, 4.0), 2);
    let mut running = Vec::new();
    for _ in 0..2 {
        let Verdict::Granted { ticket, .. } = bench.send_limited("a") else { panic!("room") };
        running.push(ticket);
    }
    assert_ne!(bench.gate.backend_of(running[0]), bench.gate.backend_of(running[1]));
    let kept = bench.queue_limited("a");
    bench.start("b");
    let place = bench.gate.backend_of(running[1]);
    bench.settle(running[1], 1);
    assert_eq!(bench.granted(), [kept]);
    assert_eq!(bench.gate.backend_of(kept), place);
}

/// P09: a flow comes back from its limit with no hoarded credit.
#[test]
fn p09_no_credit_is_hoarded_at_the_limit() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut bench = Bench::new(with_class(class, 2.0), 1);
    let Verdict::Granted { ticket: held, .. } = bench.send_limited("held") else { panic!("room") };
    let mut other = bench.start("busy");
    let kept: Vec<_> = (0..3).map(|_| bench.queue_limited("held")).collect();
    for _ in 0..90 {
        bench.queue("busy", Band::Normal);
    }
    for _ in 0..50 {
        bench.settle(other, 1);
        other = bench.granted()[0];
    }
    bench.settle(held, 1);
    assert_eq!(bench.granted(), [kept[0]], "one turn, at the present");
    bench.settle(kept[0], 1);
    assert!(!kept.contains(&bench.granted()[0]), "the next turn is the other's");
}

/// P09: whatever happens, no limit is ever passed, and nothing that may go is kept.
#[test]
fn p09_random_limits_are_never_passed() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let class = FlowClass {
            in_flight_max: dice.chance(50).then(|| 1 + dice.below(4) as u32),
            in_flight_per_backend_max: Some(1 + dice.below(2) as u32),
            ..FlowClass::default()
        };
        let backends: Vec<_> = (0..3).map(|id| backend(id, &[1])).collect();
        let mut bench = Bench::with(with_class(class, 3.0), &backends);
        let mut running: Vec<(Ticket, usize)> = Vec::new();
        let mut owner = std::collections::BTreeMap::new();
        for step in 0..400 {
            let flow = dice.below(3) as usize;
            let verdict = (dice.chance(55) || running.is_empty())
                .then(|| bench.send_limited(["a", "b", "c"][flow]));
            match verdict {
                Some(Verdict::Granted { ticket, .. }) => running.push((ticket, flow)),
                Some(Verdict::Queued { ticket }) => _ = owner.insert(ticket, flow),
                Some(Verdict::Refused { .. }) => {}
                None => {
                    let at = dice.below(running.len() as u64) as usize;
                    bench.settle(running.swap_remove(at).0, 1);
                }
            }
            running.extend(bench.granted().into_iter().map(|ticket| (ticket, owner[&ticket])));
            check_limits(&bench, &running, &class, (seed, step));
        }
    }
}

fn check_limits(bench: &Bench, running: &[(Ticket, usize)], class: &FlowClass, at: (u64, u32)) {
    for flow in 0..3 {
        let own = running.iter().filter(|&&(_, of)| of == flow).map(|&(ticket, _)| ticket);
        let places: Vec<_> = own.map(|ticket| bench.gate.backend_of(ticket)).collect();
        let most = class.in_flight_max.unwrap_or(u32::MAX) as usize;
        assert!(places.len() <= most, "seed and step {at:?}");
        for place in &places {
            let held = places.iter().filter(|other| *other == place).count();
            let most = class.in_flight_per_backend_max.unwrap_or(u32::MAX) as usize;
            assert!(held <= most, "seed and step {at:?}");
        }
    }
}

/// A limit that shrank below what is in flight opens no door until enough has ended, also while
/// another door is open and merely has no room.
#[test]
fn p09_a_shrunken_limit_holds_until_enough_has_ended() {
    let limited =
        |most| FlowClass { in_flight_per_backend_max: Some(most), ..FlowClass::default() };
    let down = crate::BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut bench = Bench::with(with_class(limited(3), 3.0), &[down, backend(1, &[1])]);
    (0..3).for_each(|_| _ = bench.start("other"));
    bench.supply(&[backend(0, &[1]), backend(1, &[1])]);
    let mut running = Vec::new();
    for _ in 0..3 {
        let Verdict::Granted { ticket, .. } = bench.send_limited("a") else { panic!("room") };
        running.push(ticket);
    }
    let kept = bench.queue_limited("a");
    bench.gate.configure(with_class(limited(1), 3.0), bench.now);
    bench.collect();
    bench.settle(running[0], 1);
    bench.settle(running[1], 1);
    assert_eq!(bench.granted(), [], "one is still in progress");
    bench.settle(running[2], 1);
    assert_eq!(bench.granted(), [kept]);
}

/// P09: a flow whose doors have no room while others go earns no credit by it.
#[test]
fn p09_no_credit_is_hoarded_at_doors_without_room() {
    let class = FlowClass { in_flight_per_backend_max: Some(3), ..FlowClass::default() };
    let down = crate::BackendSupply { ready: false, ..backend(0, &[1]) };
    let mut bench = Bench::with(with_class(class, 4.0), &[down, backend(1, &[1])]);
    let far: Vec<_> = (0..4).map(|_| bench.start("busy")).collect();
    bench.supply(&[backend(0, &[1]), backend(1, &[1])]);
    (0..3).for_each(|_| _ = bench.send_limited("held"));
    let mut near = bench.start("busy");
    let kept: Vec<_> = (0..30).map(|_| bench.queue_limited("held")).collect();
    bench.fill("busy", Band::Normal, 99);
    for _ in 0..50 {
        bench.settle(near, 1);
        near = bench.granted()[0];
    }
    let mut served = 0;
    for ticket in far {
        bench.settle(ticket, 1);
        served += usize::from(kept.contains(&bench.granted()[0]));
    }
    assert_eq!(served, 2, "turn about, not all that its limit allows");
}

/// A flow that moves into a class without limits goes at once.
#[test]
fn p09_a_lifted_limit_releases_who_waited_for_it() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut bench = Bench::new(with_class(class, 3.0), 1);
    bench.send_limited("a");
    let kept = bench.queue_limited("a");
    bench.gate.flow("a", 0);
    bench.collect();
    assert_eq!(bench.granted(), [kept]);
}

/// A rebuild finds flows that a limit has kept out from their first ask on, and gives them no
/// credit for it.
#[test]
fn p09_a_rebuild_gives_no_credit_to_who_was_kept_out() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut bench = Bench::with(with_class(class, 2.0), &[backend(0, &[1]), backend(1, &[2])]);
    let flow = bench.gate.flow("held", 1);
    bench.offer(Ask::new(flow, crate::ModelId(2)));
    let mut running = bench.start("busy");
    bench.start("busy");
    let kept: Vec<_> = (0..20).map(|_| bench.queue_limited("held")).collect();
    bench.fill("busy", Band::Normal, 60);
    for _ in 0..10 {
        bench.settle(running, 1);
        running = bench.granted()[0];
    }
    let class = FlowClass { in_flight_max: None, ..class };
    bench.gate.configure(with_class(class, 2.0), bench.now);
    bench.collect();
    let mut served = 0;
    for _ in 0..20 {
        bench.settle(running, 1);
        running = bench.granted()[0];
        served += usize::from(kept.contains(&running));
    }
    assert!((9..=11).contains(&served), "{served} of 20");
}
