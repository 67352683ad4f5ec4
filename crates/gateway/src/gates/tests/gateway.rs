//! The kind `gateway`.

use flow::{
    Ask, BackendId, BackendSupply, Band, Bounds, Controller, EngineReading, FlowClass, Hysteresis,
    ModelId, RouteTerms, RouteWeights, Settings, StockUnit, Ticket, Time, Usage, Verdict,
};

use super::*;
use crate::config::Config;
use crate::state::State;

const NOW: Time = Time::from_millis(1000);

/// Opens gates that read this gateway.
fn open(settings: &[GateSettings], state: &Arc<State>) -> Arc<Gates> {
    let local = Arc::clone(state) as Arc<dyn LocalScheduler>;
    let context = GateContext { local: Some(local), clock: state.clock, client: Arc::default() };
    Gates::new(settings, &context).unwrap()
}

fn core(settings: Settings, backends: u32) -> Controller {
    let mut core = Controller::new(settings);
    let supply = |id| BackendSupply::new(BackendId(id), vec![ModelId(1)]);
    core.supply(&(1..=backends).map(supply).collect::<Vec<_>>(), NOW);
    core
}

/// Backends that are equal, whatever was measured.
fn fixed(watermark: f64) -> Settings {
    let marks = Hysteresis::limit(watermark).unwrap();
    let terms = RouteTerms { measured_share: 0.0, ..RouteTerms::default() };
    let route = RouteWeights::new(terms).unwrap();
    Settings { bounds: Bounds::Fixed(marks), route, ..Settings::default() }
}

/// The load for work that may use four fifths of the backends.
fn seen(core: &Controller) -> Fullness {
    Fullness::of(core, 0.8)
}

/// Offers requests of a band; the granted ones have their first token.
fn offer(core: &mut Controller, band: Band, count: u32) {
    for _ in 0..count {
        let flow = core.flow("f", 1);
        let verdict = core.offer(Ask { band, ..Ask::new(flow, ModelId(1)) }, NOW);
        if let Verdict::Granted { ticket, .. } = verdict {
            core.started(ticket, NOW).unwrap();
        }
    }
}

#[test]
fn d02_with_a_watermark_the_stock_of_the_ready_backends_counts() {
    let mut core = core(fixed(10.0), 3);
    assert_eq!(
        seen(&core),
        Fullness { used: 0.0, places: 30.0, waiting: 0, ready: 3, starting: 0 }
    );
    offer(&mut core, Band::Normal, 12);
    assert_eq!(
        seen(&core),
        Fullness { used: 12.0, places: 30.0, waiting: 0, ready: 3, starting: 0 }
    );
    let supply =
        |id| BackendSupply { ready: id > 1, ..BackendSupply::new(BackendId(id), vec![ModelId(1)]) };
    core.supply(&[supply(1), supply(2), supply(3)], NOW);
    assert_eq!(
        seen(&core),
        Fullness { used: 8.0, places: 20.0, waiting: 0, ready: 2, starting: 0 }
    );
    core.supply(&[], NOW);
    assert_eq!(seen(&core), Fullness::default());
}

#[test]
fn d02_waiting_requests_count_as_well() {
    let mut core = core(fixed(2.0), 2);
    offer(&mut core, Band::Normal, 7);
    offer(&mut core, Band::BestEffort, 2);
    assert_eq!(seen(&core), Fullness { used: 4.0, places: 4.0, waiting: 5, ready: 2, starting: 0 });
}

/// A flow at its own limit waits for that limit, and does not fill a backend.
#[test]
fn d02_requests_that_wait_for_a_limit_of_their_flow_do_not_count_while_there_is_room() {
    let class = FlowClass { in_flight_max: Some(1), ..FlowClass::default() };
    let mut core = core(Settings { classes: vec![class], ..fixed(10.0) }, 1);
    offer(&mut core, Band::Normal, 5);
    assert_eq!(
        seen(&core),
        Fullness { used: 1.0, places: 10.0, waiting: 0, ready: 1, starting: 0 }
    );
    offer(&mut core, Band::BestEffort, 3);
    assert_eq!(seen(&core).waiting, 3, "these may be ours");
}

