//! O03: fresh asks go before late ones, a line that stands is refused at the door, and no ask is
//! granted just before its client leaves.

use super::fixture::{Fixture, MODEL, limited_to};
use crate::{
    Ask, BANDS, Band, Event, Eviction, FlowClass, Order, Refusal, RequeuePosition, Settings, Span,
    Ticket, Time, Usage, Verdict,
};

/// One server, and an objective of two seconds in every band.
fn two_seconds() -> Settings {
    Settings {
        objectives: [Span::from_secs(2); BANDS],
        default_class: FlowClass { capacity: 10_000, ..FlowClass::default() },
        total_capacity: 10_000,
        ..limited_to(1.0)
    }
}

fn queue(fixture: &mut Fixture, ask: Ask) -> Ticket {
    match fixture.offer(ask) {
        Verdict::Queued { ticket } => ticket,
        other => panic!("expected to wait, got {other:?}"),
    }
}

/// An ask that can still make its objective goes before an older one that cannot.
#[test]
fn o03_fresh_asks_go_before_late_ones() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let running = fixture.start("flow");
    let late: Vec<_> = (0..3).map(|_| fixture.queue("flow", Band::Normal)).collect();
    fixture.pass(Span::from_millis(1600));
    let fresh: Vec<_> = (0..2).map(|_| fixture.queue("flow", Band::Normal)).collect();
    let served = fixture.run_dry(vec![running]);
    assert_eq!(served, [fresh, late].concat(), "each group in order of arrival");
}

/// Late asks keep the configured order among themselves.
#[test]
fn o03_late_asks_keep_the_configured_order() {
    let settings = Settings { order: Order::Deadline, ..two_seconds() };
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("flow");
    let lasting = |fixture: &mut Fixture, secs| {
        let ask = Ask { ttl: Some(Span::from_secs(secs)), ..fixture.ask("flow") };
        queue(fixture, ask)
    };
    let late: Vec<_> = [30, 10, 20].map(|secs| lasting(&mut fixture, secs)).to_vec();
    fixture.pass(Span::from_millis(1600));
    let fresh: Vec<_> = [300, 100].map(|secs| lasting(&mut fixture, secs)).to_vec();
    let served = fixture.run_dry(vec![running]);
    assert_eq!(served, [fresh[1], fresh[0], late[1], late[2], late[0]]);
}

/// The objective is that of the client, otherwise of the flow's class, otherwise of the band.
#[test]
fn o03_the_nearest_objective_counts() {
    let class = FlowClass { objective: Some(Span::from_secs(20)), ..FlowClass::default() };
    let mut settings = Settings { classes: vec![class], ..two_seconds() };
    settings.objectives[Band::High.index()] = Span::FOREVER;
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("flow");
    let mut fates = Vec::new();
    for (band, class, objective) in [
        (Band::Normal, 0, None),
        (Band::High, 0, None),
        (Band::Normal, 1, None),
        (Band::Normal, 1, Some(Span::from_secs(1))),
        (Band::Normal, 0, Some(Span::from_secs(20))),
    ] {
        let flow = fixture.gate.flow(&format!("{band:?} {class} {objective:?}"), class);
        let first = queue(&mut fixture, Ask { band, objective, ..Ask::new(flow, MODEL) });
        fates.push((flow, band, objective, first));
    }
    fixture.pass(Span::from_millis(1600));
    let later: Vec<_> = fates
        .iter()
        .map(|&(flow, band, objective, first)| {
            let ask = Ask { band, objective, ..Ask::new(flow, MODEL) };
            (first, queue(&mut fixture, ask))
        })
        .collect();
    let served = fixture.run_dry(vec![running]);
    let place = |ticket| served.iter().position(|&granted| granted == ticket).unwrap();
    let overtaken: Vec<bool> =
        later.iter().map(|&(first, second)| place(second) < place(first)).collect();
    assert_eq!(overtaken, [true, false, false, true, false]);
}

