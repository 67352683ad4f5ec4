//! The plain gates, told what a gateway would tell them.

use flow::{Band, Hysteresis, Settings, Span, Time};

use super::direct::Direct;
use super::line::{Line, LineConfig, Order};
use super::ours::{Ours, OursConfig};
use super::{Cost, Decision, Failure, Gate, Offer, RequestId, Spent, Tenant, Why};
use crate::engine::EngineReading;

const START: Time = Time::ZERO;

fn line(order: Order, watermark: u32, capacity: usize) -> Line {
    Line::new(LineConfig { order, watermark, capacity, ttl: Span::from_secs(30) })
}

fn offer(gate: &mut dyn Gate, request: RequestId, tenant: u32, band: Band) {
    let known = &Tenant { name: tenant.to_string(), weight: 1.0 };
    gate.offer(&Offer { request, tenant, known, band, prompt: 10, ttl: None }, START);
}

fn offer_plain(gate: &mut dyn Gate, requests: std::ops::Range<RequestId>) {
    requests.for_each(|request| offer(gate, request, 0, Band::Normal));
}

/// What was sent where, in order.
fn sent(gate: &mut dyn Gate) -> Vec<(RequestId, u32)> {
    let decisions = std::iter::from_fn(|| gate.decide());
    let sent = |decision| match decision {
        Decision::Send { request, engine, .. } => (request, engine),
        refused => panic!("{refused:?}"),
    };
    decisions.map(sent).collect()
}

/// Ends what was sent, one after the other, and returns the order in which all were sent.
fn serve_all(gate: &mut dyn Gate) -> Vec<RequestId> {
    let mut order = Vec::new();
    let mut open: std::collections::VecDeque<RequestId> = Default::default();
    loop {
        let sent = sent(gate);
        order.extend(sent.iter().map(|&(request, _)| request));
        open.extend(sent.iter().map(|&(request, _)| request));
        let Some(request) = open.pop_front() else { return order };
        gate.ended(request, Spent::default(), START);
    }
}

#[test]
fn no_gate_sends_to_the_ready_engines_in_turn() {
    let mut gate = Direct::new();
    gate.engines(&[true, false, true], START);
    offer_plain(&mut gate, 0..4);
    assert_eq!(sent(&mut gate), [(0, 0), (1, 2), (2, 0), (3, 2)]);
    gate.failed(1, Failure::Untouched, START);
    gate.failed(2, Failure::Exhausted, START);
    assert_eq!(sent(&mut gate), [(1, 0)], "what had not begun is tried again");
    gate.engines(&[false; 3], START);
    offer_plain(&mut gate, 4..5);
    let refused = Decision::Refuse { request: 4, why: Why::NoEngine };
    assert_eq!(gate.decide(), Some(refused));
}

#[test]
fn a_line_goes_in_the_order_of_arrival_to_the_engine_with_the_least() {
    let mut gate = line(Order::Fifo, 2, 10);
    gate.engines(&[true, true], START);
    offer_plain(&mut gate, 0..6);
    assert_eq!(sent(&mut gate), [(0, 0), (1, 1), (2, 0), (3, 1)], "two at each");
    gate.ended(1, Spent::default(), START);
    assert_eq!(sent(&mut gate), [(4, 1)]);
    gate.ended(0, Spent::default(), START);
    gate.ended(2, Spent::default(), START);
    assert_eq!(sent(&mut gate), [(5, 0)]);
    gate.ended(3, Spent::default(), START);
    gate.ended(4, Spent::default(), START);
    offer_plain(&mut gate, 6..8);
    assert_eq!(sent(&mut gate), [(6, 1), (7, 0)], "equal: the one that waits longer for work");
    gate.ended(7, Spent::default(), START);
    offer_plain(&mut gate, 8..9);
    assert_eq!(sent(&mut gate), [(8, 1)]);
    gate.ended(6, Spent::default(), START);
    gate.ended(8, Spent::default(), START);
    offer_plain(&mut gate, 9..10);
    assert_eq!(sent(&mut gate), [(9, 1)], "the emptier one, however lately it got work");
}

#[test]
fn a_line_takes_tenants_in_turn() {
    let mut gate = line(Order::RoundRobin, 1, 10);
    gate.engines(&[true], START);
    for (request, tenant) in [0, 0, 0, 0, 1, 1, 2].into_iter().enumerate() {
        offer(&mut gate, request as RequestId, tenant, Band::Normal);
    }
    assert_eq!(serve_all(&mut gate), [0, 1, 4, 6, 2, 5, 3]);
}

#[test]
fn a_line_takes_the_highest_band_first() {
    let mut gate = line(Order::StrictBands, 1, 10);
    gate.engines(&[true], START);
    let bands = [Band::Normal, Band::BestEffort, Band::Normal, Band::Critical, Band::High];
    for (request, band) in bands.into_iter().enumerate() {
        offer(&mut gate, request as RequestId, 0, band);
    }
    offer(&mut gate, 5, 1, Band::Critical);
    assert_eq!(serve_all(&mut gate), [0, 3, 5, 4, 2, 1]);
}

