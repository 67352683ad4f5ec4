//! Each fault, and what a gateway sees of it.

use super::*;

/// A policy without a queue that remembers what it was told of the engines.
#[derive(Default)]
struct Listener {
    inner: Direct,
    readings: Vec<(Time, EngineId, EngineReading)>,
}

impl Policy for Listener {
    fn offer(&mut self, offer: &Offer<'_>, now: Time) {
        self.inner.offer(offer, now);
    }
    fn started(&mut self, _request: RequestId, _now: Time) {}
    fn streamed(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}
    fn ended(&mut self, _request: RequestId, _spent: Spent, _now: Time) {}
    fn gave_up(&mut self, _request: RequestId, _spent: Spent, _now: Time) {}
    fn failed(&mut self, request: RequestId, failure: Failure, now: Time) {
        self.inner.failed(request, failure, now);
    }
    fn engines(&mut self, ready: &[bool], now: Time) {
        self.inner.engines(ready, now);
    }
    fn reading(&mut self, engine: EngineId, reading: &EngineReading, now: Time) {
        self.readings.push((now, engine, *reading));
    }
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn wake(&mut self, _now: Time) {}
    fn decide(&mut self) -> Option<Decision> {
        self.inner.decide()
    }
}

fn fault(millis: u64, engine: EngineId, what: FaultKind) -> Fault {
    Fault { at: Time::from_millis(millis), engine, what }
}

fn with_faults(engines: Vec<Profile>, requests: Vec<Request>, faults: Vec<Fault>) -> Setup {
    let source = Source::new("all", requests.into_iter());
    Setup { faults, ..Setup::new(engines, vec![source], Span::from_secs(60)) }
}

fn gates() -> [Box<dyn Policy>; 4] {
    [
        Box::new(Direct::new()),
        Box::new(line(QueueOrder::Fifo, 4)),
        Box::new(ours(fixed(4.0))),
        Box::new(ours(Bounds::Auto)),
    ]
}

#[test]
fn a_crash_loses_nothing_that_had_not_begun_while_another_engine_is_up() {
    for mut policy in gates() {
        let requests: Vec<Request> = (0..40).map(|at| request(at * 50, 300, 200)).collect();
        let faults = vec![fault(1000, 0, FaultKind::Crash)];
        let history = run(with_faults(vec![plain(4); 2], requests, faults), &mut *policy);
        let mut again = 0;
        for record in &history.records {
            let broken = record.outcome == Outcome::Failed;
            assert!(record.outcome == Outcome::Served || broken, "{record:?}");
            assert_eq!(broken, (1..200).contains(&record.streamed), "{record:?}");
            if record.attempts > 1 {
                again += 1;
                assert_eq!(record.engine, Some(1), "{record:?}");
            }
        }
        assert!(again > 0, "something was tried again");
    }
}

#[test]
fn the_gateway_learns_of_a_crash_after_the_network_delay() {
    let requests = vec![request(0, 10, 5000)];
    let faults = vec![fault(1000, 0, FaultKind::Crash)];
    let mut setup = with_faults(vec![plain(1)], requests, faults);
    setup.network = Span::from_millis(20);
    let history = run(setup, &mut Direct::new());
    assert_eq!(history.records[0].outcome, Outcome::Failed);
    assert_eq!(history.records[0].end, Time::from_millis(1020));
}

#[test]
fn a_request_that_meets_a_dead_engine_comes_back() {
    // It leaves at 999 ms for an engine that dies at 1000 ms, before it is there.
    let requests = vec![request(1, 1, 1), request(999, 100, 10)];
    let faults = vec![fault(1000, 1, FaultKind::Crash)];
    let mut setup = with_faults(vec![plain(1); 2], requests, faults);
    setup.network = Span::from_millis(5);
    let history = run(setup, &mut Direct::new());
    let record = history.records[1];
    assert_eq!((record.outcome, record.attempts, record.engine), (Outcome::Served, 2, Some(0)));
    assert_eq!(record.sent, Time::from_millis(999 + 2 * 5));
}

#[test]
fn an_engine_that_returns_is_used_again() {
    for mut policy in gates() {
        let requests = vec![request(2000, 10, 10), request(4000, 10, 10)];
        let faults = vec![fault(1000, 0, FaultKind::Crash), fault(3000, 0, FaultKind::Return)];
        let mut setup = with_faults(vec![plain(1)], requests, faults);
        setup.sources[0].ttl = Some(Span::from_secs(10));
        let history = run(setup, &mut *policy);
        let [first, second] = history.records[..] else { panic!("two requests") };
        assert_eq!(second.outcome, Outcome::Served);
        match first.outcome {
            Outcome::Refused(why) => assert_eq!(why, RefusalReason::NoEngine, "without a queue"),
            _ => assert_eq!(first.sent, Time::from_millis(3001), "{first:?}"),
        }
    }
}

