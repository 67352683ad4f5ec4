//! C07, X06 as far as they are pure: backends and settings that change under load.

use super::bench::{Bench, MODEL, backend, limited_to, watermark_of_two};
use crate::{Ask, BackendId, BackendSupply, Band, ModelId, Settings, Verdict, Weight};

/// Models with the same backends share a pool; pools that share a backend share a domain.
#[test]
fn c07_domains_are_backends_that_share_models() {
    let listed = [backend(0, &[1, 2]), backend(1, &[2, 3]), backend(2, &[3]), backend(3, &[9])];
    let bench = Bench::with(limited_to(1.0), &listed);
    let domain = |model| {
        let pool = bench.gate.supply.pool_of(ModelId(model)).unwrap();
        bench.gate.supply.pools[pool as usize].domain
    };
    assert_eq!(domain(1), domain(2));
    assert_eq!(domain(1), domain(3));
    assert_ne!(domain(1), domain(9));
    assert_eq!(bench.gate.supply.domains.len(), 2);
}

/// Those who wait keep their order and their place when the sets of backends change.
#[test]
fn c07_a_new_shape_keeps_everyones_place() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = bench.start("a");
    let a: Vec<_> = (0..3).map(|_| bench.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..3).map(|_| bench.queue("b", Band::Normal)).collect();
    let high = bench.queue("b", Band::High);
    bench.supply(&[backend(0, &[1, 2]), backend(7, &[2])]);
    assert_eq!(bench.granted(), [], "model 1 still has one backend, and it is full");
    let order = bench.run_dry(vec![running]);
    assert_eq!(order[0], high);
    let position = |ticket| order.iter().position(|&other| other == ticket).unwrap();
    assert!(a.windows(2).all(|pair| position(pair[0]) < position(pair[1])));
    assert!(b.windows(2).all(|pair| position(pair[0]) < position(pair[1])));
    assert!(position(a[1]) < position(b[2]) && position(b[1]) < position(a[2]), "turn about");
}

/// A backend that is gone: its asks still end, and its number can come back.
#[test]
fn c07_a_backend_may_vanish_with_asks_in_flight() {
    let mut bench = Bench::new(limited_to(1.0), 2);
    let tickets = [bench.start("a"), bench.start("a")];
    bench.supply(&[backend(1, &[MODEL.0])]);
    assert_eq!(bench.gate.backends().count(), 2, "what it holds still counts");
    let gone = tickets.into_iter().find(|&t| bench.gate.backend_of(t) == Some(BackendId(0)));
    bench.settle(gone.unwrap(), 1);
    bench.supply(&[backend(1, &[MODEL.0]), backend(2, &[MODEL.0])]);
    assert_eq!(bench.gate.backends().count(), 2, "forgotten at the next change");
    bench.supply(&[backend(0, &[MODEL.0]), backend(1, &[MODEL.0])]);
    assert!(matches!(
        bench.send("a", Band::Normal),
        Verdict::Granted { backend: BackendId(0), .. }
    ));
}

/// A fleet whose backends come and go under fresh numbers does not grow anything.
#[test]
fn c07_churning_backends_are_forgotten() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    for generation in 1..500 {
        bench.supply(&[backend(generation, &[MODEL.0]), backend(generation + 1, &[MODEL.0])]);
        let ticket = bench.start("a");
        bench.settle(ticket, 1);
    }
    assert!(bench.gate.backends().count() <= 3);
}

/// Asks for a model that nobody lists any more wait for its return.
#[test]
fn c07_a_model_may_vanish_and_return() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[1, 2])]);
    bench.start("a");
    let ask = bench.ask("a");
    let Verdict::Queued { ticket } = bench.offer(Ask { model: ModelId(2), ..ask }) else {
        panic!("full")
    };
    bench.supply(&[backend(0, &[1])]);
    let late = bench.offer(Ask { model: ModelId(2), ..ask });
    assert!(matches!(late, Verdict::Refused { reason: crate::Refusal::UnknownModel, .. }));
    bench.supply(&[backend(0, &[1]), backend(5, &[2])]);
    assert_eq!(bench.granted(), [ticket]);
}

/// X06: new weights apply to those who already wait; shrunk limits evict nobody.
#[test]
fn x06_settings_change_without_dropping_anyone() {
    let mut bench = Bench::new(limited_to(1.0), 1);
    let mut running = bench.start("x");
    let heavy: Vec<_> = (0..40).map(|_| bench.queue("heavy", Band::Normal)).collect();
    bench.fill("light", Band::Normal, 40);
    let mut settings = Settings { total_capacity: 10, ..limited_to(1.0) };
    settings.classes =
        vec![crate::FlowClass { weight: Weight::new(3.0).unwrap(), ..crate::FlowClass::default() }];
    bench.gate.configure(settings, bench.now);
    bench.collect();
    assert_eq!(bench.gate.depth(), 80);
    bench.gate.flow("heavy", 1);
    let mut count = 0;
    for _ in 0..40 {
        bench.settle(running, 1);
        running = bench.granted()[0];
        count += usize::from(heavy.contains(&running));
    }
    assert!((29..=31).contains(&count), "three in four: {count}");
}

/// Ready or not is a flag: it moves nobody.
#[test]
fn c07_readiness_changes_without_a_rebuild() {
    let mut bench = Bench::new(limited_to(1.0), 2);
    bench.start("a");
    bench.start("a");
    let waiting = bench.queue("a", Band::Normal);
    let pools = bench.gate.supply.pools.len();
    let down = |id| BackendSupply { ready: false, ..backend(id, &[MODEL.0]) };
    bench.supply(&[down(0), down(1)]);
    bench.supply(&[down(0), backend(1, &[MODEL.0])]);
    assert_eq!(bench.granted(), [], "its one slot is taken");
    assert_eq!(bench.gate.supply.pools.len(), pools);
    assert!(bench.gate.backend_of(waiting).is_none());
}