#[test]
fn d02_tokens_are_counted_as_requests_of_the_usual_size() {
    let settings = Settings { stock: StockUnit::Tokens, ..fixed(1000.0) };
    let mut core = core(settings, 2);
    assert_eq!(seen(&core).places, 2.0, "the first requests show their size");
    let flow = core.flow("f", 0);
    (0..4).for_each(|_| _ = core.offer(Ask { tokens: 100, ..Ask::new(flow, ModelId(1)) }, NOW));
    assert_eq!(
        seen(&core),
        Fullness { used: 4.0, places: 20.0, waiting: 0, ready: 2, starting: 0 }
    );
}

#[test]
fn d02_under_auto_a_backend_of_unknown_size_takes_a_few_at_a_time() {
    let settings = Settings { bounds: Bounds::Auto, ..Settings::default() };
    let mut core = core(settings, 1);
    let cold = seen(&core);
    assert_eq!((cold.used, cold.places), (0.0, 2.0));
    offer(&mut core, Band::Normal, 40);
    let warm = seen(&core);
    assert_eq!((warm.used, warm.places, warm.waiting), (0.0, 3.0, 0), "forty have started");
    let flow = core.flow("f", 0);
    let long = Ask { prompt: 8000, tokens: 9000, ..Ask::new(flow, ModelId(1)) };
    (0..5).for_each(|_| _ = core.offer(long, NOW));
    let full = seen(&core);
    assert_eq!((full.used, full.places, full.waiting), (43.0, 43.0, 2), "the backend is closed");
}

/// The cache holds 200 tokens, of which 180 may be used; eight requests use 80.
#[test]
fn d02_under_auto_the_bound_that_leaves_the_least_room_counts() {
    let settings = Settings { bounds: Bounds::Auto, ..Settings::default() };
    let mut core = core(settings, 1);
    let flow = core.flow("f", 0);
    let begin = |core: &mut Controller, count| {
        for _ in 0..count {
            let ask = Ask { prompt: 5, tokens: 10, ..Ask::new(flow, ModelId(1)) };
            let Verdict::Granted { ticket, .. } = core.offer(ask, NOW) else {
                panic!("it was queued")
            };
            core.started(ticket, NOW).unwrap();
        }
        let reading =
            EngineReading { running: 8, kv_tokens: Some(200), ..EngineReading::default() };
        core.reading(BackendId(1), reading, NOW);
        let Fullness { used, places, .. } = seen(core);
        (used, places)
    };
    assert_eq!(
        begin(&mut core, 8),
        (0.0, 3.0),
        "14 would be ours, but only three may start at once"
    );
    assert_eq!(begin(&mut core, 5), (13.0, 18.0), "one of 14.4 is left");
    assert_eq!(begin(&mut core, 3), (16.0, 18.0), "nothing is left, although three could start");
}

#[tokio::test]
async fn d02_the_gate_follows_its_gateway() {
    let config = Config { flow: fixed(100.0), ..Config::default() };
    let state = State::new(config);
    let settings = [gate("g", gateway_kind(), Capacity::FromSource)];
    let slow = [GateSettings {
        interval: Duration::from_secs(3600),
        stale_after: Some(Duration::from_secs(7200)),
        ..settings[0].clone()
    }];
    let gates = open(&slow, &state);
    let _polling = polled(&gates);
    let set = set(&gates);
    let none = until(&gates, "read", |gate| gate.state.starts_with("closed")).await;
    assert_eq!(none.state, "closed: no server is ready");
    // A refusal makes the gate read at once, not after the interval.
    assert_eq!(gates.room(&set), 0);
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
        offer(core, Band::Normal, 30);
    });
    tokio::time::timeout(Duration::from_secs(30), gates.changed()).await.unwrap();
    let found = gates.status().remove(0);
    assert_eq!(
        (found.left, found.system, found.source.as_str()),
        (50, Some(100.0), "this process")
    );
    let by = "30 in use and 0 waiting, of 100 places at 1 backend";
    assert_eq!(found.by.as_deref(), Some(by));
    let permits = take_all(&gates);
    assert_eq!(permits.len(), 50);
    // The requests have not arrived yet, so the next readings show as much room as before.
    assert_eq!(gates.room(&set), 0);
    drop(permits);
    assert_eq!(gates.room(&set), 50);
}

