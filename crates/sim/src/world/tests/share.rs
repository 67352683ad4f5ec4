//! Who gets what: the order of each policy as its clients see it, and the proof held against a run.

use flow::{RouteTerms, RouteWeights};

use super::*;
use crate::measure::{History, Record, Stat};

/// Two tenants that both want more than there is: the one in long answers, the other in short ones.
fn contest(seed: u64, engine: &str) -> Setup {
    let drawn = |rate: f64, output: u32, seed: u64| {
        let lengths = Lengths::Lognormal {
            prompt_mean: 200.0,
            prompt_cv: 0.5,
            output_mean: f64::from(output),
            output_cv: 0.5,
        };
        Arrivals::new(Process::Poisson { rate }, lengths, &Random::new(seed), Time::NEVER).unwrap()
    };
    let sources = vec![
        Source::new("long", drawn(8.0, 400, seed)),
        Source::new("short", drawn(40.0, 40, seed + 1)),
        Source::new("heavy", drawn(20.0, 200, seed + 2)),
    ];
    let mut setup = Setup::new(vec![named(engine); 2], sources, Span::from_secs(120));
    setup.tenants = vec![Tenant { name: "heavy".into(), weight: 2.0 }];
    setup.warm_up = Span::from_secs(20);
    setup.drain = Span::ZERO;
    setup.metrics = Some(Metrics { every: Span::from_secs(1), lag: Span::from_millis(100) });
    setup
}

fn roomy(bounds: Bounds, cost: Cost) -> Tidegate {
    roomy_with(settings(bounds), cost)
}

fn roomy_with(settings: Settings, cost: Cost) -> Tidegate {
    let class = FlowClass { capacity: 100_000, ttl: Span::from_secs(1000), ..FlowClass::default() };
    let settings = Settings { total_capacity: 100_000, default_class: class, ..settings };
    Tidegate::new(
        TidegateConfig { settings, cost },
        &[Tenant { name: "heavy".into(), weight: 2.0 }],
    )
}

fn roomy_line(watermark: u32) -> PlainQueue {
    let ttl = Span::from_secs(1000);
    PlainQueue::new(PlainQueueConfig { order: QueueOrder::Fifo, watermark, capacity: 100_000, ttl })
}

#[test]
fn q03_the_proven_bound_holds_on_engines_that_batch() {
    let bounds = [fixed(24.0), Bounds::Auto];
    let costs = [Cost::Tokens, Cost::Requests];
    for (seed, bounds) in (0..3).flat_map(|seed| bounds.map(|bounds| (seed, bounds))) {
        costs.iter().for_each(|&cost| check_gaps(seed, bounds, cost));
    }
}

fn check_gaps(seed: u64, bounds: Bounds, cost: Cost) {
    let context = format!("seed {seed}, {bounds:?}, {cost:?}");
    let history = run(contest(seed, "rtx4090-8b"), &mut roomy(bounds, cost));
    let gaps = history.ledger.gaps(&history.tenants);
    assert_eq!(gaps.len(), 3, "{context}: all three wait");
    for gap in gaps {
        assert!(gap.gap <= gap.bound, "{context}: {gap:?}");
        assert!(gap.gap * 20.0 > gap.bound, "{context}: says nothing, {gap:?}");
    }
}

#[test]
fn service_by_tokens_follows_the_weights_and_a_plain_queue_does_not() {
    let fair = run(contest(1, "rtx4090-8b"), &mut roomy(fixed(24.0), Cost::Tokens));
    let plain = run(contest(1, "rtx4090-8b"), &mut roomy_line(24));
    let jain = |history: &History| history.shares.jain(history.window).unwrap();
    assert!(jain(&fair) > 0.99, "{}", jain(&fair));
    assert!(jain(&plain) < 0.97, "{}", jain(&plain));
    let [heavy, long, short] = [0, 1, 2].map(|tenant| fair.shares.of(tenant).got);
    assert!((heavy / long - 2.0).abs() < 0.2 && (heavy / short - 2.0).abs() < 0.2);
    let gap = |history: &History| history.ledger.worst_gap(&history.tenants).unwrap().gap;
    assert!(gap(&plain) > 2.0 * gap(&fair), "{}", gap(&plain));
}

#[test]
fn a_plain_queue_and_the_core_agree_where_there_is_one_tenant() {
    let setup = || {
        let source = Source::new("all", drawn(30.0, 5));
        Setup::new(vec![named("rtx4090-8b"); 3], vec![source], Span::from_secs(30))
    };
    let one = run(setup(), &mut roomy_line(8));
    // A plain queue measures nothing.
    let terms = RouteTerms { measured_share: 0.0, ..RouteTerms::default() };
    let route = RouteWeights::new(terms).unwrap();
    let unmeasured = Settings { route, ..settings(fixed(8.0)) };
    let other = run(setup(), &mut roomy_with(unmeasured, Cost::Tokens));
    assert!(one.records.iter().any(|record| record.wait() > Some(Span::ZERO)));
    let differs = one.records.iter().zip(&other.records).find(|(one, other)| one != other);
    assert_eq!(differs, None);
}

#[test]
fn p08_high_and_critical_requests_do_not_wait_behind_others() {
    for mut policy in [
        Box::new(line(QueueOrder::StrictBands, 16)) as Box<dyn Policy>,
        Box::new(ours(fixed(16.0))),
        Box::new(ours(Bounds::Auto)),
    ] {
        let mut source = Source::new("all", drawn(60.0, 3));
        source.bands = Bands::Mixed([0.0, 18.0, 1.0, 1.0]);
        let setup = Setup::new(vec![named("rtx4090-8b"); 2], vec![source], Span::from_secs(60));
        let history = run(setup, &mut *policy);
        let wait = |band: Band| {
            let own = history.records.iter().filter(|record| record.band == band);
            Stat::of(own.filter_map(Record::wait).collect()).unwrap().mean.secs_f64()
        };
        assert!(wait(Band::Normal) > 1.0, "there is a queue: {}", wait(Band::Normal));
        for band in [Band::High, Band::Critical] {
            assert!(wait(band) < 0.1 * wait(Band::Normal), "{band:?}: {}", wait(band));
        }
    }
}