#[test]
fn who_leaves_a_line_early_takes_nobodys_turn() {
    let mut gate = line(Order::RoundRobin, 1, 10);
    gate.engines(&[true], START);
    for (request, tenant) in [0, 1, 1, 2].into_iter().enumerate() {
        offer(&mut gate, request as RequestId, tenant, Band::Normal);
    }
    gate.gave_up(1, Spent::default(), START);
    assert_eq!(serve_all(&mut gate), [0, 2, 3]);
}

#[test]
fn a_full_line_refuses() {
    let mut gate = line(Order::Fifo, 1, 2);
    gate.engines(&[true], START);
    offer_plain(&mut gate, 0..3);
    assert_eq!(sent(&mut gate), [(0, 0)]);
    offer_plain(&mut gate, 3..4);
    assert_eq!(gate.decide(), Some(Decision::Refuse { request: 3, why: Why::Full }));
    gate.gave_up(1, Spent::default(), START);
    offer_plain(&mut gate, 4..5);
    assert_eq!(gate.decide(), None, "a place was free again");
}

#[test]
fn what_waits_too_long_in_a_line_expires() {
    let mut gate = line(Order::Fifo, 1, 10);
    gate.engines(&[true], START);
    offer_plain(&mut gate, 0..2);
    assert_eq!(sent(&mut gate), [(0, 0)]);
    let deadline = Time::from_millis(30_000);
    assert_eq!(gate.next_wake(), Some(deadline));
    gate.wake(Time::from_millis(29_999));
    assert_eq!(gate.decide(), None);
    gate.wake(deadline);
    assert_eq!(gate.decide(), Some(Decision::Refuse { request: 1, why: Why::Expired }));
    assert_eq!(gate.next_wake(), None);
}

#[test]
fn what_an_engine_failed_goes_back_into_the_line() {
    let mut gate = line(Order::Fifo, 1, 10);
    gate.engines(&[true, true], START);
    offer_plain(&mut gate, 0..3);
    assert_eq!(sent(&mut gate), [(0, 0), (1, 1)]);
    gate.engines(&[false, true], START);
    gate.failed(0, Failure::Untouched, START);
    assert_eq!(sent(&mut gate), [], "the living engine is full");
    gate.failed(1, Failure::BrokenOff(Spent::default()), START);
    assert_eq!(sent(&mut gate), [(2, 1)]);
    gate.ended(2, Spent::default(), START);
    assert_eq!(sent(&mut gate), [(0, 1)]);
}

fn ours(settings: Settings, cost: Cost) -> Ours {
    let mut gate = Ours::new(OursConfig { settings, cost }, &[]);
    gate.engines(&[true], START);
    gate
}

fn one_at_a_time() -> Settings {
    Settings { bounds: Hysteresis::limit(1.0).unwrap().into(), ..Settings::default() }
}

#[test]
fn of_an_answer_in_one_piece_nothing_is_seen_before_its_end() {
    let unstarted = |share: f64| {
        let config = OursConfig { settings: Settings::default(), cost: Cost::Requests };
        let mut gate = Ours::new(config, &[]).unstreamed(share);
        gate.engines(&[true], START);
        // As many as go to an engine that nobody knows yet.
        offer_plain(&mut gate, 0..2);
        (0..2).for_each(|request| gate.started(request, START));
        let limits = gate.controller().backends().next().unwrap().limits;
        limits.unstarted.0
    };
    assert_eq!([0.0, 0.5, 1.0].map(unstarted), [0, 1, 2]);
}

#[test]
fn what_keeps_an_engine_closed_is_told() {
    let mut gate = ours(Settings::default(), Cost::Requests);
    let known = &Tenant { name: "all".into(), weight: 1.0 };
    let (tenant, band, prompt, ttl) = (0, Band::Normal, 4096, None);
    gate.offer(&Offer { request: 0, tenant, known, band, prompt, ttl }, START);
    assert_eq!(gate.binding(0), None);
    gate.offer(&Offer { request: 1, tenant, known, band, prompt, ttl }, START);
    assert_eq!(gate.binding(0), Some(flow::AutoBound::Unstarted));
}

#[test]
fn who_gives_way_to_a_higher_band_is_told_so() {
    let settings = Settings { total_capacity: 1, ..one_at_a_time() };
    let mut gate = ours(settings, Cost::Requests);
    offer_plain(&mut gate, 0..2);
    assert_eq!(sent(&mut gate), [(0, 0)]);
    offer(&mut gate, 2, 0, Band::Critical);
    assert_eq!(gate.decide(), Some(Decision::Refuse { request: 1, why: Why::Preempted }));
    gate.ended(0, Spent::default(), START);
    assert_eq!(sent(&mut gate), [(2, 0)], "its ticket's place was used again");
}