/// A deadline that is nearer than the objective counts, one that is farther does not: it says when
/// the client leaves, and not that it is content to be late.
#[test]
fn o03_a_deadline_only_shortens_the_objective() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let running = fixture.start("flow");
    let within = |fixture: &mut Fixture, millis| {
        let deadline = Some(fixture.now.after(Span::from_millis(millis)));
        let ask = Ask { deadline, ..fixture.ask("flow") };
        queue(fixture, ask)
    };
    let distant = within(&mut fixture, 20_000);
    let plain = fixture.queue("flow", Band::Normal);
    let near = within(&mut fixture, 1900);
    fixture.pass(Span::from_millis(1400));
    assert_eq!(fixture.run_dry(vec![running]), [near, distant, plain]);
    let running = fixture.start("flow");
    let distant = within(&mut fixture, 20_000);
    fixture.pass(Span::from_millis(1600));
    let plain = fixture.queue("flow", Band::Normal);
    assert_eq!(fixture.run_dry(vec![running]), [plain, distant], "it is late as any other");
}

fn wanted_in(fixture: &mut Fixture, millis: Option<u64>) -> Ticket {
    let ask = Ask { objective: millis.map(Span::from_millis), ..fixture.ask("flow") };
    queue(fixture, ask)
}

/// Asks that want their first token sooner go first while they are fresh, in a flow and in a
/// session. Late ones go in order of arrival, whatever they wanted.
#[test]
fn o03_fresh_asks_go_by_their_objectives() {
    for order in [Order::Fifo, Order::Session] {
        let mut fixture = Fixture::new(Settings { order, ..two_seconds() }, 1);
        let running = fixture.start("flow");
        let [lax, none, strict] =
            [Some(20_000), None, Some(1000)].map(|millis| wanted_in(&mut fixture, millis));
        assert_eq!(fixture.gate.wait_forecast(strict, fixture.now).unwrap().position, 1);
        assert_eq!(fixture.gate.wait_forecast(lax, fixture.now).unwrap().position, 3);
        assert_eq!(fixture.run_dry(vec![running]), [strict, none, lax], "{order:?}");
        let running = fixture.start("flow");
        let [lax, none, strict, young] =
            [Some(20_000), None, Some(1000), None].map(|millis| wanted_in(&mut fixture, millis));
        fixture.pass(Span::from_millis(1600));
        let fresh = wanted_in(&mut fixture, None);
        let served = fixture.run_dry(vec![running]);
        assert_eq!(served, [fresh, lax, none, strict, young], "{order:?}");
    }
}

/// With one objective the order is that of arrival, also while engines become slower, which makes
/// asks late sooner.
#[test]
fn o03_one_objective_keeps_the_order_of_arrival() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let mut running = fixture.start("flow");
    let mut sent = Vec::new();
    let mut served = Vec::new();
    for step in 0..40 {
        sent.push(fixture.queue("flow", Band::Normal));
        sent.push(fixture.queue("flow", Band::Normal));
        fixture.pass(Span::from_millis(if step < 20 { 1 } else { 60 }));
        fixture.gate.started(running, fixture.now).unwrap();
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served.push(running);
    }
    assert_eq!(served, sent[..40]);
}

/// Preemption takes the ask that arrived last, whatever it wants: a client does not keep its place
/// by a strict objective.
#[test]
fn o03_the_newest_ask_is_preempted_whatever_its_objective() {
    for wants in [[None, Some(20_000), Some(1000)], [Some(1000), None, Some(20_000)]] {
        let mut fixture = Fixture::new(Settings { total_capacity: 3, ..two_seconds() }, 1);
        let running = fixture.start("flow");
        let mut sent = wants.map(|millis| wanted_in(&mut fixture, millis)).to_vec();
        for _ in 0..3 {
            fixture.queue("critical", Band::Critical);
            let evicted = fixture.events.iter().filter_map(|event| match *event {
                Event::Evicted { ticket, .. } => Some(ticket),
                Event::Granted { .. } => None,
            });
            assert_eq!(evicted.collect::<Vec<_>>(), [sent.pop().unwrap()]);
            fixture.events.clear();
        }
        fixture.run_dry(vec![running]);
    }
}

