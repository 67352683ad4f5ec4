//! O03: fresh asks go before late ones, an overload that lasts serves no late ask, and no ask is
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

/// In a lasting overload an ask is let in if it goes before enough of the asks that wait.
#[test]
fn o03_asks_that_can_wait_keep_no_other_ask_out_of_a_lasting_overload() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    overload(&mut fixture, 240, 1);
    let is_refused = |fixture: &mut Fixture| {
        let verdict = fixture.send("flow 0", Band::Normal);
        matches!(verdict, Verdict::Refused { reason: Refusal::WaitTooLong, .. })
    };
    assert!((0..100).any(|_| is_refused(&mut fixture)), "the overload lasts");
    let lax = Ask { objective: Some(Span::from_secs(20)), ..fixture.ask("flow 0") };
    (0..100).for_each(|_| _ = queue(&mut fixture, lax));
    let mut running = in_flight(&fixture);
    for _ in 0..12 {
        fixture.pass(Span::from_millis(100));
        fixture.settle(running, 1);
        running = fixture.granted()[0];
    }
    let strict = fixture.queue("flow 0", Band::Normal);
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

/// The end of an overload: what happened in its last minute.
#[derive(Default)]
struct LastMinute {
    /// The waits of the asks that were granted, in seconds.
    waits: Vec<f64>,
    /// How many asks were refused at the door.
    refused: usize,
    /// How many asks were evicted because they were late.
    late: usize,
    /// How many asks waited for their whole time to live.
    expired: usize,
    /// The ask in flight at the end.
    running: Option<Ticket>,
}

/// Serves one ask each 100 ms for `secs` seconds while 15 asks a second arrive, from so many flows
/// in turn.
fn overload(fixture: &mut Fixture, secs: u64, flows: u64) -> LastMinute {
    overload_of(fixture, Band::Normal, secs, flows)
}

fn overload_of(fixture: &mut Fixture, band: Band, secs: u64, flows: u64) -> LastMinute {
    let mut running = fixture.start("flow 0");
    fixture.fill("flow 0", band, 2);
    let (mut last, mut sent) = (LastMinute::default(), 0);
    for step in 0..secs * 10 {
        let counts = step + 600 >= secs * 10;
        fixture.pass(Span::from_millis(100));
        fixture.settle(running, 1);
        for event in std::mem::take(&mut fixture.events) {
            match event {
                Event::Granted { ticket, waited, .. } => {
                    running = ticket;
                    last.waits.extend(counts.then(|| waited.secs_f64()));
                }
                Event::Evicted { reason, .. } => {
                    last.late += usize::from(counts && reason == Eviction::TooLate);
                    last.expired += usize::from(counts && reason == Eviction::Expired);
                }
            }
        }
        for _ in 0..1 + step % 2 {
            sent += 1;
            let flow = format!("flow {}", sent % flows);
            if let Verdict::Refused { reason, .. } = fixture.send(&flow, band) {
                assert_eq!(reason, Refusal::WaitTooLong);
                last.refused += usize::from(counts);
            }
        }
    }
    LastMinute { running: Some(running), ..last }
}

fn in_time(waits: &[f64]) -> bool {
    waits.iter().filter(|&&wait| wait <= 1.5).count() * 100 >= waits.len() * 99
}

/// In a lasting overload all that is served is served in time. While a fresh ask of its flow always
/// waits, a late ask has no turn: it waits for its whole time to live.
#[test]
fn o03_in_a_lasting_overload_all_that_is_served_is_in_time() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let LastMinute { waits, refused, late, expired, .. } = overload(&mut fixture, 300, 1);
    assert!(in_time(&waits), "{waits:?}");
    assert!((570..=601).contains(&waits.len()), "the server is busy: {}", waits.len());
    let lost = refused + late + expired;
    assert!((270..=330).contains(&lost), "a third of 900: {refused}, {late} and {expired}");
}

/// An ask is refused at once if its turn will come far too late: here the fresh asks of its flow
/// take three seconds.
#[test]
fn o03_in_a_lasting_overload_what_cannot_be_in_time_is_refused_at_once() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let LastMinute { refused, .. } = overload(&mut fixture, 300, 1);
    assert!(refused < 60, "of the 300 that are too many, few are refused at once: {refused}");
    let verdicts: Vec<Verdict> = (0..30).map(|_| fixture.send("flow 0", Band::Normal)).collect();
    let refused = verdicts
        .iter()
        .filter(|verdict| matches!(verdict, Verdict::Refused { reason: Refusal::WaitTooLong, .. }));
    assert!((15..=30).contains(&refused.count()), "{verdicts:?}");
}

/// A flow of few asks gets its turn when its ask is late already. In a lasting overload the turn
/// goes to an ask that can be in time.
#[test]
fn o03_in_a_lasting_overload_many_small_flows_are_served_in_time() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    let LastMinute { waits, .. } = overload(&mut fixture, 300, 40);
    assert!(in_time(&waits), "{waits:?}");
    assert!((570..=601).contains(&waits.len()), "the server is busy: {}", waits.len());
}

/// P07: no prediction refuses a critical ask, and none is evicted because it is late. In the same
/// overload asks of other bands are.
#[test]
fn p07_a_critical_ask_is_never_refused_or_evicted_for_being_late() {
    for (band, spared, many) in [(Band::Critical, true, 40), (Band::High, false, 1)] {
        for flows in [1, many] {
            let settings = Settings { refuse_hopeless: flows == 1, ..two_seconds() };
            let mut fixture = Fixture::new(settings, 1);
            let last = overload_of(&mut fixture, band, 300, flows);
            let LastMinute { refused, late, expired, .. } = last;
            let what = format!("{band:?}, {flows} flows: {refused}, {late} and {expired}");
            assert_eq!(refused + late == 0, spared, "{what}");
            assert!((570..=601).contains(&last.waits.len()), "the server is busy");
            if spared {
                assert!(last.expired > 270, "only the time to live ends a wait");
            }
        }
    }
}