/// An ask is not held back by others that wait for a fuller part of the domain.
#[test]
fn c07_a_newcomer_goes_where_those_who_wait_cannot() {
    let settings = Settings {
        bounds: crate::Hysteresis::between(1.0, 2.0, 3.0).unwrap().into(),
        ..Settings::default()
    };
    let mut bench = Bench::with(settings, &[backend(0, &[1, 3]), backend(1, &[2, 3])]);
    let ask = bench.ask("a");
    let on = |model| Ask { model: ModelId(model), ..ask };
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let Verdict::Granted { ticket, .. } = bench.offer(on(1)) else { panic!("room") };
        tickets.push(ticket);
    }
    let Verdict::Queued { .. } = bench.offer(on(1)) else { panic!("full") };
    bench.settle(tickets[0], 1);
    // Model 1 has room below the upper bound but not below the lower one: it waits on.
    let Verdict::Queued { ticket } = bench.offer(on(2)) else { panic!("others wait") };
    assert_eq!(bench.granted(), [ticket], "an idle backend takes it all the same");
}

/// A re-queued ask whose model has moved to another domain goes there at once.
#[test]
fn c07_a_requeued_ask_follows_its_model() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = bench.start("a");
    bench.supply(&[backend(0, &[2]), backend(1, &[1])]);
    bench.gate.requeue(running, crate::RequeuePosition::Original, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted(), [running]);
    assert_eq!(bench.gate.backend_of(running), Some(BackendId(1)));
}

/// Pools that share a backend share it fairly, also after one of them was served past the queue.
#[test]
fn c07_a_bypass_is_not_held_against_a_pool_for_ever() {
    let settings = Settings {
        total_capacity: 10_000,
        default_class: crate::FlowClass { capacity: 5000, ..crate::FlowClass::default() },
        ..limited_to(1.0)
    };
    let mut bench = Bench::with(settings, &[backend(1, &[1, 2]), backend(2, &[2])]);
    let on = |bench: &mut Bench, flow: &str, model, cost| {
        let ask = Ask { model: ModelId(model), cost, ..bench.ask(flow) };
        bench.offer(ask)
    };
    let Verdict::Granted { ticket: mut running, .. } = on(&mut bench, "a", 1, 1) else { panic!() };
    on(&mut bench, "a", 1, 1);
    let past_the_queue = on(&mut bench, "b", 2, 200);
    assert!(matches!(past_the_queue, Verdict::Granted { .. }));
    let down = BackendSupply { ready: false, ..backend(2, &[2]) };
    bench.supply(&[backend(1, &[1, 2]), down]);
    let mut mine = std::collections::BTreeSet::new();
    for _ in 0..600 {
        on(&mut bench, "a", 1, 1);
        let Verdict::Queued { ticket } = on(&mut bench, "b", 2, 1) else { panic!("full") };
        mine.insert(ticket);
    }
    let mut served = 0;
    for _ in 0..1000 {
        bench.settle(running, 1);
        running = bench.granted()[0];
        served += usize::from(mine.contains(&running));
    }
    assert!((395..=405).contains(&served), "what it cost is charged, once: {served} of 1000");
}

/// N05: a detour on which nobody is ready is no detour.
#[test]
fn n05_a_requeued_ask_does_not_wait_for_a_dead_backend() {
    let down = BackendSupply { ready: false, ..backend(1, &[MODEL.0]) };
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[MODEL.0]), down]);
    let running = bench.start("a");
    bench.gate.requeue(running, crate::RequeuePosition::Original, bench.now).unwrap();
    bench.collect();
    assert_eq!(bench.granted(), [running]);
}

/// A flow that has had more than its share still owes it when sets of backends change.
#[test]
fn c07_a_new_shape_keeps_leads() {
    let mut bench = Bench::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = bench.start("x");
    let large = Ask { cost: 10, ..bench.ask("ahead") };
    let Verdict::Queued { ticket: large } = bench.offer(large) else { panic!("full") };
    bench.fill("ahead", Band::Normal, 5);
    let behind: Vec<_> = (0..20).map(|_| bench.queue("behind", Band::Normal)).collect();
    bench.settle(running, 1);
    let mut running = bench.granted()[0];
    while running != large {
        bench.settle(running, 1);
        running = bench.granted()[0];
    }
    bench.supply(&[backend(0, &[1, 2]), backend(5, &[2])]);
    for _ in 0..5 {
        bench.settle(running, if running == large { 10 } else { 1 });
        running = bench.granted()[0];
        assert!(behind.contains(&running), "the flow that is ahead waits its ten");
    }
}

/// C07: where a narrow pool is overfull, an idle backend still takes what it can serve.
#[test]
fn c07_an_idle_backend_is_never_kept_idle() {
    let pinned: Vec<_> = (0..3).map(|id| backend(id, &[id, 9])).collect();
    let mut listed = pinned.clone();
    listed.push(backend(3, &[9]));
    let mut bench = Bench::with(watermark_of_two(), &listed);
    let ask = bench.ask("a");
    for _ in 0..3 {
        for model in 0..3 {
            bench.offer(Ask { model: ModelId(model), ..ask });
        }
    }
    let anywhere = bench.offer(Ask { model: ModelId(9), ..ask });
    assert!(matches!(anywhere, Verdict::Granted { backend: BackendId(3), .. }), "{anywhere:?}");
}
