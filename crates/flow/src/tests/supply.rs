//! C07, X06 as far as they are pure: backends and settings that change under load.

use super::fixture::{Fixture, MODEL, backend, limited_to, watermark_of_two};
use crate::{
    Ask, BackendId, BackendSupply, Band, Misuse, ModelId, RequeuePosition, Settings, Span, Verdict,
    Weight,
};

/// Models with the same backends share a pool; pools that share a backend share a domain.
#[test]
fn c07_domains_are_backends_that_share_models() {
    let listed = [backend(0, &[1, 2]), backend(1, &[2, 3]), backend(2, &[3]), backend(3, &[9])];
    let fixture = Fixture::with(limited_to(1.0), &listed);
    let domain = |model| {
        let pool = fixture.gate.supply.pool_of(ModelId(model)).unwrap();
        fixture.gate.supply.pools[pool as usize].domain
    };
    assert_eq!(domain(1), domain(2));
    assert_eq!(domain(1), domain(3));
    assert_ne!(domain(1), domain(9));
    assert_eq!(fixture.gate.supply.domains.len(), 2);
}

/// Waiting asks keep their order and their place when the sets of backends change.
#[test]
fn c07_new_sets_of_backends_keep_every_place() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = fixture.start("a");
    let a: Vec<_> = (0..3).map(|_| fixture.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..3).map(|_| fixture.queue("b", Band::Normal)).collect();
    let high = fixture.queue("b", Band::High);
    fixture.supply(&[backend(0, &[1, 2]), backend(7, &[2])]);
    assert_eq!(fixture.granted(), [], "model 1 still has one backend, and it is full");
    let order = fixture.run_dry(vec![running]);
    assert_eq!(order[0], high);
    let position = |ticket| order.iter().position(|&other| other == ticket).unwrap();
    assert!(a.windows(2).all(|pair| position(pair[0]) < position(pair[1])));
    assert!(b.windows(2).all(|pair| position(pair[0]) < position(pair[1])));
    assert!(position(a[1]) < position(b[2]) && position(b[1]) < position(a[2]), "turn about");
}

/// A backend that is removed: its asks still end, and its number can be used again.
#[test]
fn c07_a_backend_may_vanish_with_asks_in_flight() {
    let mut fixture = Fixture::new(limited_to(1.0), 2);
    let tickets = [fixture.start("a"), fixture.start("a")];
    fixture.supply(&[backend(1, &[MODEL.0])]);
    assert_eq!(fixture.gate.backends().count(), 2, "what it holds still counts");
    let gone = tickets.into_iter().find(|&t| fixture.gate.backend_of(t) == Some(BackendId(0)));
    fixture.settle(gone.unwrap(), 1);
    fixture.supply(&[backend(1, &[MODEL.0]), backend(2, &[MODEL.0])]);
    assert_eq!(fixture.gate.backends().count(), 2, "forgotten at the next change");
    fixture.supply(&[backend(0, &[MODEL.0]), backend(1, &[MODEL.0])]);
    assert!(matches!(
        fixture.send("a", Band::Normal),
        Verdict::Granted { backend: BackendId(0), .. }
    ));
}

/// A fleet whose backends come and go under fresh numbers does not grow anything.
#[test]
fn c07_churning_backends_are_forgotten() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    for generation in 1..500 {
        fixture.supply(&[backend(generation, &[MODEL.0]), backend(generation + 1, &[MODEL.0])]);
        let ticket = fixture.start("a");
        fixture.settle(ticket, 1);
    }
    assert!(fixture.gate.backends().count() <= 3);
}

/// Asks for a model that no backend lists any more wait for its return.
#[test]
fn c07_a_model_may_vanish_and_return() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1, 2])]);
    fixture.start("a");
    let ask = fixture.ask("a");
    let Verdict::Queued { ticket } = fixture.offer(Ask { model: ModelId(2), ..ask }) else {
        panic!("full")
    };
    fixture.supply(&[backend(0, &[1])]);
    let late = fixture.offer(Ask { model: ModelId(2), ..ask });
    assert!(matches!(late, Verdict::Refused { reason: crate::Refusal::UnknownModel, .. }));
    fixture.supply(&[backend(0, &[1]), backend(5, &[2])]);
    assert_eq!(fixture.granted(), [ticket]);
}

