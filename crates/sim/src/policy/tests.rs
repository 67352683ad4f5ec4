//! The plain gates, told what a gateway would tell them.

mod routed;

use flow::{Band, Hysteresis, Settings, Span, Time};

use super::direct::Direct;
use super::plain_queue::{PlainQueue, PlainQueueConfig, QueueOrder};
use super::tidegate::{Tidegate, TidegateConfig};
use super::{Cost, Decision, Failure, Offer, Policy, RefusalReason, RequestId, Spent, Tenant};
use crate::engine::EngineReading;

const START: Time = Time::ZERO;

fn line(order: QueueOrder, watermark: u32, capacity: usize) -> PlainQueue {
    PlainQueue::new(PlainQueueConfig { order, watermark, capacity, ttl: Span::from_secs(30) })
}

fn offer(policy: &mut dyn Policy, request: RequestId, tenant: u32, band: Band) {
    let known = &Tenant { name: tenant.to_string(), weight: 1.0 };
    policy
        .offer(&Offer { request, tenant, known, band, prompt: 10, prefix: &[], ttl: None }, START);
}

fn offer_plain(policy: &mut dyn Policy, requests: std::ops::Range<RequestId>) {
    requests.for_each(|request| offer(policy, request, 0, Band::Normal));
}

/// What was sent where, in order.
fn sent(policy: &mut dyn Policy) -> Vec<(RequestId, u32)> {
    let decisions = std::iter::from_fn(|| policy.decide());
    let sent = |decision| match decision {
        Decision::Send { request, engine, .. } => (request, engine),
        refused => panic!("{refused:?}"),
    };
    decisions.map(sent).collect()
}

/// Ends what was sent, one after the other, and returns the order in which all were sent.
fn serve_all(policy: &mut dyn Policy) -> Vec<RequestId> {
    let mut order = Vec::new();
    let mut open: std::collections::VecDeque<RequestId> = Default::default();
    loop {
        let sent = sent(policy);
        order.extend(sent.iter().map(|&(request, _)| request));
        open.extend(sent.iter().map(|&(request, _)| request));
        let Some(request) = open.pop_front() else { return order };
        policy.ended(request, Spent::default(), START);
    }
}

#[test]
fn no_gate_sends_to_the_ready_engines_in_turn() {
    let mut policy = Direct::new();
    policy.engines(&[true, false, true], START);
    offer_plain(&mut policy, 0..4);
    assert_eq!(sent(&mut policy), [(0, 0), (1, 2), (2, 0), (3, 2)]);
    policy.failed(1, Failure::Untouched, START);
    policy.failed(2, Failure::Exhausted, START);
    assert_eq!(sent(&mut policy), [(1, 0)], "what had not begun is tried again");
    policy.engines(&[false; 3], START);
    offer_plain(&mut policy, 4..5);
    let refused = Decision::refuse(4, RefusalReason::NoEngine);
    assert_eq!(policy.decide(), Some(refused));
}

#[test]
fn a_line_goes_in_the_order_of_arrival_to_the_engine_with_the_least() {
    let mut policy = line(QueueOrder::Fifo, 2, 10);
    policy.engines(&[true, true], START);
    offer_plain(&mut policy, 0..6);
    assert_eq!(sent(&mut policy), [(0, 0), (1, 1), (2, 0), (3, 1)], "two at each");
    policy.ended(1, Spent::default(), START);
    assert_eq!(sent(&mut policy), [(4, 1)]);
    policy.ended(0, Spent::default(), START);
    policy.ended(2, Spent::default(), START);
    assert_eq!(sent(&mut policy), [(5, 0)]);
    policy.ended(3, Spent::default(), START);
    policy.ended(4, Spent::default(), START);
    offer_plain(&mut policy, 6..8);
    assert_eq!(sent(&mut policy), [(6, 1), (7, 0)], "equal: the one that waits longer for work");
    policy.ended(7, Spent::default(), START);
    offer_plain(&mut policy, 8..9);
    assert_eq!(sent(&mut policy), [(8, 1)]);
    policy.ended(6, Spent::default(), START);
    policy.ended(8, Spent::default(), START);
    offer_plain(&mut policy, 9..10);
    assert_eq!(sent(&mut policy), [(9, 1)], "the emptier one, however lately it got work");
}

#[test]
fn a_line_takes_tenants_in_turn() {
    let mut policy = line(QueueOrder::RoundRobin, 1, 10);
    policy.engines(&[true], START);
    for (request, tenant) in [0, 0, 0, 0, 1, 1, 2].into_iter().enumerate() {
        offer(&mut policy, request as RequestId, tenant, Band::Normal);
    }
    assert_eq!(serve_all(&mut policy), [0, 1, 4, 6, 2, 5, 3]);
}

