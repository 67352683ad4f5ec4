//! Samples and preemptions of the engines, and the priorities of their jobs.

use super::*;
use crate::engine::{BatchShape, Policy};

fn batch(change: impl Fn(&mut BatchShape)) -> Profile {
    let Shape::Batch(mut shape) = *named("rtx4090-8b").shape() else { panic!("it batches") };
    change(&mut shape);
    Profile::new("changed", Shape::Batch(shape)).unwrap()
}

/// An engine whose memory is soon full, and requests that fill it.
fn tight() -> (Profile, Vec<Request>) {
    let profile = batch(|shape| shape.kv_tokens = 4096);
    (profile, (0..12).map(|at| request(at, 400, 300)).collect())
}

#[test]
fn recomputed_tokens_count_once() {
    let (profile, requests) = tight();
    let source = Source::new("all", requests.into_iter());
    let setup = Setup::new(vec![profile], vec![source], Span::from_secs(100));
    let history = run(setup, &mut Direct::new());
    assert!(history.preemptions > 0, "memory runs out");
    assert_eq!((history.produced.prompt, history.produced.output), (12 * 400, 12 * 300));
}

#[test]
fn preemptions_before_a_crash_are_not_forgotten() {
    let count = |faults: Vec<Fault>| {
        let (profile, mut requests) = tight();
        requests.push(request(90_000, 10, 10));
        let source = Source::new("all", requests.into_iter());
        let mut setup = Setup::new(vec![profile], vec![source], Span::from_secs(100));
        setup.faults = faults;
        run(setup, &mut Direct::new()).preemptions
    };
    let fault = |secs: u64, what| Fault { at: Time::from_millis(secs * 1000), engine: 0, what };
    let healthy = count(Vec::new());
    assert!(healthy > 0);
    assert_eq!(count(vec![fault(80, FaultKind::Crash), fault(81, FaultKind::Return)]), healthy);
}

#[test]
fn engines_know_the_band_only_if_configured() {
    let order = |priorities: bool| {
        let profile = batch(|shape| (shape.max_seqs, shape.policy) = (1, Policy::Priority));
        let normal = Source::new("normal", (0..2).map(|at| request(at, 100, 50)));
        let mut critical = Source::new("critical", std::iter::once(request(5, 100, 50)));
        critical.bands = Bands::Fixed(Band::Critical);
        let mut setup = Setup::new(vec![profile], vec![normal, critical], Span::from_secs(60));
        setup.priorities = priorities;
        let records = run(setup, &mut Direct::new()).records;
        records[2].first < records[1].first
    };
    assert!(order(true), "the critical one overtakes");
    assert!(!order(false), "first come, first served");
}

#[test]
fn an_engine_ends_its_step_before_it_admits_arrivals_of_that_moment() {
    let profile = named("rtx4090-8b");
    let job =
        |id: u32| Job { id: JobId(id), prompt: 100, output: 50, priority: 0, prefix: [].into() };
    let mut engine = Engine::new(&profile);
    let mut out = Vec::new();
    engine.submit(job(0), Time::from_millis(1)).unwrap();
    for _ in 0..10 {
        engine.advance(engine.next_event().unwrap(), &mut out);
    }
    let meeting = engine.next_event().unwrap();
    engine.advance(meeting, &mut out);
    engine.submit(job(1), meeting).unwrap();
    let mut first = meeting;
    while !out.iter().any(|progress| progress.job == JobId(1)) {
        first = engine.next_event().unwrap();
        engine.advance(first, &mut out);
    }

    let later =
        Request { at: Time::from_nanos(meeting.nanos() - 1_000_000), ..request(0, 100, 50) };
    let source = Source::new("all", vec![request(0, 100, 50), later].into_iter());
    let setup = Setup::new(vec![profile], vec![source], Span::from_secs(60));
    let history = run(setup, &mut Direct::new());
    assert_eq!(history.records[1].first, first.after(Span::from_millis(1)));
}

#[test]
fn samples_show_the_queue_the_engines_and_the_service() {
    let requests = (0..5).map(|at| request(at, 1500, 1000)).collect();
    let history = on_plain(1, requests, &mut line(QueueOrder::Fifo, 2));
    let series = &history.series;
    assert_eq!(series.every, Span::from_secs(1));
    let second = &series.moments[2];
    assert_eq!(second.at, Time::from_millis(2000));
    assert_eq!(second.waiting, [0, 3, 0, 0]);
    let engine = second.engines[0];
    assert_eq!((engine.in_flight, engine.running, engine.waiting), (2, 1, 1));
    assert_eq!((engine.up, engine.limit), (true, Some(2.0)));
    // The prompt was read at 1501 ms; a token left the engine each millisecond after that.
    let expected = f64::from(1500 + 2 * 499);
    assert!((second.shares[0].got - expected).abs() <= 4.0, "{:?}", second.shares);
    assert_eq!(second.shares[0].got, second.shares[0].fair, "there is no other tenant");
}

#[test]
fn a_long_run_is_sampled_at_most_six_hundred_times_an_arrival_period() {
    let hour = Setup::new(Vec::new(), Vec::new(), Span::from_secs(3600));
    assert_eq!(hour.sample, Span::from_secs(6));
    assert_eq!(Setup::new(Vec::new(), Vec::new(), Span::from_secs(10)).sample, Span::from_secs(1));
}