/// Asks for an expected model wait for its first backend.
#[test]
fn o06_an_expected_model_needs_no_backend() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1])]);
    let ask = Ask { model: ModelId(2), ..fixture.ask("a") };
    let refused =
        |verdict| matches!(verdict, Verdict::Refused { reason: crate::Refusal::UnknownModel, .. });
    assert!(refused(fixture.offer(ask)));
    let now = fixture.now;
    fixture.gate.expect_models([ModelId(2), ModelId(u32::MAX)].into_iter(), now);
    let Verdict::Queued { ticket } = fixture.offer(ask) else { panic!("no backend yet") };
    assert!(refused(fixture.offer(Ask { model: ModelId(3), ..ask })));
    assert!(refused(fixture.offer(Ask { model: ModelId(u32::MAX), ..ask })));
    fixture.supply(&[backend(0, &[1]), backend(5, &[2])]);
    assert_eq!(fixture.granted(), [ticket]);
    fixture.settle(ticket, 1);
    fixture.supply(&[backend(0, &[1])]);
    assert!(matches!(fixture.offer(ask), Verdict::Queued { .. }), "it is still expected");
}

/// X06: new weights apply to asks that already wait; lowered limits evict no ask.
#[test]
fn x06_settings_change_without_dropping_an_ask() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let mut running = fixture.start("x");
    let heavy: Vec<_> = (0..40).map(|_| fixture.queue("heavy", Band::Normal)).collect();
    fixture.fill("light", Band::Normal, 40);
    let mut settings = Settings { total_capacity: 10, ..limited_to(1.0) };
    settings.classes =
        vec![crate::FlowClass { weight: Weight::new(3.0).unwrap(), ..crate::FlowClass::default() }];
    fixture.gate.configure(settings, fixture.now);
    fixture.collect();
    assert_eq!(fixture.gate.depth(), 80);
    fixture.gate.flow("heavy", 1);
    let mut count = 0;
    for _ in 0..40 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        count += usize::from(heavy.contains(&running));
    }
    assert!((29..=31).contains(&count), "three in four: {count}");
}

/// Readiness is a flag: a change of it moves no ask.
#[test]
fn c07_readiness_changes_without_a_rebuild() {
    let mut fixture = Fixture::new(limited_to(1.0), 2);
    fixture.start("a");
    fixture.start("a");
    let waiting = fixture.queue("a", Band::Normal);
    let pools = fixture.gate.supply.pools.len();
    let down = |id| BackendSupply { ready: false, ..backend(id, &[MODEL.0]) };
    fixture.supply(&[down(0), down(1)]);
    fixture.supply(&[down(0), backend(1, &[MODEL.0])]);
    assert_eq!(fixture.granted(), [], "its one slot is taken");
    assert_eq!(fixture.gate.supply.pools.len(), pools);
    assert!(fixture.gate.backend_of(waiting).is_none());
}

/// An ask is not held back by asks that wait for a fuller part of the domain.
#[test]
fn c07_a_new_ask_goes_where_waiting_asks_cannot() {
    let settings = Settings {
        bounds: crate::Hysteresis::between(1.0, 2.0, 3.0).unwrap().into(),
        ..Settings::default()
    };
    let mut fixture = Fixture::with(settings, &[backend(0, &[1, 3]), backend(1, &[2, 3])]);
    let ask = fixture.ask("a");
    let on = |model| Ask { model: ModelId(model), ..ask };
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let Verdict::Granted { ticket, .. } = fixture.offer(on(1)) else { panic!("room") };
        tickets.push(ticket);
    }
    let Verdict::Queued { .. } = fixture.offer(on(1)) else { panic!("full") };
    fixture.settle(tickets[0], 1);
    // Model 1 has room below the upper bound but not below the lower one: it waits on.
    let Verdict::Queued { ticket } = fixture.offer(on(2)) else { panic!("others wait") };
    assert_eq!(fixture.granted(), [ticket], "an idle backend takes it all the same");
}

