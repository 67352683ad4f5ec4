//! The measures on histories made by hand.

use flow::{BANDS, Band, Span, Time};

use super::recorder::{Arrival, Recorder};
use super::*;
use crate::policy::Cost;

const NORMAL: usize = 1;

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

fn secs(values: &[u64]) -> Vec<Span> {
    values.iter().map(|&value| Span::from_secs(value)).collect()
}

fn tenants(weights: &[f64]) -> Vec<Tenant> {
    weights.iter().map(|&weight| Tenant { name: format!("w{weight}"), weight }).collect()
}

/// The line of a tenant in the normal band.
fn line(tenant: usize) -> usize {
    tenant * BANDS + NORMAL
}

#[test]
fn a_percentile_is_the_nearest_rank() {
    let hundred = secs(&(1..=100).collect::<Vec<_>>());
    let rank = |per_mille: usize| nearest_rank(&hundred, per_mille).unwrap().secs_f64();
    assert_eq!(
        [rank(0), rank(500), rank(990), rank(991), rank(1000)],
        [1.0, 50.0, 99.0, 100.0, 100.0]
    );
    assert_eq!(nearest_rank(&hundred[..1], 10), Some(Span::from_secs(1)));
    assert_eq!(nearest_rank::<Span>(&[], 500), None);
}

#[test]
fn a_distribution_has_its_mean_and_ranks() {
    let stat = Stat::of(secs(&[9, 1, 2])).unwrap();
    let expected = secs(&[4, 2, 9, 9]);
    assert_eq!((stat.count, [stat.mean, stat.p50, stat.p99, stat.max].to_vec()), (3, expected));
    assert_eq!(Stat::of(Vec::new()), None);
}

#[test]
fn service_is_split_by_weight_among_active_tenants() {
    let mut shares = Shares::default();
    shares.begin(at(0));
    shares.wants(line(0), 1.0, at(0));
    shares.wants(line(1), 3.0, at(0));
    shares.delivered(line(0), 300.0);
    shares.delivered(line(1), 100.0);
    assert_eq!(shares.of(0), Share { got: 300.0, fair: 100.0 });
    assert_eq!(shares.of(1), Share { got: 100.0, fair: 300.0 });
    shares.answered(line(1), at(10));
    shares.delivered(line(1), 50.0);
    assert_eq!(shares.of(1), Share { got: 150.0, fair: 350.0 }, "it wanted no more than that");
    shares.delivered(line(0), 70.0);
    assert_eq!(shares.of(0), Share { got: 370.0, fair: 170.0 }, "alone, all is its own");
    shares.finish(at(10));
    // 370/170 and 100/300.
    let (one, two) = (370.0 / 170.0, 1.0 / 3.0_f64);
    let expected = (one + two) * (one + two) / (2.0 * (one * one + two * two));
    let jain = shares.jain(Window { from: at(0), to: at(10) }).unwrap();
    assert!((jain - expected).abs() < 1e-12, "{jain}");
}

#[test]
fn only_tenants_active_for_half_of_the_window_count_as_unfairly_treated() {
    let mut shares = Shares::default();
    // All this is before the window.
    shares.wants(line(0), 1.0, at(0));
    shares.wants(line(1), 1.0, at(0));
    shares.delivered(line(0), 1000.0);
    shares.begin(at(10));
    for tenant in [0, 1] {
        shares.delivered(line(tenant), 100.0);
    }
    shares.wants(line(2), 1.0, at(10));
    shares.delivered(line(0), 10.0);
    shares.answered(line(2), at(14));
    shares.finish(at(20));
    let jain = shares.jain(Window { from: at(10), to: at(20) }).unwrap();
    // 110 and 100 of 100 + 10/3 each.
    assert!(
        (jain - 210.0 * 210.0 / (2.0 * (110.0 * 110.0 + 100.0 * 100.0))).abs() < 1e-12,
        "{jain}"
    );
    assert_eq!(
        shares.jain(Window { from: at(10), to: at(60) }),
        None,
        "no tenant was active that long"
    );
}

#[test]
fn bands_are_not_compared_with_each_other() {
    let mut shares = Shares::default();
    shares.begin(at(0));
    let critical = Band::Critical as usize;
    shares.wants(NORMAL, 1.0, at(0));
    shares.wants(critical, 1.0, at(0));
    shares.delivered(critical, 500.0);
    shares.finish(at(10));
    assert_eq!(shares.jain(Window { from: at(0), to: at(10) }), None);
}

#[test]
fn a_gap_is_the_range_of_the_difference_while_both_wait() {
    let mut ledger = Ledger::default();
    let grant = |ledger: &mut Ledger, tenant: usize, cost: u64| {
        let number = ledger.grant(line(tenant), cost);
        ledger.settle(number, Some(cost));
    };
    ledger.enter(line(0));
    grant(&mut ledger, 0, 1000);
    ledger.enter(line(1));
    // The difference of what they got for their weight goes to +30, then −20, then back.
    grant(&mut ledger, 0, 30);
    grant(&mut ledger, 1, 100);
    grant(&mut ledger, 0, 15);
    ledger.leave(line(1));
    grant(&mut ledger, 0, 500);
    let [gap] = ledger.gaps(&tenants(&[1.0, 2.0]))[..] else { panic!("one pair") };
    assert_eq!((gap.tenants, gap.band), ([0, 1], Band::Normal));
    assert_eq!(gap.gap, 50.0);
    assert_eq!(gap.bound, 1000.0 + 100.0 / 2.0, "the largest costs over the weights");
}