#[test]
fn a_line_takes_the_highest_band_first() {
    let mut policy = line(QueueOrder::StrictBands, 1, 10);
    policy.engines(&[true], START);
    let bands = [Band::Normal, Band::BestEffort, Band::Normal, Band::Critical, Band::High];
    for (request, band) in bands.into_iter().enumerate() {
        offer(&mut policy, request as RequestId, 0, band);
    }
    offer(&mut policy, 5, 1, Band::Critical);
    assert_eq!(serve_all(&mut policy), [0, 3, 5, 4, 2, 1]);
}

#[test]
fn a_client_that_leaves_early_takes_no_other_turn() {
    let mut policy = line(QueueOrder::RoundRobin, 1, 10);
    policy.engines(&[true], START);
    for (request, tenant) in [0, 1, 1, 2].into_iter().enumerate() {
        offer(&mut policy, request as RequestId, tenant, Band::Normal);
    }
    policy.gave_up(1, Spent::default(), START);
    assert_eq!(serve_all(&mut policy), [0, 2, 3]);
}

#[test]
fn a_full_line_refuses() {
    let mut policy = line(QueueOrder::Fifo, 1, 2);
    policy.engines(&[true], START);
    offer_plain(&mut policy, 0..3);
    assert_eq!(sent(&mut policy), [(0, 0)]);
    offer_plain(&mut policy, 3..4);
    assert_eq!(policy.decide(), Some(Decision::refuse(3, RefusalReason::Full)));
    policy.gave_up(1, Spent::default(), START);
    offer_plain(&mut policy, 4..5);
    assert_eq!(policy.decide(), None, "a place was free again");
}

#[test]
fn a_request_that_waits_too_long_expires() {
    let mut policy = line(QueueOrder::Fifo, 1, 10);
    policy.engines(&[true], START);
    offer_plain(&mut policy, 0..2);
    assert_eq!(sent(&mut policy), [(0, 0)]);
    let deadline = Time::from_millis(30_000);
    assert_eq!(policy.next_wake(), Some(deadline));
    policy.wake(Time::from_millis(29_999));
    assert_eq!(policy.decide(), None);
    policy.wake(deadline);
    assert_eq!(policy.decide(), Some(Decision::refuse(1, RefusalReason::Expired)));
    assert_eq!(policy.next_wake(), None);
}

#[test]
fn a_request_that_an_engine_failed_is_queued_again() {
    let mut policy = line(QueueOrder::Fifo, 1, 10);
    policy.engines(&[true, true], START);
    offer_plain(&mut policy, 0..3);
    assert_eq!(sent(&mut policy), [(0, 0), (1, 1)]);
    policy.engines(&[false, true], START);
    policy.failed(0, Failure::Untouched, START);
    assert_eq!(sent(&mut policy), [], "the living engine is full");
    policy.failed(1, Failure::BrokenOff(Spent::default()), START);
    assert_eq!(sent(&mut policy), [(2, 1)]);
    policy.ended(2, Spent::default(), START);
    assert_eq!(sent(&mut policy), [(0, 1)]);
}

fn ours(settings: Settings, cost: Cost) -> Tidegate {
    let mut policy = Tidegate::new(TidegateConfig { settings, cost }, &[]);
    policy.engines(&[true], START);
    policy
}

fn one_at_a_time() -> Settings {
    Settings { bounds: Hysteresis::limit(1.0).unwrap().into(), ..Settings::default() }
}

#[test]
fn a_response_in_one_piece_is_invisible_before_its_end() {
    let unstarted = |share: f64| {
        let config = TidegateConfig { settings: Settings::default(), cost: Cost::Requests };
        let mut policy = Tidegate::new(config, &[]).unstreamed(share);
        policy.engines(&[true], START);
        // As many as an engine without readings gets.
        offer_plain(&mut policy, 0..2);
        (0..2).for_each(|request| policy.started(request, START));
        let limits = policy.controller().backends().next().unwrap().limits;
        limits.unstarted.0
    };
    assert_eq!([0.0, 0.5, 1.0].map(unstarted), [0, 1, 2]);
}

#[test]
fn the_bound_that_closes_an_engine_is_reported() {
    let mut policy = ours(Settings::default(), Cost::Requests);
    let known = &Tenant { name: "all".into(), weight: 1.0 };
    let (tenant, band, prompt, ttl) = (0, Band::Normal, 4096, None);
    policy.offer(&Offer { request: 0, tenant, known, band, prompt, prefix: &[], ttl }, START);
    assert_eq!(policy.binding(0), None);
    policy.offer(&Offer { request: 1, tenant, known, band, prompt, prefix: &[], ttl }, START);
    assert_eq!(policy.binding(0), Some(flow::AutoBound::Unstarted));
}

#[test]
fn a_request_preempted_by_a_higher_band_is_reported() {
    let settings = Settings { total_capacity: 1, ..one_at_a_time() };
    let mut policy = ours(settings, Cost::Requests);
    offer_plain(&mut policy, 0..2);
    assert_eq!(sent(&mut policy), [(0, 0)]);
    offer(&mut policy, 2, 0, Band::Critical);
    let decision = policy.decide();
    let why = RefusalReason::Preempted;
    let preempted =
        matches!(decision, Some(Decision::Refuse { request: 1, why: found, .. }) if found == why);
    assert!(preempted, "{decision:?}");
    policy.ended(0, Spent::default(), START);
    assert_eq!(sent(&mut policy), [(2, 0)], "its ticket's place was used again");
}

