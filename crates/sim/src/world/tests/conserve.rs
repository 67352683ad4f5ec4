//! One seed, one history; every request ends once; an idle world adds the network and nothing else.

use super::*;

/// A rough day: two engines too few, clients without patience, every fault there is.
fn rough(seed: u64) -> Setup {
    let mut hasty = Source::new("hasty", drawn(6.0, seed));
    hasty.patience = Some(Span::from_secs(3));
    hasty.bands = Bands::Mixed([1.0, 2.0, 1.0, 1.0]);
    let mut brief = Source::new("brief", drawn(6.0, seed + 1));
    brief.ttl = Some(Span::from_secs(2));
    let calm = Source::new("calm", drawn(4.0, seed + 2));
    let engines = vec![named("rtx4090-8b"), named("rtx4090-8b"), plain(4)];
    let mut setup = Setup::new(engines, vec![hasty, brief, calm], Span::from_secs(60));
    let fault = |secs: u64, engine: u32, what: FaultKind| Fault {
        at: Time::from_millis(secs * 1000),
        engine,
        what,
    };
    setup.faults = vec![
        fault(10, 0, FaultKind::Crash),
        fault(12, 1, FaultKind::Slow(3.0)),
        fault(14, 1, FaultKind::Crash),
        fault(15, 2, FaultKind::Crash),
        fault(16, 2, FaultKind::Return),
        fault(20, 0, FaultKind::Return),
        fault(25, 0, FaultKind::NoMetrics),
        fault(30, 1, FaultKind::Return),
        fault(40, 0, FaultKind::Metrics),
    ];
    setup.metrics = Some(Metrics { every: Span::from_secs(1), lag: Span::from_millis(100) });
    setup.seed = seed;
    setup
}

fn every_gate() -> Vec<(&'static str, Box<dyn Policy>)> {
    vec![
        ("direct", Box::new(Direct::new())),
        ("fifo", Box::new(line(QueueOrder::Fifo, 16))),
        ("round robin", Box::new(line(QueueOrder::RoundRobin, 16))),
        ("bands", Box::new(line(QueueOrder::StrictBands, 16))),
        ("fixed", Box::new(ours(fixed(16.0)))),
        ("auto", Box::new(ours(Bounds::Auto))),
    ]
}

#[test]
fn one_seed_gives_one_history() {
    for ((name, mut policy), (_, mut again)) in every_gate().into_iter().zip(every_gate()) {
        let (one, two) = (run(rough(7), &mut *policy), run(rough(7), &mut *again));
        assert!(one.records.len() > 500, "{name}: the day is busy");
        assert_eq!(format!("{:?}", one.records), format!("{:?}", two.records), "{name}");
        assert_eq!(one.series, two.series, "{name}");
    }
    let other = run(rough(8), &mut Direct::new());
    assert_ne!(other.records, run(rough(7), &mut Direct::new()).records, "another seed");
}

#[test]
fn every_request_ends_exactly_once() {
    for seed in 0..5 {
        for (name, mut policy) in every_gate() {
            let history = run(rough(seed), &mut *policy);
            for record in &history.records {
                check_end(record, &format!("{name}, seed {seed}: {record:?}"));
            }
            let last = history.series.moments.last().unwrap();
            assert_eq!(last.waiting, [0; flow::BANDS], "{name}, seed {seed}: no request waits");
            let produced: u64 =
                history.records.iter().map(|record| u64::from(record.streamed)).sum();
            assert!(history.produced.output <= produced, "{name}, seed {seed}");
        }
    }
}

fn check_end(record: &Record, context: &str) {
    assert_ne!(record.outcome, Outcome::Open, "{context}");
    assert!(record.end >= record.arrival, "{context}");
    let whole = record.streamed == record.output.max(1);
    assert_eq!(record.outcome == Outcome::Served, whole, "{context}");
    let refused = matches!(record.outcome, Outcome::Refused(_));
    assert!(!refused || record.streamed == 0, "{context}");
    assert!(record.outcome != Outcome::GaveUp || record.streamed == 0, "{context}");
    assert_eq!(record.engine.is_some(), record.attempts > 0, "{context}");
}

#[test]
fn nothing_is_left_in_the_core_after_a_rough_day() {
    for seed in 0..5 {
        for bounds in [fixed(16.0), Bounds::Auto] {
            let mut policy = ours(bounds);
            let history = run(rough(seed), &mut policy);
            let core = policy.controller();
            assert_eq!((core.depth(), core.in_flight()), (0, 0), "seed {seed}, {bounds:?}");
            assert_eq!(core.counters().offered, history.records.len() as u64, "seed {seed}");
            assert!(core.counters().requeued > 0, "seed {seed}: crashes send asks back");
        }
    }
}

