//! Q10, Q02: no run is long enough to overflow a tag.

use super::fixture::{Fixture, MODEL, limited_to};
use crate::queue::virtual_clock::{HORIZON, VirtualClock};
use crate::{Ask, Band, COST_MAX, FlowClass, Settings, Span, Verdict, Weight, invariant};

/// One charge is at most `(2^28 − 1) × 2^24/0.01 < 2^59`, a tag at most a horizon of 2^61 from
/// virtual time, and virtual time is set back to 2^61 from 3·2^61 on. The largest value that
/// can ever be formed is then below 2^64, for any number of grants.
#[test]
fn q10_the_largest_tag_fits_into_64_bits() {
    let lightest = Weight::new(0.01).unwrap();
    let charge = lightest.stretch(COST_MAX as u32);
    assert!(charge < 1 << 59);
    // Just below the point of rebasing, a tag at the horizon is granted the largest charge.
    let virtual_time: u64 = 3 * HORIZON - 1;
    let tag = virtual_time.checked_add(HORIZON).and_then(|tag| tag.checked_add(charge));
    assert!(tag.is_some());
}

/// 2^40 grants of the largest charge, in steps that jump straight to the next rebase: the clock
/// stays in range, and the difference of two tags never changes.
#[test]
fn q10_rebasing_never_changes_a_difference() {
    let weight = Weight::new(0.01).unwrap();
    let mut clock = VirtualClock::default();
    let (mut ahead, mut behind) = (clock.now(), clock.now());
    ahead = clock.join(ahead, weight, 1);
    behind = clock.join(behind, weight, 1);
    let mut rebased = 0;
    for _ in 0..10_000 {
        ahead = clock.serve(ahead, weight, COST_MAX as u32);
        behind = clock.serve(behind, weight, COST_MAX as u32);
        if clock.has_run_far() {
            let shift = clock.rebase();
            let gap = ahead - behind;
            ahead -= shift;
            behind -= shift;
            assert_eq!(ahead - behind, gap);
            rebased += 1;
        }
        assert!(clock.now() < 4 * HORIZON && ahead < 5 * HORIZON);
        assert!(ahead.abs_diff(behind) <= weight.stretch(COST_MAX as u32));
    }
    assert!(rebased > 100, "{rebased}: the test crossed the edge often");
}

/// The whole controller across many rebases: shares stay exact and every invariant holds.
#[test]
fn q10_shares_stay_exact_across_rebases() {
    let class = |weight| FlowClass {
        weight: Weight::new(weight).unwrap(),
        capacity: 1000,
        ttl: Span::from_secs(1_000_000),
        ..FlowClass::default()
    };
    let settings = Settings {
        default_class: class(0.01),
        classes: vec![class(0.02), class(0.04)],
        ..limited_to(1.0)
    };
    let mut fixture = Fixture::new(settings, 1);
    let mut owner = std::collections::BTreeMap::new();
    let mut running = fixture.start("first");
    let mut served = [0i64; 3];
    let send = |fixture: &mut Fixture, flow: usize| {
        let id = fixture.gate.flow(["a", "b", "c"][flow], flow as u32);
        let ask = Ask { cost: u64::MAX, ..Ask::new(id, MODEL) };
        let Verdict::Queued { ticket } = fixture.gate.offer(ask, fixture.now) else {
            panic!("full")
        };
        ticket
    };
    for flow in [0, 1, 2, 0, 1, 2] {
        owner.insert(send(&mut fixture, flow), flow);
    }
    for step in 0..70_000 {
        fixture.gate.settle(running, crate::Usage::Unknown, fixture.now).unwrap();
        let Some(crate::Event::Granted { ticket, .. }) = fixture.gate.poll_event() else {
            panic!()
        };
        running = ticket;
        let flow = owner[&running];
        served[flow] += 1;
        owner.insert(send(&mut fixture, flow), flow);
        if step % 997 == 0 {
            invariant::check(&fixture.gate).unwrap();
        }
    }
    for (count, share) in served.into_iter().zip([10_000, 20_000, 40_000]) {
        assert!((count - share).abs() <= 4, "{served:?}");
    }
}

/// Absurd refunds and debts are cut at the horizon instead of overflowing.
#[test]
fn q10_absurd_corrections_are_cut_at_the_horizon() {
    let settings = Settings {
        default_class: FlowClass { weight: Weight::new(0.01).unwrap(), ..FlowClass::default() },
        ..limited_to(200.0)
    };
    let mut fixture = Fixture::new(settings, 1);
    let huge = Ask { cost: u64::MAX, ..fixture.ask("a") };
    let mut tickets = Vec::new();
    for _ in 0..200 {
        let Verdict::Granted { ticket, .. } = fixture.offer(huge) else { panic!("room") };
        tickets.push(ticket);
    }
    for _ in 0..50 {
        fixture.offer(huge);
    }
    for (at, ticket) in tickets.into_iter().enumerate() {
        fixture.settle(ticket, if at % 3 == 0 { u64::MAX } else { 0 });
    }
}

/// The idle rule moves virtual time by up to a horizon without any grant; it is set back as well.
#[test]
fn q10_idle_fair_queues_are_rebased_as_well() {
    let settings = Settings {
        default_class: FlowClass { weight: Weight::new(0.01).unwrap(), ..FlowClass::default() },
        ..limited_to(100.0)
    };
    let mut fixture = Fixture::new(settings, 1);
    let tickets: Vec<_> = (0..100).map(|_| fixture.start("a")).collect();
    let down = crate::BackendSupply { ready: false, ..super::fixture::backend(0, &[MODEL.0]) };
    fixture.supply(&[down]);
    for tickets in tickets.chunks(6) {
        tickets.iter().for_each(|&ticket| fixture.settle(ticket, u64::MAX));
        let ask = fixture.ask("a");
        let Verdict::Queued { ticket } = fixture.offer(ask) else { panic!("nothing is ready") };
        fixture.gate.cancel(ticket, fixture.now).unwrap();
        fixture.collect();
    }
}

/// A refund after a rebase can bring the tag of an idle flow down to the least one. The flow is
/// known still: it returns at virtual time, before a new flow.
#[test]
fn q02_a_refund_makes_no_flow_new() {
    let lightest = FlowClass { weight: Weight::new(0.01).unwrap(), ..FlowClass::default() };
    let mut fixture = Fixture::new(Settings { default_class: lightest, ..limited_to(2.0) }, 1);
    let start = |fixture: &mut Fixture, flow: &str| {
        let huge = Ask { cost: u64::MAX, ..fixture.ask(flow) };
        let Verdict::Granted { ticket, .. } = fixture.offer(huge) else { panic!("room") };
        ticket
    };
    let now = |fixture: &Fixture| fixture.gate.fair_queues[0][Band::Normal.index()].clock.now();
    let early = start(&mut fixture, "known");
    let mut other = start(&mut fixture, "other");
    let mut grants = 0;
    while now(&fixture) != HORIZON {
        fixture.settle(other, u64::MAX);
        other = start(&mut fixture, "other");
        grants += 1;
        assert!(grants < 100, "virtual time is set back");
    }
    fixture.settle(early, 0);
    let last = fixture.start("other");
    let new = fixture.queue("new", Band::Normal);
    let known = fixture.queue("known", Band::Normal);
    assert_eq!(fixture.run_dry(vec![last, other]), [known, new]);
}
