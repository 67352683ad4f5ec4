//! Clients that keep requests outstanding: each sends again when its last request has ended.

use super::*;
use crate::arrivals::ClosedLoop;

fn secs(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

/// Clients whose requests all have this prompt and output, until 20 s.
fn clients(outstanding: u32, prompt: u32, output: u32) -> Source {
    let mut source =
        Source::new("flood", std::iter::repeat_with(move || request(0, prompt, output)));
    let (from, until) = (Time::ZERO, secs(20));
    source.closed_loop =
        Some(ClosedLoop { outstanding, from, until, think: Span::ZERO, pause: None });
    source
}

fn change(source: &mut Source, change: impl FnOnce(&mut ClosedLoop)) {
    change(source.closed_loop.as_mut().unwrap());
}

fn on_slots(slots: u32, sources: Vec<Source>, policy: &mut dyn Policy) -> History {
    run(Setup::new(vec![plain(slots)], sources, Span::from_secs(60)), policy)
}

fn arrivals(history: &History) -> Vec<Time> {
    history.records.iter().map(|record| record.arrival).collect()
}

/// The requests that were open at a moment.
fn open_at(history: &History, at: Time) -> usize {
    history.records.iter().filter(|record| record.arrival <= at && at < record.end).count()
}

#[test]
fn as_many_requests_stay_outstanding_as_there_are_clients() {
    let mut policy = ours(fixed(4.0));
    let history = on_slots(4, vec![clients(9, 100, 50)], &mut policy);
    for millis in (0..20_000).step_by(37) {
        assert_eq!(open_at(&history, Time::from_millis(millis)), 9, "at {millis} ms");
    }
    assert!(arrivals(&history).iter().all(|&at| at < secs(20)));
    assert!(history.records.iter().all(|record| record.outcome == Outcome::Served));
    // Four slots, and 150 ms for each request.
    let most = 4 * 20_000 / 150 + 9;
    assert!((500..=most).contains(&history.records.len()), "{}", history.records.len());
}

#[test]
fn an_open_stream_beside_the_loop_keeps_its_times() {
    let requests: Vec<Request> = (0..10).map(|at| request(at * 700, 10, 10)).collect();
    let steady = Source::new("steady", requests.into_iter());
    let history = on_slots(4, vec![clients(9, 100, 50), steady], &mut ours(fixed(4.0)));
    let steady = history.tenants.iter().position(|tenant| tenant.name == "steady").unwrap();
    let steady = history.records.iter().filter(|record| record.tenant == steady as u32);
    let times: Vec<Time> = steady.map(|record| record.arrival).collect();
    assert_eq!(times, (0..10).map(|at| Time::from_millis(at * 700)).collect::<Vec<_>>());
}

#[test]
fn a_client_sends_again_when_it_has_thought() {
    let mut source = clients(1, 100, 898);
    change(&mut source, |clients| clients.think = Span::from_secs(2));
    let history = on_slots(1, vec![source], &mut Direct::new());
    let gaps: Vec<f64> = history
        .records
        .windows(2)
        .map(|pair| pair[1].arrival.since(pair[0].end).secs_f64())
        .collect();
    assert!(gaps.len() >= 3, "{gaps:?}");
    let even = |gap: &f64| (gap - gaps[0]).abs() < 1e-9;
    assert!(gaps.iter().all(|gap| *gap > 0.0) && !gaps[1..].iter().all(even), "{gaps:?}");
}

/// One request is served, one waits, the third is refused.
fn two_places() -> PlainQueue {
    let ttl = Span::from_secs(30);
    PlainQueue::new(PlainQueueConfig { order: QueueOrder::Fifo, watermark: 1, capacity: 1, ttl })
}

#[test]
fn a_refused_client_tries_again_after_its_pause() {
    let mut source = clients(3, 100, 9_000);
    change(&mut source, |clients| clients.pause = Some(Span::from_millis(400)));
    let history = on_slots(1, vec![source], &mut two_places());
    let expected = [0, 0, 0, 400, 800, 1200].map(Time::from_millis);
    assert_eq!(arrivals(&history)[..6], expected);
}

#[test]
fn without_a_pause_a_refused_client_tries_again_when_it_is_told() {
    let history = on_slots(1, vec![clients(3, 100, 9_000)], &mut two_places());
    assert_eq!(
        arrivals(&history)[..5],
        [0, 0, 0, 1, 2].map(secs),
        "a plain queue predicts nothing"
    );
    let class = FlowClass { capacity: 1, ..FlowClass::default() };
    let settings = Settings { bounds: fixed(1.0), default_class: class, ..Settings::default() };
    let mut policy = Tidegate::new(TidegateConfig { settings, cost: Cost::Requests }, &[]);
    let history = on_slots(1, vec![clients(3, 100, 3_000)], &mut policy);
    let refused = |record: &&Record| matches!(record.outcome, Outcome::Refused(_));
    let ends: Vec<Time> = history.records.iter().filter(refused).map(|record| record.end).collect();
    assert!(!ends.is_empty());
    for end in ends.into_iter().filter(|&end| end < secs(5)) {
        let back = arrivals(&history).into_iter().find(|&at| at > end).unwrap().since(end);
        assert!(back <= Span::from_secs(59), "{back:?}");
    }
}

#[test]
fn an_expired_request_and_one_that_was_given_up_are_followed_by_the_next() {
    let mut expires = clients(2, 100, 20_000);
    expires.ttl = Some(Span::from_secs(3));
    let history = on_slots(1, vec![expires], &mut line(QueueOrder::Fifo, 1));
    // The first is served until 20.1 s. The second expires at 3 s and comes back at 4 s.
    assert_eq!(arrivals(&history), [0, 0, 4, 8, 12, 16].map(secs));
    let mut hasty = clients(2, 100, 20_000);
    hasty.patience = Some(Span::from_secs(3));
    let history = on_slots(1, vec![hasty], &mut line(QueueOrder::Fifo, 1));
    assert_eq!(arrivals(&history), [0, 0, 3, 6, 9, 12, 15, 18].map(secs));
}

#[test]
fn a_request_that_no_engine_takes_does_not_stop_the_time() {
    let mut setup = Setup::new(vec![plain(1)], vec![clients(1, 200_000, 1)], Span::from_secs(60));
    setup.network = Span::ZERO;
    let history = run(setup, &mut Direct::new());
    assert_eq!(arrivals(&history), (0..20).map(secs).collect::<Vec<_>>());
    assert!(history.records.iter().all(|record| record.outcome == Outcome::Failed));
}

#[test]
fn clients_begin_and_end_at_their_times() {
    let mut source = clients(4, 100, 100);
    change(&mut source, |clients| clients.from = secs(7));
    let history = on_slots(4, vec![source], &mut Direct::new());
    let all = arrivals(&history);
    assert_eq!((all[0], all[3]), (secs(7), secs(7)));
    let last = *all.last().unwrap();
    assert!(last >= Time::from_millis(19_700) && last < secs(20), "{last:?}");
}

#[test]
fn one_seed_gives_one_loop() {
    let play = |seed: u64| {
        let mut source = clients(20, 100, 100);
        change(&mut source, |clients| clients.think = Span::from_millis(300));
        let mut setup = Setup::new(vec![plain(4)], vec![source], Span::from_secs(60));
        setup.seed = seed;
        run(setup, &mut ours(Bounds::Auto)).records
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}