/// P07: however long a critical ask has waited, no newer one of its flow goes before it.
#[test]
fn p07_critical_asks_that_missed_their_objective_go_in_the_order_of_arrival() {
    for (band, first) in [(Band::Critical, 0), (Band::High, 1)] {
        let mut fixture = Fixture::new(two_seconds(), 1);
        let running = fixture.start("flow");
        let old = fixture.queue("flow", band);
        fixture.pass(Span::from_secs(3));
        let new = fixture.queue("flow", band);
        fixture.settle(running, 1);
        assert_eq!(fixture.granted(), [[old, new][first]], "{band:?}");
    }
}

/// P07: a critical ask waits until its client leaves, however near that is.
#[test]
fn p07_a_critical_ask_waits_until_the_deadline_of_its_client() {
    let mut fixture = Fixture::new(two_seconds(), 1);
    for _ in 0..20 {
        let ticket = fixture.start("flow");
        fixture.pass(Span::from_secs(1));
        fixture.gate.started(ticket, fixture.now).unwrap();
        fixture.settle(ticket, 1);
    }
    fixture.start("flow");
    for millis in [900, 3000] {
        let deadline = Some(fixture.now.after(Span::from_millis(millis)));
        let ask = Ask { deadline, band: Band::Critical, ..fixture.ask("flow") };
        let waiting = queue(&mut fixture, ask);
        fixture.pass(Span::from_millis(millis - 1));
        assert!(fixture.events.is_empty(), "{:?}", fixture.events);
        // A deadline is noticed within a millisecond.
        fixture.pass(Span::from_millis(3));
        let ends = std::mem::take(&mut fixture.events);
        let is_end = |event: &Event| {
            matches!(event, Event::Evicted { ticket, reason, .. }
                if (*ticket, *reason) == (waiting, Eviction::DeadlineExceeded))
        };
        assert!(ends.iter().any(is_end), "{ends:?}");
    }
}

/// An overload of less than three minutes may be a burst: every ask waits, and late ones are
/// served.
#[test]
fn o03_a_burst_is_waited_through() {
    let settings = Settings {
        default_class: FlowClass { ttl: Span::from_secs(300), ..two_seconds().default_class },
        ..two_seconds()
    };
    let mut fixture = Fixture::new(settings, 1);
    let LastMinute { refused, late, .. } = overload(&mut fixture, 170, 1);
    assert_eq!((refused, late), (0, 0));
}

/// A line that is empty for a moment has not ended. One that is empty for longer begins anew.
#[test]
fn o03_a_short_gap_does_not_end_an_overload() {
    for (gap, stands) in [(4, true), (6, false)] {
        assert_eq!(stands_after(gap, 20), stands, "{gap} s");
    }
}

/// A server with few places is idle for seconds now and then even in an overload. So a gap must be
/// long in grants, too, unless it is very long.
#[test]
fn o03_a_gap_of_few_grants_does_not_end_an_overload() {
    for (gap, grants, stands) in [(6, 10, true), (29, 10, true), (29, 15, false), (31, 0, false)] {
        // The first ask after the gap is granted at once, too.
        assert_eq!(stands_after(gap, grants), stands, "{gap} s, {grants} grants");
    }
}

/// A burst that has ended leaves room. A backend that stays nearly full has only met a moment
/// without a waiting ask.
#[test]
fn o03_a_gap_at_a_nearly_full_backend_does_not_end_an_overload() {
    for (busy, stands) in [(16, true), (15, false)] {
        assert_eq!(stands_after_beside(busy, 6, 20), stands, "{busy} of 20 places taken");
    }
}

/// Whether an overload still lasts after a gap in which so many asks are granted at once.
fn stands_after(gap_secs: u64, grants: usize) -> bool {
    stands_after_beside(0, gap_secs, grants)
}

/// The same where `busy` of 20 places are taken in the gap. With 0 there is one place, and it is
/// free.
fn stands_after_beside(busy: usize, gap_secs: u64, grants: usize) -> bool {
    let others = if busy > 0 { 19 } else { 0 };
    let settings = Settings { bounds: limited_to(1.0 + others as f64).bounds, ..two_seconds() };
    let mut fixture = Fixture::new(settings, 1);
    let mut long: Vec<_> = (0..others).map(|_| fixture.start("long")).collect();
    let LastMinute { running, .. } = overload(&mut fixture, 240, 40);
    fixture.run_dry(running.into_iter().collect());
    for ended in long.drain(busy..) {
        fixture.settle(ended, 1);
    }
    for _ in 0..grants {
        let running = fixture.start("flow 0");
        fixture.settle(running, 1);
    }
    fixture.pass(Span::from_secs(gap_secs));
    for _ in busy..others {
        fixture.start("long");
    }
    overload(&mut fixture, 30, 40).late > 0
}

/// Without an objective the same overload lets every ask wait for its whole time to live.
#[test]
fn o03_without_an_objective_the_line_stands() {
    let settings = Settings { objectives: [Span::FOREVER; BANDS], ..two_seconds() };
    let mut fixture = Fixture::new(settings, 1);
    let LastMinute { waits, refused, late, .. } = overload(&mut fixture, 300, 1);
    assert_eq!((refused, late), (0, 0));
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
    let (fresh, late) =
        (fixture.gate.wait_forecast(fresh, now), fixture.gate.wait_forecast(late, now));
    let (fresh, late) = (fresh.unwrap(), late.unwrap());
    assert_eq!((fresh.position, fresh.late), (1, false));
    assert_eq!((late.position, late.late), (2, true), "its wait is the least one");
}