/// A re-queued ask whose model has moved to another domain goes there at once.
#[test]
fn c07_a_requeued_ask_follows_its_model() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = fixture.start("a");
    fixture.supply(&[backend(0, &[2]), backend(1, &[1])]);
    fixture.gate.requeue(running, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [running]);
    assert_eq!(fixture.gate.backend_of(running), Some(BackendId(1)));
}

/// Pools that share a backend share it fairly, also after an ask of one of them bypassed the queue.
#[test]
fn c07_a_bypass_is_not_held_against_a_pool_for_ever() {
    let settings = Settings {
        total_capacity: 10_000,
        default_class: crate::FlowClass { capacity: 5000, ..crate::FlowClass::default() },
        ..limited_to(1.0)
    };
    let mut fixture = Fixture::with(settings, &[backend(1, &[1, 2]), backend(2, &[2])]);
    let on = |fixture: &mut Fixture, flow: &str, model, cost| {
        let ask = Ask { model: ModelId(model), cost, ..fixture.ask(flow) };
        fixture.offer(ask)
    };
    let Verdict::Granted { ticket: mut running, .. } = on(&mut fixture, "a", 1, 1) else {
        panic!()
    };
    on(&mut fixture, "a", 1, 1);
    let past_the_queue = on(&mut fixture, "b", 2, 200);
    assert!(matches!(past_the_queue, Verdict::Granted { .. }));
    let down = BackendSupply { ready: false, ..backend(2, &[2]) };
    fixture.supply(&[backend(1, &[1, 2]), down]);
    let mut mine = std::collections::BTreeSet::new();
    for _ in 0..600 {
        on(&mut fixture, "a", 1, 1);
        let Verdict::Queued { ticket } = on(&mut fixture, "b", 2, 1) else { panic!("full") };
        mine.insert(ticket);
    }
    let mut served = 0;
    for _ in 0..1000 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served += usize::from(mine.contains(&running));
    }
    assert!((395..=405).contains(&served), "what it cost is charged, once: {served} of 1000");
}

/// N05: a detour without a ready backend is not used.
#[test]
fn n05_a_requeued_ask_does_not_wait_for_a_dead_backend() {
    let down = BackendSupply { ready: false, ..backend(1, &[MODEL.0]) };
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[MODEL.0]), down]);
    let running = fixture.start("a");
    fixture.gate.requeue(running, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [running]);
}

/// N05: an ask that avoids a backend returns to it when the other backend is no longer ready, and
/// goes to the one that becomes ready first.
#[test]
fn n05_an_ask_that_avoids_a_backend_returns_when_the_others_are_gone() {
    let down = |id| BackendSupply { ready: false, ..backend(id, &[MODEL.0]) };
    let up = |id| backend(id, &[MODEL.0]);
    let mut fixture = Fixture::with(limited_to(1.0), &[up(0), down(1)]);
    let failed = fixture.start("a");
    fixture.supply(&[up(0), up(1)]);
    let other = fixture.start("a");
    fixture.gate.requeue(failed, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [], "the other backend is full, and this one is avoided");
    fixture.supply(&[BackendSupply { handicap: 1.0, ..up(0) }, up(1)]);
    assert_eq!(fixture.granted(), [], "the other backend is still ready");
    fixture.supply(&[down(0), down(1)]);
    fixture.supply(&[up(0), down(1)]);
    assert_eq!(fixture.granted(), [failed], "the first to be ready takes it");
    // The other ask has failed at both in turn; the one that failed it first may have recovered.
    fixture.settle(failed, 1);
    fixture.gate.requeue(other, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.gate.backend_of(other), Some(BackendId(0)));
    fixture.supply(&[up(0), up(1)]);
    fixture.gate.requeue(other, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.gate.backend_of(other), Some(BackendId(1)));
    fixture.gate.requeue(other, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.gate.backend_of(other), Some(BackendId(0)), "only the last is avoided");
}