/// One request of ours: in transit for a moment, then at a backend, then ended.
async fn live(permit: GatePermit, state: Arc<State>, served: Duration) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    let ticket = state.scheduler.with(|core, now| {
        let flow = core.flow("batch", 0);
        let ask = Ask { band: Band::BestEffort, ..Ask::new(flow, ModelId(1)) };
        match core.offer(ask, now) {
            Verdict::Granted { ticket, .. } => ticket,
            other => panic!("more requests than room: {other:?}"),
        }
    });
    tokio::time::sleep(served).await;
    state.scheduler.with(|core, now| core.settle(ticket, Usage::Cost(1), now)).unwrap();
    permit.succeeded();
}

/// In real time, with a hundred places of which other clients use thirty: the load stays below the
/// threshold, except for requests in transit, and each end makes room for the next request.
#[tokio::test]
async fn d03_the_gateways_own_readings_hold_its_threshold() {
    let state = State::new(Config { flow: fixed(100.0), ..Config::default() });
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
        offer(core, Band::Normal, 30);
    });
    let settings = [gate("g", gateway_kind(), Capacity::FromSource)];
    let gates = open(&settings, &state);
    let _polling = polled(&gates);
    let (set, mut requests) = (set(&gates), tokio::task::JoinSet::new());
    let (mut sent, mut most, mut samples) = (0_u64, 0, Vec::new());
    while sent < 3000 {
        while let Ok(permit) = acquire(&gates, &set, 1) {
            sent += 1;
            let served = Duration::from_millis(50 + sent * 37 % 100);
            requests.spawn(live(permit, Arc::clone(&state), served));
        }
        let there = state.scheduler.with(|core, _| core.in_flight());
        most = most.max(there);
        samples.push(f64::from(there));
        gates.changed().await;
        while requests.try_join_next().is_some_and(|ended| ended.is_ok()) {}
    }
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    assert!(most <= 90, "{most} of 100, {mean} on average");
    // A loaded machine takes time between an end and the next start.
    assert!(mean > 60.0, "{mean} on average, at most {most}");
    eprintln!("{mean:.1} on average, at most {most}");
}

/// A gateway under `auto` with one backend, where prompts of 300 tokens start in 40 ms.
fn at_work() -> (Arc<State>, Arc<Gates>) {
    let config = Config { flow: Settings::default(), ..Config::default() };
    let state = State::new(config);
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
        let later = now.after(Span::from_millis(40));
        let ticket = ask(core, Band::High, now);
        core.started(ticket, later).unwrap();
        core.reading(
            BackendId(1),
            EngineReading { kv_tokens: Some(100_000), ..EngineReading::default() },
            later,
        );
    });
    let settings = [gate("g", gateway_kind(), Capacity::FromSource)];
    let gates = open(&settings, &state);
    (state, gates)
}