#[test]
fn the_core_charges_the_expected_output_and_learns_it() {
    let mut policy = ours(one_at_a_time(), Cost::Tokens);
    let mut charged = Vec::new();
    for request in 0..300 {
        offer_plain(&mut policy, request..request + 1);
        let Some(Decision::Send { charged: cost, .. }) = policy.decide() else { panic!("sent") };
        charged.push(cost);
        policy.ended(request, Spent { prompt: 10, output: 100 }, START);
    }
    assert_eq!(charged[0], 10 + 2 * 256);
    assert_eq!(charged[1], 10 + 2 * 253, "a fiftieth of the way");
    assert_eq!(charged[299], 10 + 2 * 100);
}

/// Tenant 0 is served first and its answer is as long as given; tenant 1 waits with two requests,
/// tenant 0 with one more. The order of what follows shows what the first one was charged.
fn order_after(finish: impl Fn(&mut Tidegate)) -> Vec<RequestId> {
    let mut policy = ours(one_at_a_time(), Cost::Tokens);
    for (request, tenant) in [0, 0, 1, 1, 1, 1].into_iter().enumerate() {
        offer(&mut policy, request as RequestId, tenant, Band::Normal);
    }
    finish(&mut policy);
    let mut order = serve_from(&mut policy, 10);
    order.truncate(5);
    order
}

/// Like [`serve_all`], with answers of this length.
fn serve_from(policy: &mut dyn Policy, output: u32) -> Vec<RequestId> {
    let mut order = Vec::new();
    while let Some(decision) = policy.decide() {
        let Decision::Send { request, .. } = decision else { panic!("{decision:?}") };
        order.push(request);
        if request != 0 {
            policy.ended(request, Spent { prompt: 10, output }, START);
        }
    }
    order
}

#[test]
fn a_long_response_is_charged_when_it_ends() {
    let short = order_after(|policy| policy.ended(0, Spent { prompt: 10, output: 1 }, START));
    let long = order_after(|policy| policy.ended(0, Spent { prompt: 10, output: 9000 }, START));
    assert_eq!(short[..3], [0, 1, 2], "it has paid next to nothing");
    assert_eq!(long, [0, 2, 3, 4, 5], "the others go first");
}

#[test]
fn a_final_failure_is_refunded() {
    let failed = order_after(|policy| policy.failed(0, Failure::Exhausted, START));
    assert_eq!(failed[..3], [0, 1, 2]);
    let spent = Spent { prompt: 10, output: 9000 };
    let broken = order_after(|policy| policy.failed(0, Failure::BrokenOff(spent), START));
    assert_eq!(broken, [0, 2, 3, 4, 5], "what was streamed is not");
}

#[test]
fn a_client_that_leaves_pays_for_the_streamed_tokens() {
    let gone = |output: u32| {
        order_after(move |policy| policy.gave_up(0, Spent { prompt: 10, output }, START))
    };
    assert_eq!(gone(1)[..3], [0, 1, 2], "next to nothing");
    assert_eq!(gone(9000), [0, 2, 3, 4, 5]);
}

#[test]
fn a_stream_that_passes_its_estimate_is_charged_as_it_goes() {
    // The engine takes one more: what the first has streamed by then decides who goes.
    let order = |tokens: u32| {
        let mut policy = ours(one_at_a_time(), Cost::Tokens);
        for (request, tenant) in [0, 0, 1].into_iter().enumerate() {
            offer(&mut policy, request as RequestId, tenant, Band::Normal);
        }
        policy.streamed(0, tokens, START);
        assert_eq!(policy.decide().map(|_| ()), Some(()), "the first");
        policy.engines(&[true, true], START);
        sent(&mut policy)
    };
    assert_eq!(order(256), [(1, 1)]);
    assert_eq!(order(9000), [(2, 1)]);
}

#[test]
fn first_tokens_streams_and_metrics_are_reported_to_the_core() {
    let mut policy = ours(Settings::default(), Cost::Requests);
    assert!(policy.follows_streams(), "under auto every token counts");
    offer_plain(&mut policy, 0..1);
    let limits = |policy: &Tidegate| policy.controller().backends().next().unwrap().limits;
    assert_eq!((limits(&policy).unstarted.0, limits(&policy).tokens.0), (1, 10 + 256));
    policy.started(0, START);
    assert_eq!(limits(&policy).unstarted.0, 0);
    policy.streamed(0, 1000, START);
    assert!(limits(&policy).tokens.0 >= 1010, "it holds more than was expected");
    assert!(!limits(&policy).by_metrics);
    let reading = EngineReading { kv_tokens: Some(10_000), ..EngineReading::default() };
    policy.reading(0, &reading, START);
    assert!(limits(&policy).by_metrics);
}