#[test]
fn at_low_load_only_the_network_is_added() {
    let profile = named("rtx4090-8b");
    let requests: Vec<Request> = (0..20).map(|at| request(at * 30_000, 700, 50)).collect();
    let alone = first_token_alone(&profile, &requests[0]);
    for (name, mut policy) in every_gate() {
        let source = Source::new("all", requests.clone().into_iter());
        let mut setup = Setup::new(vec![profile.clone(); 2], vec![source], Span::from_secs(601));
        setup.network = Span::from_millis(7);
        let history = run(setup, &mut *policy);
        for record in &history.records {
            let expected = Time::ZERO.after(alone).after(Span::from_millis(14));
            assert_eq!(record.ttft(), Some(expected.since(Time::ZERO)), "{name}");
        }
    }
}

fn first_token_alone(profile: &Profile, request: &Request) -> Span {
    let mut engine = Engine::new(profile);
    let Request { at, prompt, output, ref prefix, .. } = *request;
    let job = Job { id: JobId(0), prompt, output, priority: 0, prefix: prefix.clone() };
    engine.submit(job, at).unwrap();
    let mut out = Vec::new();
    let mut now = at;
    while out.is_empty() {
        now = engine.next_event().unwrap();
        engine.advance(now, &mut out);
    }
    now.since(at)
}

#[test]
fn a_client_that_goes_away_frees_the_slot() {
    let gates: [Box<dyn Policy>; 3] =
        [Box::new(Direct::new()), Box::new(line(QueueOrder::Fifo, 1)), Box::new(ours(fixed(1.0)))];
    for mut policy in gates {
        // The first would be read until 10 s. The second waits in the engine or at the gateway.
        let mut hasty = Source::new("hasty", std::iter::once(request(0, 10_000, 10)));
        hasty.patience = Some(Span::from_secs(2));
        let calm = Source::new("calm", std::iter::once(request(1, 100, 10)));
        let setup = Setup::new(vec![plain(1)], vec![hasty, calm], Span::from_secs(60));
        let history = run(setup, &mut *policy);
        let [first, second] = history.records[..] else { panic!("two requests") };
        assert_eq!((first.outcome, first.end), (Outcome::GaveUp, Time::from_millis(2000)));
        assert_eq!(second.outcome, Outcome::Served);
        let read = Time::from_millis(2000 + 1 + 100 + 1);
        assert_eq!(second.first, read, "after the abort, its own prompt, and the way back");
    }
}

#[test]
fn a_response_that_has_begun_keeps_its_client() {
    let mut source = Source::new("all", std::iter::once(request(0, 10, 5000)));
    source.patience = Some(Span::from_secs(1));
    let history =
        run(Setup::new(vec![plain(1)], vec![source], Span::from_secs(60)), &mut Direct::new());
    assert_eq!(history.records[0].outcome, Outcome::Served);
}

#[test]
fn a_run_is_cut_off_after_its_drain() {
    let source = Source::new("all", std::iter::once(request(0, 10, 50_000)));
    let mut setup = Setup::new(vec![plain(1)], vec![source], Span::from_secs(2));
    setup.drain = Span::from_secs(3);
    let history = run(setup, &mut Direct::new());
    let record = history.records[0];
    assert_eq!(record.outcome, Outcome::Open);
    assert!(history.ended <= Time::from_millis(5000) && record.end == history.ended);
}

#[test]
fn requests_after_the_length_do_not_arrive() {
    let requests = vec![request(0, 10, 10), request(60_000, 10, 10)];
    assert_eq!(on_plain(1, requests, &mut Direct::new()).records.len(), 1);
}

#[test]
fn bands_are_drawn_in_their_shares() {
    let mut source = Source::new("all", (0..4000).map(|at| request(at, 1, 1)));
    source.bands = Bands::Mixed([0.0, 3.0, 0.0, 1.0]);
    let history =
        run(Setup::new(vec![plain(64)], vec![source], Span::from_secs(60)), &mut Direct::new());
    let count = |band: Band| history.records.iter().filter(|record| record.band == band).count();
    assert_eq!(count(Band::BestEffort) + count(Band::High), 0);
    assert!((900..1100).contains(&count(Band::Critical)), "{}", count(Band::Critical));
}

#[test]
fn each_client_of_a_trace_is_a_tenant_with_its_own_weight() {
    let sent = |client: u32| Request { client, ..request(u64::from(client), 1, 1) };
    let mut source = Source::new("", [5, 6, 7].into_iter().map(sent));
    source.tenancy = Tenancy::Clients((0..9).map(|client| format!("c{client}")).collect());
    let mut setup = Setup::new(vec![plain(4)], vec![source], Span::from_secs(60));
    setup.tenants = vec![Tenant { name: "c6".into(), weight: 2.0 }];
    let history = run(setup, &mut Direct::new());
    let name = |record: &Record| history.tenants[record.tenant as usize].name.clone();
    assert_eq!(history.records.iter().map(name).collect::<Vec<_>>(), ["c5", "c6", "c7"]);
    assert_eq!(history.tenants[0].weight, 2.0);
}