fn ask(core: &mut Controller, band: Band, now: Time) -> Ticket {
    let flow = core.flow("f", 0);
    let ask = Ask { band, prompt: 300, tokens: 400, streamed: true, ..Ask::new(flow, ModelId(1)) };
    match core.offer(ask, now) {
        Verdict::Granted { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn d02_batch_work_holds_back_while_other_requests_are_about_to_start() {
    let (state, gates) = at_work();
    let _polling = polled(&gates);
    let set = set(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let ticket = state.scheduler.with(|core, now| ask(core, Band::High, now));
    assert_eq!(gates.room(&set), 0);
    let closed = acquire(&gates, &set, 1200).unwrap_err();
    assert_eq!(closed.to_string(), "gate \"g\" is holding back: other requests are about to start");
    let shown = gates.status().remove(0);
    assert_eq!((shown.open, shown.left > 0), (false, true), "{shown:?}");
    state.scheduler.with(|core, now| core.started(ticket, now)).unwrap();
    tokio::time::timeout(Duration::from_secs(30), gates.changed()).await.unwrap();
    assert_eq!(gates.room(&set), 1);
}

#[tokio::test]
async fn d02_after_a_start_the_next_one_waits() {
    let (_state, gates) = at_work();
    let _polling = polled(&gates);
    let set = set(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let permit = acquire(&gates, &set, 1200).unwrap();
    // A thousand times the usual prompt.
    permit.prompt_size(300_000);
    assert_eq!(gates.room(&set), 0);
    let shown = gates.status().remove(0);
    assert!(shown.state.starts_with("holding back: next start in "), "{shown:?}");
}

/// A pause ends on time and not with the next reading, because a large pool starts many a second.
#[tokio::test]
async fn d02_a_pause_ends_without_a_reading() {
    let (_state, gates) = at_work();
    let polling = polled(&gates);
    until(&gates, "open", |gate| gate.open).await;
    // No reading from here on.
    drop(polling);
    let mut resting = tokio::task::JoinSet::new();
    resting.spawn(Arc::clone(&gates).end_latches());
    let set = set(&gates);
    let _first = acquire(&gates, &set, 1200).unwrap();
    let second = async {
        loop {
            match acquire(&gates, &set, 1200) {
                Ok(permit) => return permit,
                Err(_) => gates.changed().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), second)
        .await
        .expect("a notification after the pause");
}

/// One gate is closed and one is open: the open one does not notify, because no request waits for
/// it.
#[tokio::test]
async fn d03_an_open_gate_does_not_notify_for_a_closed_one() {
    let state = State::new(Config { flow: fixed(100.0), ..Config::default() });
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
    });
    let settings = [gate("g", gateway_kind(), Capacity::FromSource), constant("shut", 0.1, 10.0)];
    let gates = open(&settings, &state);
    let _polling = polled(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let set = set(&gates);
    let mut notifications = 0;
    let counting = async {
        loop {
            assert_eq!(gates.room(&set), 0);
            gates.changed().await;
            notifications += 1;
        }
    };
    // Time for fifteen readings of the gateway.
    _ = tokio::time::timeout(Duration::from_millis(300), counting).await;
    assert!(notifications <= 2, "{notifications} notifications");
}

/// Under a watermark it is unknown which requests are about to start.
#[test]
fn d02_under_a_watermark_there_is_no_start_limiter() {
    let mut core = core(fixed(10.0), 2);
    assert_eq!(start_load(&core), None);
    core.configure(Settings::default(), NOW);
    let seen = start_load(&core).unwrap();
    assert_eq!((seen.ready, seen.calm, seen.start, seen.others), (2, 2, None, false));
}

#[test]
fn d02_requests_about_to_start_are_counted_by_backend() {
    let mut core = core(Settings::default(), 3);
    let later = NOW.after(Span::from_millis(40));
    let ours = ask(&mut core, Band::BestEffort, NOW);
    assert!(!start_load(&core).unwrap().others, "a request of the lowest band may be ours");
    core.started(ours, later).unwrap();
    ask(&mut core, Band::Normal, later);
    let seen = start_load(&core).unwrap();
    assert_eq!((seen.ready, seen.calm, seen.others), (3, 2, true));
    let (took, prompt) = seen.start.unwrap();
    assert_eq!(took, Span::from_millis(40));
    assert!((290..=320).contains(&prompt), "{prompt}");
}