#[test]
fn without_any_engine_waiting_requests_expire() {
    for mut policy in gates().into_iter().skip(1) {
        let faults = vec![fault(1000, 0, FaultKind::Crash)];
        let setup = with_faults(vec![plain(1)], vec![request(2000, 10, 10)], faults);
        let history = run(setup, &mut *policy);
        let record = history.records[0];
        assert_eq!(record.outcome, Outcome::Refused(RefusalReason::Expired));
        assert_eq!(record.end.nanos() / 1_000_000_000, 32, "{record:?}");
    }
}

#[test]
fn a_request_is_tried_four_times_and_no_more() {
    for mut policy in gates() {
        let down = |at: u64| {
            [fault(at, 0, FaultKind::Crash), fault(at + 1, 0, FaultKind::Return)].into_iter()
        };
        let faults = (1..=6).flat_map(|second| down(second * 1000)).collect();
        let mut setup = with_faults(vec![plain(1)], vec![request(0, 20_000, 10)], faults);
        setup.network = Span::from_nanos(500);
        // A second engine that is never there keeps the one without a queue from refusing.
        setup.faults.push(fault(0, 1, FaultKind::Crash));
        let history = run(setup, &mut *policy);
        let record = history.records[0];
        if record.outcome == Outcome::Refused(RefusalReason::NoEngine) {
            assert_eq!(record.attempts, 1, "without a queue there is nowhere to wait");
            continue;
        }
        assert_eq!((record.outcome, record.attempts), (Outcome::Failed, 4));
        assert_eq!(record.end.nanos() / 1_000_000_000, 4);
    }
}

#[test]
fn a_request_that_an_engine_can_never_serve_is_not_tried_again() {
    for mut policy in gates() {
        let requests = vec![request(0, 200_000, 10), request(10, 10, 10)];
        let history = run(with_faults(vec![plain(1); 2], requests, Vec::new()), &mut *policy);
        let [large, small] = history.records[..] else { panic!("two requests") };
        assert_eq!((large.outcome, large.attempts), (Outcome::Failed, 1));
        assert_eq!(large.end, Time::from_millis(2), "there and back");
        assert_eq!(small.outcome, Outcome::Served);
    }
}

#[test]
fn a_request_that_an_engine_can_never_serve_costs_its_tenant_nothing() {
    // Both tenants are known; while the second request is served the large one waits, and one of
    // each tenant behind it.
    let large = [request(0, 10, 10), request(101, 200_000, 10), request(103, 10, 10)];
    let small = [request(100, 1000, 10), request(102, 10, 10)];
    let large = Source::new("a", large.into_iter());
    let small = Source::new("b", small.into_iter());
    let setup = Setup::new(vec![plain(1)], vec![large, small], Span::from_secs(60));
    let history = run(setup, &mut ours(fixed(1.0)));
    let gap = history.ledger.worst_gap(&history.tenants).unwrap();
    assert!(gap.gap < 1000.0 && gap.bound > 200_000.0, "{gap:?}");
}

#[test]
fn a_slow_engine_takes_its_time() {
    let requests = vec![request(0, 100, 10), request(1000, 100, 10)];
    let faults = vec![fault(500, 0, FaultKind::Slow(3.0))];
    let history = run(with_faults(vec![plain(1)], requests, faults), &mut Direct::new());
    let [before, after] = history.records[..] else { panic!("two requests") };
    let engine_time = |record: Record| record.ttft().unwrap().nanos() - 2_000_000;
    assert_eq!(engine_time(after), 3 * engine_time(before));
}

#[test]
fn metrics_arrive_with_their_lag_and_stop_with_the_engine() {
    let faults = vec![
        fault(2500, 0, FaultKind::NoMetrics),
        fault(4500, 0, FaultKind::Metrics),
        fault(5500, 1, FaultKind::Crash),
        fault(7500, 1, FaultKind::Return),
    ];
    let mut setup = with_faults(vec![plain(1); 2], vec![request(0, 9000, 10)], faults);
    setup.metrics = Some(Metrics { every: Span::from_secs(1), lag: Span::from_millis(150) });
    let mut policy = Listener::default();
    run(setup, &mut policy);
    let heard = |engine: EngineId| -> Vec<u64> {
        let own = policy.readings.iter().filter(|&&(_, from, _)| from == engine);
        own.map(|&(at, ..)| at.nanos() / 1_000_000).collect()
    };
    assert_eq!(heard(0), [1150, 2150, 5150, 6150, 7150, 8150]);
    assert_eq!(heard(1), [1150, 2150, 3150, 4150, 5150, 8150]);
    assert_eq!(policy.readings[0].2.running, 1, "what it says is what was so when it was asked");
}

#[test]
fn without_metrics_no_readings_arrive() {
    let mut policy = Listener::default();
    run(with_faults(vec![plain(1)], vec![request(0, 5000, 10)], Vec::new()), &mut policy);
    assert_eq!(policy.readings, []);
}

#[test]
fn a_fault_of_an_unknown_engine_has_no_effect() {
    let faults = vec![fault(0, 9, FaultKind::Crash)];
    let history =
        run(with_faults(vec![plain(1)], vec![request(1, 10, 10)], faults), &mut Direct::new());
    assert_eq!(history.records[0].outcome, Outcome::Served);
}
