//! W03, W05: the order inside a flow, compared with brute force at every dequeue.

use super::fixture::{Dice, Fixture, MODEL, limited_to};
use crate::queue::urgency::{FIFOS_MAX, urgency};
use crate::{
    Ask, Band, FlowClass, Order, RequeuePosition, Settings, Span, Ticket, Time, UrgencyWeights,
    Usage, Verdict, Workload, WorkloadId, WorkloadLimits,
};

fn ordered(order: Order) -> Settings {
    Settings {
        order,
        total_capacity: 100_000,
        default_class: FlowClass {
            capacity: 100_000,
            ttl: Span::from_secs(100_000),
            ..FlowClass::default()
        },
        ..limited_to(1.0)
    }
}

/// W03: the formula, number by number.
#[test]
fn w03_urgency_is_the_formula_of_the_source() {
    let law = UrgencyWeights::default();
    let of = |secs, criticality, rate| urgency(&law, Span::from_secs(secs), criticality, rate);
    let close = |value: f64, expected: f64| (value - expected).abs() < 1e-12;
    assert!(close(of(0, 5, 0.0), 0.4));
    assert!(close(of(30, 3, 50.0), 0.2 + 0.24 - 0.1));
    assert!(close(of(60, 1, 100.0), 0.4 + 0.08 - 0.2));
    assert!(close(of(6000, 1, 1e9), 0.4 + 0.08 - 0.2), "wait and rate are capped");
}

/// W03: invalid weights and caps are refused.
#[test]
fn w03_impossible_weights_are_refused() {
    let minute = Span::from_secs(60);
    assert!(UrgencyWeights::new([0.4, 0.4, 0.2], minute, 100.0).is_ok());
    assert!(UrgencyWeights::new([f64::NAN, 0.4, 0.2], minute, 100.0).is_err());
    assert!(UrgencyWeights::new([-0.1, 0.4, 0.2], minute, 100.0).is_err());
    assert!(UrgencyWeights::new([0.4, 0.4, 0.2], Span::ZERO, 100.0).is_err());
    assert!(UrgencyWeights::new([0.4, 0.4, 0.2], minute, 0.0).is_err());
}

/// One waiting ask, as brute force sees it.
#[derive(Clone, Copy)]
struct Known {
    ticket: Ticket,
    arrival: Time,
    place: usize,
    workload: Option<usize>,
    criticality: u8,
}

/// Rates by the definition: offers in the last sixty buckets, one by one.
struct Rates {
    bucket: u64,
    offers: Vec<Vec<Time>>,
}

impl Rates {
    fn of(&self, workload: usize, now: Time) -> f64 {
        let present = now.nanos() / self.bucket;
        let recent = |time: &&Time| time.nanos() / self.bucket + 60 > present;
        let window = Span::from_nanos(60 * self.bucket).secs_f64();
        self.offers[workload].iter().filter(recent).count() as f64 / window
    }
}

/// W03: at every dequeue the ask that goes is the one with the largest score of all that wait,
/// computed for each of them at that moment; waits pass the cap and rates rise and fall.
#[test]
fn w03_the_order_is_exact_at_every_dequeue() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut fixture = Fixture::new(ordered(Order::Workload), 1);
        let count = if seed % 2 == 0 { 6 } else { 60 };
        let names: Vec<String> = (0..count).map(|at| format!("load-{at}")).collect();
        let window = WorkloadLimits::default().window;
        let mut rates =
            Rates { bucket: window.nanos() / 60, offers: vec![Vec::new(); names.len()] };
        let mut running = fixture.start("flow");
        let mut waiting: Vec<Known> = Vec::new();
        for place in 0..1500 {
            let calm = place % 300 > 150;
            fixture.now =
                fixture.now.after(Span::from_millis(dice.below(if calm { 3000 } else { 40 })));
            let drawn = |dice: &mut Dice| (dice.below(2 * count) as usize).min(names.len() - 1);
            let workload = dice.chance(85).then(|| drawn(&mut dice));
            let id = match workload {
                Some(at) => fixture.gate.workload(&names[at], fixture.now),
                None => WorkloadId::GENERATED,
            };
            let criticality = 1 + dice.below(5) as u8;
            let ask = Ask { workload: Workload { id, criticality }, ..fixture.ask("flow") };
            let Verdict::Queued { ticket } = fixture.gate.offer(ask, fixture.now) else { panic!() };
            if let Some(at) = workload {
                rates.offers[at].push(fixture.now);
            }
            waiting.push(Known { ticket, arrival: fixture.now, place, workload, criticality });
            if dice.chance(if calm { 95 } else { 40 }) {
                let expected = most_urgent(&waiting, &rates, fixture.now);
                fixture.gate.settle(running, Usage::Unknown, fixture.now).unwrap();
                fixture.collect();
                running = fixture.granted()[0];
                assert_eq!(running, expected, "seed {seed}, step {place}");
                waiting.retain(|known| known.ticket != running);
            } else if dice.chance(10) && !waiting.is_empty() {
                let gone = waiting.swap_remove(dice.below(waiting.len() as u64) as usize);
                fixture.gate.cancel(gone.ticket, fixture.now).unwrap();
            }
        }
    }
}