/// A line that stands lets an ask in that goes before enough of those that wait.
#[test]
fn o03_asks_that_can_wait_keep_no_other_ask_out_of_a_line_that_stands() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    overload(&mut fixture, 120);
    let stands = fixture.send("flow", Band::Normal);
    assert!(matches!(stands, Verdict::Refused { reason: Refusal::WaitTooLong, .. }), "{stands:?}");
    (0..100).for_each(|_| _ = wanted_in(&mut fixture, Some(20_000)));
    let mut running = in_flight(&fixture);
    for _ in 0..12 {
        fixture.pass(Span::from_millis(100));
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    let strict = wanted_in(&mut fixture, None);
    assert!(fixture.gate.wait_forecast(strict, fixture.now).unwrap().position < 15);
}

fn in_flight(fixture: &Fixture) -> Ticket {
    let mut asks = fixture.gate.asks().filter(|ask| ask.stage == crate::Stage::InFlight);
    asks.next().expect("one place, one ask in flight").ticket
}

/// An ask that a backend gave back goes before stricter ones, and at the back of its flow behind
/// those that wait for the same time.
#[test]
fn o03_a_returned_ask_has_its_old_turn_or_the_last_one() {
    for (place, expected) in
        [(RequeuePosition::Original, [0, 2, 1, 3]), (RequeuePosition::Back, [2, 1, 0, 3])]
    {
        let mut fixture = Fixture::new(two_seconds(), 1);
        let running = fixture.start("flow");
        let [none, strict] = [None, Some(1000)].map(|millis| wanted_in(&mut fixture, millis));
        fixture.supply(&[down()]);
        fixture.gate.requeue(running, place, fixture.now).unwrap();
        let last = wanted_in(&mut fixture, None);
        fixture.supply(&[super::fixture::backend(0, &[MODEL.0])]);
        let mut served = fixture.granted();
        served.extend(fixture.run_dry(served.clone()));
        let asks = [running, none, strict, last];
        assert_eq!(served, expected.map(|at: usize| asks[at]), "{place:?}");
    }
}

fn down() -> crate::BackendSupply {
    crate::BackendSupply { ready: false, ..super::fixture::backend(0, &[MODEL.0]) }
}

/// An ask that a backend gave back had its turn: it is not late.
#[test]
fn o03_an_ask_that_returns_from_a_backend_is_fresh() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let running = fixture.start("flow");
    fixture.pass(Span::from_secs(5));
    fixture.supply(&[down()]);
    fixture.gate.requeue(running, RequeuePosition::Original, fixture.now).unwrap();
    fixture.queue("flow", Band::Normal);
    fixture.supply(&[super::fixture::backend(0, &[MODEL.0])]);
    assert_eq!(fixture.granted(), [running]);
}

/// Serves one ask each 100 ms for `secs` seconds while 15 asks a second arrive. Returns the waits
/// of the asks that were granted, and the refusals, both in the last 60 s.
fn overload(fixture: &mut Fixture, secs: u64) -> (Vec<f64>, usize) {
    let mut running = fixture.start("flow");
    fixture.fill("flow", Band::Normal, 2);
    let (mut waits, mut refused) = (Vec::new(), 0);
    for step in 0..secs * 10 {
        fixture.pass(Span::from_millis(100));
        fixture.settle(running, 1);
        for event in std::mem::take(&mut fixture.events) {
            if let Event::Granted { ticket, waited, .. } = event {
                running = ticket;
                waits.push((step, waited.secs_f64()));
            }
        }
        for _ in 0..1 + step % 2 {
            if let Verdict::Refused { reason, .. } = fixture.send("flow", Band::Normal) {
                assert_eq!(reason, Refusal::WaitTooLong);
                refused += usize::from(step + 600 >= secs * 10);
            }
        }
    }
    let last = waits.into_iter().filter(|&(step, _)| step + 600 >= secs * 10);
    (last.map(|(_, wait)| wait).collect(), refused)
}