/// N05: of several backends it goes to one that has not failed it, also if those that have are free
/// and that one is full.
#[test]
fn n05_an_ask_that_fails_in_several_places_goes_to_the_next_one() {
    let mut fixture = Fixture::with(limited_to(1.0), &[0, 1, 2].map(|id| backend(id, &[MODEL.0])));
    let asks = [(); 3].map(|()| fixture.start("a"));
    let failing = asks[0];
    let mut met = vec![fixture.gate.backend_of(failing)];
    for free in [asks[1], asks[2]] {
        fixture.gate.requeue(failing, RequeuePosition::Back, fixture.now).unwrap();
        fixture.collect();
        assert_eq!(fixture.granted(), [], "where it failed there is room, elsewhere there is none");
        fixture.settle(free, 1);
        assert_eq!(fixture.granted(), [failing]);
        met.push(fixture.gate.backend_of(failing));
    }
    met.sort();
    met.dedup();
    assert_eq!(met.len(), 3, "{met:?}");
    fixture.gate.requeue(failing, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [failing], "it has failed everywhere");
}

/// N05: a full backend is closed by its pause alone, so its ask may return to it.
#[test]
fn n05_an_ask_at_its_old_place_avoids_no_backend() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[MODEL.0])]);
    let refused = fixture.start("a");
    fixture.supply(&[backend(0, &[MODEL.0]), backend(1, &[MODEL.0])]);
    fixture.start("a");
    fixture.gate.requeue(refused, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [refused], "the other backend is full");
}

/// N05: an ask that was set aside, or that avoids a backend, uses all backends when it is widened.
#[test]
fn n05_an_ask_that_is_set_aside_waits_until_it_is_widened() {
    let up = |id| backend(id, &[MODEL.0]);
    let mut fixture = Fixture::with(limited_to(1.0), &[up(0), up(1)]);
    let (aside, avoiding) = (fixture.start("a"), fixture.start("a"));
    fixture.gate.requeue(avoiding, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [], "the backend that failed it is avoided");
    fixture.gate.set_aside(aside, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [avoiding], "the place is free for others");
    fixture.supply(&[BackendSupply { handicap: 1.0, ..up(0) }, up(1)]);
    assert_eq!(fixture.granted(), [], "no report of the backends ends the wait");
    fixture.gate.widen(aside, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [aside]);
    fixture.gate.requeue(aside, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), []);
    fixture.gate.widen(aside, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [aside], "the backend that failed it is used again");
    fixture.gate.widen(aside, fixture.now).unwrap();
}

/// N05: an ask that waits may step aside, and then returns to its place.
#[test]
fn n05_an_ask_that_steps_aside_keeps_its_place() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[MODEL.0])]);
    let running = fixture.start("a");
    let [first, second, third] = [(); 3].map(|()| fixture.queue("a", Band::Normal));
    fixture.gate.step_aside(first, fixture.now).unwrap();
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [second], "others go meanwhile");
    fixture.gate.widen(first, fixture.now).unwrap();
    fixture.settle(second, 1);
    assert_eq!(fixture.granted(), [first]);
    fixture.gate.step_aside(first, fixture.now).unwrap();
    fixture.settle(first, 1);
    assert_eq!(fixture.granted(), [third], "an ask at a backend stays there");
}

/// N05: the deadline of an ask holds while it is set aside.
#[test]
fn n05_an_ask_that_is_set_aside_ends_at_its_deadline() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[MODEL.0])]);
    let aside = fixture.start("a");
    fixture.gate.set_aside(aside, RequeuePosition::Back, fixture.now).unwrap();
    fixture.pass(Span::from_secs(29));
    assert!(fixture.gate.asks.find(aside).is_some(), "the time to live is 30 s");
    fixture.pass(Span::from_secs(2));
    assert!(fixture.gate.asks.find(aside).is_none());
    assert_eq!(fixture.gate.widen(aside, fixture.now), Err(Misuse::UnknownTicket));
}