#[test]
fn a_grant_counts_with_its_real_cost_and_errors_widen_the_bound() {
    let mut ledger = Ledger::default();
    ledger.enter(line(0));
    ledger.enter(line(1));
    let wrong = ledger.grant(line(0), 10);
    let lost = ledger.grant(line(0), 10);
    ledger.settle(lost, Some(0));
    ledger.settle(wrong, Some(40));
    let unknown = ledger.grant(line(1), 7);
    ledger.settle(unknown, None);
    let [gap] = ledger.gaps(&tenants(&[1.0, 1.0]))[..] else { panic!("one pair") };
    assert_eq!(gap.gap, 40.0);
    assert_eq!(gap.bound, (40 + 2 * (30 + 10) + 7) as f64);
}

#[test]
fn lines_of_different_bands_have_no_gap() {
    let mut ledger = Ledger::default();
    let [one, other] = [line(0), BANDS + Band::Critical as usize];
    ledger.enter(one);
    ledger.enter(other);
    ledger.grant(one, 10);
    ledger.grant(other, 20);
    assert_eq!(ledger.gaps(&tenants(&[1.0, 1.0])), []);
    assert_eq!(ledger.worst_gap(&tenants(&[1.0, 1.0])), None);
}

fn recorder(from: u64, to: u64) -> Recorder {
    let charges = Charges { cost: Cost::Tokens, slack: 0 };
    Recorder::new(Window { from: at(from), to: at(to) }, 1, Series::default(), charges)
}

fn arrive(recorder: &mut Recorder, output: u32, now: u64) -> u32 {
    let arrival = Arrival { tenant: 0, band: Band::Normal, prompt: 100, output };
    recorder.arrived(arrival, 1.0, at(now))
}

#[test]
fn tokens_count_when_they_come_and_only_once() {
    let mut recorder = recorder(10, 20);
    let request = arrive(&mut recorder, 4, 8);
    recorder.sent(request, 0, 1, at(8));
    assert!(recorder.token(request, 1, at(9)), "before the window: nor does its prompt count");
    for (tokens, now) in [(2, 11), (2, 12), (3, 13), (4, 20)] {
        assert!(!recorder.token(request, tokens, at(now)));
    }
    recorder.release(request, Some(1));
    recorder.ended(request, Outcome::Served, at(20));
    let second = arrive(&mut recorder, 1, 15);
    recorder.sent(second, 0, 1, at(15));
    recorder.token(second, 1, at(16));
    recorder.release(second, Some(1));
    recorder.ended(second, Outcome::Served, at(16));
    let history = recorder.finish(tenants(&[1.0]), 0, at(30));
    assert_eq!(history.produced, Produced { prompt: 100, output: 3, requests: 1 });
    let inside = |record: &&Record| history.window.holds(record.arrival);
    let ttfts: Vec<_> = history.records.iter().filter(inside).map(Record::ttft).collect();
    assert_eq!(ttfts, [Some(Span::from_secs(1))], "the other arrived before the window");
}

#[test]
fn an_attempt_that_failed_is_no_service() {
    let mut recorder = recorder(0, 10);
    let [tried, _, other] = [0, 0, 1].map(|tenant| {
        let arrival = Arrival { tenant, band: Band::Normal, prompt: 100, output: 1 };
        recorder.arrived(arrival, 1.0, at(0))
    });
    recorder.sent(tried, 0, 102, at(0));
    recorder.returned(tried);
    recorder.sent(tried, 0, 102, at(1));
    recorder.release(tried, Some(102));
    recorder.sent(other, 0, 102, at(2));
    let history = recorder.finish(tenants(&[1.0, 1.0]), 0, at(3));
    let gap = history.ledger.worst_gap(&history.tenants).unwrap();
    assert_eq!(gap.gap, 102.0);
    assert_eq!(gap.bound, 102.0 + 2.0 * 102.0 + 102.0, "the charge that was wrong widens it");
}

#[test]
fn a_good_response_is_complete_prompt_and_steady() {
    let slo = Slo { ttft: Span::from_secs(2), tpot: Span::from_secs(1) };
    let good = Record {
        arrival: at(0),
        sent: at(0),
        first: at(2),
        end: at(5),
        tenant: 0,
        prompt: 1,
        output: 4,
        streamed: 4,
        engine: Some(0),
        band: Band::Normal,
        outcome: Outcome::Served,
        attempts: 1,
    };
    assert!(slo.is_kept_by(&good));
    assert_eq!(good.tpot(), Some(Span::from_secs(1)));
    let late = Record { first: Time::from_millis(2001), ..good };
    let slow = Record { end: Time::from_millis(5003), ..good };
    let broken = Record { outcome: Outcome::Failed, ..good };
    let single = Record { streamed: 1, output: 1, end: at(2), ..good };
    assert!(![late, slow, broken].iter().any(|record| slo.is_kept_by(record)));
    assert!(slo.is_kept_by(&single), "a single token has no pace");
}

#[test]
fn the_tenants_with_the_most_service_come_first() {
    let share = |got: f64| Share { got, fair: got };
    let moment = Moment {
        at: at(1),
        waiting: [0; BANDS],
        engines: Vec::new(),
        shares: vec![share(1.0), share(3.0), share(2.0)],
    };
    let series = Series { every: Span::from_secs(1), moments: vec![moment] };
    assert_eq!(series.top(2), [1, 2]);
}