/// In a lasting overload all that is served is served in time, and the rest is refused at once.
#[test]
fn o03_in_a_lasting_overload_what_cannot_be_in_time_is_refused_at_once() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let (waits, refused) = overload(&mut fixture, 180);
    let in_time = waits.iter().filter(|&&wait| wait <= 1.5).count();
    assert!(in_time * 100 >= waits.len() * 99, "{in_time} of {}", waits.len());
    assert!((240..=330).contains(&refused), "about a third of 900: {refused}");
    fixture.events.clear();
    fixture.pass(Span::from_secs(1));
    let evicted = fixture.events.iter().filter(|e| matches!(e, Event::Evicted { .. })).count();
    assert!(evicted <= 1, "hardly any ask waits in vain: {evicted}");
}

/// Without an objective the same overload lets every ask wait for its whole time to live.
#[test]
fn o03_without_an_objective_the_line_stands() {
    let settings = Settings { objectives: [Span::FOREVER; BANDS], ..two_seconds() };
    let mut fixture = Fixture::new(settings, 1);
    let (waits, refused) = overload(&mut fixture, 240);
    assert_eq!(refused, 0);
    assert!(waits.iter().all(|&wait| wait > 29.0));
}

/// Where the objective is out of reach, every ask is served in its order, and none is refused.
#[test]
fn o03_an_objective_out_of_reach_changes_nothing() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let mut running = fixture.start("flow");
    let mut sent: std::collections::VecDeque<_> =
        (0..2).map(|_| fixture.queue("flow", Band::Normal)).collect();
    for _ in 0..30 {
        fixture.pass(Span::from_secs(10));
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        assert_eq!(Some(running), sent.pop_front());
        sent.push_back(fixture.queue("flow", Band::Normal));
    }
}

/// The first tokens of a backend take a second: an ask of a client that leaves sooner is not
/// granted.
#[test]
fn o03_no_ask_is_granted_just_before_its_client_leaves() {
    for bounds in [crate::Bounds::Auto, two_seconds().bounds] {
        refuses_before_clients_leave(Settings { bounds, ..two_seconds() });
    }
}

fn refuses_before_clients_leave(settings: Settings) {
    let mut fixture = Fixture::new(settings, 1);
    for _ in 0..20 {
        let ticket = fixture.start("flow");
        fixture.pass(Span::from_secs(1));
        fixture.gate.started(ticket, fixture.now).unwrap();
        fixture.settle(ticket, 1);
    }
    let running: Vec<_> = std::iter::from_fn(|| match fixture.send("flow", Band::Normal) {
        Verdict::Granted { ticket, .. } => Some(ticket),
        _ => None,
    })
    .collect();
    let within = |fixture: &mut Fixture, millis| Ask {
        deadline: Some(fixture.now.after(Span::from_millis(millis))),
        ..fixture.ask("flow")
    };
    let hasty = within(&mut fixture, 900);
    let refused = fixture.offer(hasty);
    assert!(matches!(refused, Verdict::Refused { reason: Refusal::WaitTooLong, .. }));
    let leaving = within(&mut fixture, 3000);
    let leaving = queue(&mut fixture, leaving);
    fixture.pass(Span::from_millis(2100));
    let evicted = fixture.events.iter().any(|event| match *event {
        Event::Evicted { ticket, reason, .. } => {
            ticket == leaving && reason == Eviction::DeadlineExceeded
        }
        Event::Granted { .. } => false,
    });
    assert!(evicted, "{:?}", fixture.events);
    for ticket in running {
        fixture.gate.settle(ticket, Usage::Unknown, fixture.now).unwrap();
    }
}

/// The forecast of a waiting ask counts the fresh asks ahead of a late one.
#[test]
fn o03_positions_count_fresh_asks_first() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    fixture.start("flow");
    let late = fixture.queue("flow", Band::Normal);
    fixture.pass(Span::from_millis(1600));
    let fresh = fixture.queue("flow", Band::Normal);
    let now: Time = fixture.now;
    assert_eq!(fixture.gate.wait_forecast(fresh, now).unwrap().position, 1);
    assert_eq!(fixture.gate.wait_forecast(late, now).unwrap().position, 2);
}