/// N05: a flow pays for the trials that its asks fail, so other flows get trials as well.
#[test]
fn n05_a_failed_trial_keeps_its_charge() {
    let trial = BackendSupply { on_trial: true, ..backend(0, &[MODEL.0]) };
    let down = BackendSupply { ready: false, ..backend(0, &[MODEL.0]) };
    let mut fixture = Fixture::with(limited_to(8.0), std::slice::from_ref(&trial));
    let blocker = fixture.start("x");
    (0..4).for_each(|_| _ = fixture.queue("bad", Band::Normal));
    let good: Vec<_> = (0..2).map(|_| fixture.queue("good", Band::Normal)).collect();
    fixture.settle(blocker, 1);
    let mut served = 0;
    for _ in 0..4 {
        let tried = fixture.granted()[0];
        if good.contains(&tried) {
            served += 1;
            fixture.settle(tried, 1);
            continue;
        }
        // The backend is reported before the ask returns.
        fixture.supply(std::slice::from_ref(&down));
        fixture.gate.requeue(tried, RequeuePosition::Back, fixture.now).unwrap();
        fixture.collect();
        fixture.supply(std::slice::from_ref(&trial));
    }
    assert_eq!(served, 2, "half of the trials");
}

/// R07: a backend on trial takes one ask at a time until it has passed.
#[test]
fn r07_a_backend_on_trial_takes_one_ask_at_a_time() {
    let listed = backend(0, &[MODEL.0]);
    let trial = BackendSupply { on_trial: true, ..listed.clone() };
    let mut fixture = Fixture::with(limited_to(8.0), std::slice::from_ref(&trial));
    let first = fixture.start("a");
    let waiting: Vec<_> = (0..4).map(|_| fixture.queue("a", Band::Normal)).collect();
    fixture.supply(std::slice::from_ref(&trial));
    assert_eq!(fixture.granted(), [], "the trial goes on");
    fixture.gate.cancel(first, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(fixture.granted(), [waiting[0]], "a trial that ended makes room for the next");
    let paused = BackendSupply { paused: true, ..trial.clone() };
    fixture.supply(&[paused]);
    fixture.settle(waiting[0], 1);
    assert_eq!(fixture.granted(), [], "a pause holds on trial as well");
    fixture.supply(&[trial]);
    assert_eq!(fixture.granted(), [waiting[1]]);
    fixture.supply(&[listed]);
    assert_eq!(fixture.granted(), waiting[2..], "it has passed");
}

/// A flow that got more than its share keeps that lead when sets of backends change.
#[test]
fn c07_new_sets_of_backends_keep_leads() {
    let mut fixture = Fixture::with(limited_to(1.0), &[backend(0, &[1])]);
    let running = fixture.start("x");
    let large = Ask { cost: 10, ..fixture.ask("ahead") };
    let Verdict::Queued { ticket: large } = fixture.offer(large) else { panic!("full") };
    fixture.fill("ahead", Band::Normal, 5);
    let behind: Vec<_> = (0..20).map(|_| fixture.queue("behind", Band::Normal)).collect();
    fixture.settle(running, 1);
    let mut running = fixture.granted()[0];
    while running != large {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    fixture.supply(&[backend(0, &[1, 2]), backend(5, &[2])]);
    for _ in 0..5 {
        fixture.settle(running, if running == large { 10 } else { 1 });
        running = fixture.granted()[0];
        assert!(behind.contains(&running), "the flow that is ahead waits its ten");
    }
}

/// C07: while a small pool is overfull, an idle backend still takes the asks that it can serve.
#[test]
fn c07_an_idle_backend_is_never_kept_idle() {
    let pinned: Vec<_> = (0..3).map(|id| backend(id, &[id, 9])).collect();
    let mut listed = pinned.clone();
    listed.push(backend(3, &[9]));
    let mut fixture = Fixture::with(watermark_of_two(), &listed);
    let ask = fixture.ask("a");
    for _ in 0..3 {
        for model in 0..3 {
            fixture.offer(Ask { model: ModelId(model), ..ask });
        }
    }
    let anywhere = fixture.offer(Ask { model: ModelId(9), ..ask });
    assert!(matches!(anywhere, Verdict::Granted { backend: BackendId(3), .. }), "{anywhere:?}");
}