fn most_urgent(waiting: &[Known], rates: &Rates, now: Time) -> Ticket {
    let score = |known: &Known| {
        let rate = known.workload.map_or(0.0, |at| rates.of(at, now));
        let wait = (now.since(known.arrival).secs_f64() / 60.0).min(1.0);
        let score =
            0.4 * wait + 0.4 * (f64::from(known.criticality) / 5.0) - 0.2 * (rate / 100.0).min(1.0);
        // Sums that are equal differ in their last bits.
        (score * 1e9).round() as i64
    };
    let before = |a: &&Known, b: &&Known| score(a).cmp(&score(b)).then(b.place.cmp(&a.place));
    waiting.iter().max_by(before).expect("someone waits").ticket
}

/// W03: beyond the largest number of FIFOs, asks share one FIFO per criticality.
#[test]
fn w03_the_number_of_fifos_is_bounded() {
    let mut fixture = Fixture::new(ordered(Order::Workload), 1);
    let running = fixture.start("flow");
    let mut sent = Vec::new();
    for at in 0..3 * FIFOS_MAX {
        let id = fixture.gate.workload(&format!("load-{at}"), fixture.now);
        let ask = Ask { workload: Workload { id, criticality: 3 }, ..fixture.ask("flow") };
        let Verdict::Queued { ticket } = fixture.gate.offer(ask, fixture.now) else {
            panic!("full")
        };
        sent.push(ticket);
    }
    let mut order = Vec::new();
    let mut running = Some(running);
    while let Some(ticket) = running.take() {
        fixture.gate.settle(ticket, Usage::Unknown, fixture.now).unwrap();
        while let Some(crate::Event::Granted { ticket, .. }) = fixture.gate.poll_event() {
            order.push(ticket);
            running = Some(ticket);
        }
    }
    order.sort_unstable();
    sent.sort_unstable();
    assert_eq!(order, sent);
}

/// W05: earliest deadline first; equal deadlines in order of arrival.
#[test]
fn w05_deadline_order_is_exact_at_every_dequeue() {
    let mut dice = Dice(5);
    let mut fixture = Fixture::new(ordered(Order::Deadline), 1);
    let mut running = fixture.start("flow");
    let mut waiting: Vec<(Time, usize, Ticket)> = Vec::new();
    for place in 0..3000 {
        let ttl = Span::from_secs(10_000 + dice.below(50));
        let ask = Ask { ttl: Some(ttl), ..fixture.ask("flow") };
        let Verdict::Queued { ticket } = fixture.gate.offer(ask, fixture.now) else {
            panic!("full")
        };
        waiting.push((fixture.now.after(ttl), place, ticket));
        fixture.now = fixture.now.after(Span::from_millis(dice.below(900)));
        match dice.below(4) {
            0 => {
                let gone = waiting.swap_remove(dice.below(waiting.len() as u64) as usize);
                fixture.gate.cancel(gone.2, fixture.now).unwrap();
            }
            1 | 2 if !waiting.is_empty() => {
                waiting.sort_unstable();
                fixture.gate.settle(running, Usage::Unknown, fixture.now).unwrap();
                fixture.collect();
                running = fixture.granted()[0];
                assert_eq!(running, waiting.remove(0).2, "step {place}");
            }
            _ => {}
        }
    }
}

/// W05: fifo is the default.
#[test]
fn w05_fifo_is_the_default() {
    assert_eq!(Settings::default().order, Order::Fifo);
}

/// A change of order re-sorts the waiting asks.
#[test]
fn w05_a_change_of_order_applies_to_waiting_asks() {
    let mut fixture = Fixture::new(ordered(Order::Fifo), 1);
    let running = fixture.start("flow");
    let mut sent = Vec::new();
    for secs in [300, 100, 200] {
        let ask = Ask { ttl: Some(Span::from_secs(secs)), ..fixture.ask("flow") };
        let Verdict::Queued { ticket } = fixture.offer(ask) else { panic!("full") };
        sent.push(ticket);
    }
    fixture.gate.configure(ordered(Order::Deadline), fixture.now);
    fixture.collect();
    assert_eq!(fixture.run_dry(vec![running]), [sent[1], sent[2], sent[0]]);
}

/// Asks of a full backend return to their old places, in any number and order.
#[test]
fn n05_many_returns_keep_the_order_of_arrival() {
    for order in [Order::Fifo, Order::Deadline, Order::Workload, Order::Session] {
        let mut fixture = Fixture::new(Settings { ..ordered(order) }, 1);
        fixture
            .gate
            .configure(Settings { bounds: limited_to(6.0).bounds, ..ordered(order) }, fixture.now);
        let mut running: Vec<_> = (0..6).map(|_| fixture.start("flow")).collect();
        let rest: Vec<_> = (0..4).map(|_| fixture.queue("flow", Band::Normal)).collect();
        let sent: Vec<_> = running.iter().chain(&rest).copied().collect();
        let down = crate::BackendSupply { ready: false, ..super::fixture::backend(0, &[MODEL.0]) };
        fixture.supply(&[down]);
        running.swap(0, 4);
        running.swap(2, 5);
        for ticket in running {
            fixture.gate.requeue(ticket, RequeuePosition::Original, fixture.now).unwrap();
        }
        fixture.gate.configure(ordered(order), fixture.now);
        fixture.supply(&[super::fixture::backend(0, &[MODEL.0])]);
        let first = fixture.granted();
        let mut served = first.clone();
        served.extend(fixture.run_dry(first));
        assert_eq!(served, sent, "{order:?}");
    }
}