#[test]
fn the_core_charges_the_expected_output_and_learns_it() {
    let mut gate = ours(one_at_a_time(), Cost::Tokens);
    let mut charged = Vec::new();
    for request in 0..300 {
        offer_plain(&mut gate, request..request + 1);
        let Some(Decision::Send { charged: cost, .. }) = gate.decide() else { panic!("sent") };
        charged.push(cost);
        gate.ended(request, Spent { prompt: 10, output: 100 }, START);
    }
    assert_eq!(charged[0], 10 + 2 * 256);
    assert_eq!(charged[1], 10 + 2 * 253, "a fiftieth of the way");
    assert_eq!(charged[299], 10 + 2 * 100);
}

/// Tenant 0 is served first and its answer is as long as given; tenant 1 waits with two requests,
/// tenant 0 with one more. The order of what follows shows what the first one was charged.
fn order_after(finish: impl Fn(&mut Ours)) -> Vec<RequestId> {
    let mut gate = ours(one_at_a_time(), Cost::Tokens);
    for (request, tenant) in [0, 0, 1, 1, 1, 1].into_iter().enumerate() {
        offer(&mut gate, request as RequestId, tenant, Band::Normal);
    }
    finish(&mut gate);
    let mut order = serve_from(&mut gate, 10);
    order.truncate(5);
    order
}

/// Like [`serve_all`], with answers of this length.
fn serve_from(gate: &mut dyn Gate, output: u32) -> Vec<RequestId> {
    let mut order = Vec::new();
    while let Some(decision) = gate.decide() {
        let Decision::Send { request, .. } = decision else { panic!("{decision:?}") };
        order.push(request);
        if request != 0 {
            gate.ended(request, Spent { prompt: 10, output }, START);
        }
    }
    order
}

#[test]
fn a_long_answer_is_paid_for_when_it_ends() {
    let short = order_after(|gate| gate.ended(0, Spent { prompt: 10, output: 1 }, START));
    let long = order_after(|gate| gate.ended(0, Spent { prompt: 10, output: 9000 }, START));
    assert_eq!(short[..3], [0, 1, 2], "it has paid next to nothing");
    assert_eq!(long, [0, 2, 3, 4, 5], "the others go first");
}

#[test]
fn what_failed_for_good_is_paid_back() {
    let failed = order_after(|gate| gate.failed(0, Failure::Exhausted, START));
    assert_eq!(failed[..3], [0, 1, 2]);
    let spent = Spent { prompt: 10, output: 9000 };
    let broken = order_after(|gate| gate.failed(0, Failure::BrokenOff(spent), START));
    assert_eq!(broken, [0, 2, 3, 4, 5], "what was streamed is not");
}

#[test]
fn who_goes_away_pays_for_what_was_streamed() {
    let gone =
        |output: u32| order_after(move |gate| gate.gave_up(0, Spent { prompt: 10, output }, START));
    assert_eq!(gone(1)[..3], [0, 1, 2], "next to nothing");
    assert_eq!(gone(9000), [0, 2, 3, 4, 5]);
}

#[test]
fn a_stream_that_passes_its_estimate_is_charged_as_it_goes() {
    // The engine takes one more: what the first has streamed by then decides who goes.
    let order = |tokens: u32| {
        let mut gate = ours(one_at_a_time(), Cost::Tokens);
        for (request, tenant) in [0, 0, 1].into_iter().enumerate() {
            offer(&mut gate, request as RequestId, tenant, Band::Normal);
        }
        gate.streamed(0, tokens, START);
        assert_eq!(gate.decide().map(|_| ()), Some(()), "the first");
        gate.engines(&[true, true], START);
        sent(&mut gate)
    };
    assert_eq!(order(256), [(1, 1)]);
    assert_eq!(order(9000), [(2, 1)]);
}

#[test]
fn the_core_hears_of_first_tokens_streams_and_metrics() {
    let mut gate = ours(Settings::default(), Cost::Requests);
    assert!(gate.follows_streams(), "under auto every token counts");
    offer_plain(&mut gate, 0..1);
    let limits = |gate: &Ours| gate.controller().backends().next().unwrap().limits;
    assert_eq!((limits(&gate).unstarted.0, limits(&gate).tokens.0), (1, 10 + 256));
    gate.started(0, START);
    assert_eq!(limits(&gate).unstarted.0, 0);
    gate.streamed(0, 1000, START);
    assert!(limits(&gate).tokens.0 >= 1010, "it holds more than was expected");
    assert!(!limits(&gate).by_metrics);
    let reading = EngineReading { kv_tokens: Some(10_000), ..EngineReading::default() };
    gate.reading(0, &reading, START);
    assert!(limits(&gate).by_metrics);
}
