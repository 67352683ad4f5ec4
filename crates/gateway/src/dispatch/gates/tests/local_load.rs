//! How full this process's own backends are.

use flow::{
    Ask, BackendId, BackendSupply, Band, Bounds, Controller, EngineReading, FlowClass, Hysteresis,
    ModelId, Settings, StockUnit, Ticket, Time, Usage, Verdict,
};

use super::super::local_load::{Fullness, start_load};
use super::*;
use crate::config::Resolved;
use crate::state::State;

const NOW: Time = Time::from_millis(1000);

fn core(settings: Settings, backends: u32) -> Controller {
    let mut core = Controller::new(settings);
    let supply = |id| BackendSupply::new(BackendId(id), vec![ModelId(1)]);
    core.supply(&(1..=backends).map(supply).collect::<Vec<_>>(), NOW);
    core
}

fn fixed(watermark: f64) -> Settings {
    let marks = Hysteresis::limit(watermark).unwrap();
    Settings { bounds: Bounds::Fixed(marks), ..Settings::default() }
}

/// What there is for those who may have four fifths of it.
fn seen(core: &Controller) -> Fullness {
    Fullness::of(core, 0.8)
}

/// Offers so many requests of a band; those that are granted have begun to answer.
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
fn d02_whoever_waits_counts_as_well() {
    let mut core = core(fixed(2.0), 2);
    offer(&mut core, Band::Normal, 7);
    offer(&mut core, Band::BestEffort, 2);
    assert_eq!(seen(&core), Fullness { used: 4.0, places: 4.0, waiting: 5, ready: 2, starting: 0 });
}

/// A flow that is at its own limit waits for that, and keeps nobody else out.
#[test]
fn d02_who_waits_for_a_limit_of_his_own_does_not_count_while_there_is_room() {
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
    assert_eq!(seen(&core).places, 2.0, "the first ones show how large they are");
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
    assert_eq!((warm.used, warm.places, warm.waiting), (0.0, 3.0, 0), "forty have begun");
    let flow = core.flow("f", 0);
    let long = Ask { prompt: 8000, tokens: 9000, ..Ask::new(flow, ModelId(1)) };
    (0..5).for_each(|_| _ = core.offer(long, NOW));
    let full = seen(&core);
    assert_eq!((full.used, full.places, full.waiting), (43.0, 43.0, 2), "it is closed");
}

/// The cache holds 200 tokens, of which 180 are to be used, and eight requests have 80.
#[test]
fn d02_under_auto_the_bound_that_leaves_the_least_room_counts() {
    let settings = Settings { bounds: Bounds::Auto, ..Settings::default() };
    let mut core = core(settings, 1);
    let flow = core.flow("f", 0);
    let begin = |core: &mut Controller, count| {
        for _ in 0..count {
            let ask = Ask { prompt: 5, tokens: 10, ..Ask::new(flow, ModelId(1)) };
            let Verdict::Granted { ticket, .. } = core.offer(ask, NOW) else { panic!("it waits") };
            core.started(ticket, NOW).unwrap();
        }
        let reading =
            EngineReading { running: 8, kv_tokens: Some(200), ..EngineReading::default() };
        core.reading(BackendId(1), reading, NOW);
        let Fullness { used, places, .. } = seen(core);
        (used, places)
    };
    assert_eq!(begin(&mut core, 8), (0.0, 3.0), "14 would be ours, but three may begin at once");
    assert_eq!(begin(&mut core, 5), (13.0, 18.0), "one of 14.4 is left");
    assert_eq!(begin(&mut core, 3), (16.0, 18.0), "nothing is left, though three could begin");
}

#[tokio::test]
async fn d02_the_gate_follows_the_gateway_it_is_in() {
    let config = Resolved { flow: fixed(100.0), ..Resolved::default() };
    let state = State::new(config);
    let settings = [spec("g", GateKind::Gateway { rest: 1.0 }, System::Known)];
    let slow = [GateSettings {
        interval: Duration::from_secs(3600),
        stale_after: Duration::from_secs(7200),
        ..settings[0].clone()
    }];
    let gates = Gates::new(&slow, Some(Arc::clone(&state)), state.clock, Arc::default()).unwrap();
    let _watching = watched(&gates);
    let set = set(&gates);
    let none = until(&gates, "read", |gate| gate.state.starts_with("closed")).await;
    assert_eq!(none.state, "closed: no server is ready");
    // Whoever is turned away is looked out for at once, not with the next round.
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
    let by = "30 taken and 0 waiting, of 100 places at 1 backend";
    assert_eq!(found.by.as_deref(), Some(by));
    let passes = take_all(&gates);
    assert_eq!(passes.len(), 50);
    // They have not arrived there yet, so that the next readings show as much room as before.
    assert_eq!(gates.room(&set), 0);
    drop(passes);
    assert_eq!(gates.room(&set), 50);
}

/// One request of ours: on its way for a moment, then at a backend, then over.
async fn live(pass: GatePermit, state: Arc<State>, served: Duration) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    let ticket = state.scheduler.with(|core, now| {
        let flow = core.flow("batch", 0);
        let ask = Ask { band: Band::BestEffort, ..Ask::new(flow, ModelId(1)) };
        match core.offer(ask, now) {
            Verdict::Granted { ticket, .. } => ticket,
            other => panic!("more came than there was room for: {other:?}"),
        }
    });
    tokio::time::sleep(served).await;
    state.scheduler.with(|core, now| core.settle(ticket, Usage::Cost(1), now)).unwrap();
    pass.succeeded();
}

/// In real time, with a hundred places of which thirty are others': never more than the threshold
/// but for what was on its way, and as soon as one ends the next one goes.
#[tokio::test]
async fn d03_the_gateways_own_readings_hold_its_threshold() {
    let state = State::new(Resolved { flow: fixed(100.0), ..Resolved::default() });
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
        offer(core, Band::Normal, 30);
    });
    let settings = [spec("g", GateKind::Gateway { rest: 1.0 }, System::Known)];
    let gates =
        Gates::new(&settings, Some(Arc::clone(&state)), state.clock, Arc::default()).unwrap();
    let _watching = watched(&gates);
    let (set, mut requests) = (set(&gates), tokio::task::JoinSet::new());
    let (mut sent, mut most, mut samples) = (0_u64, 0, Vec::new());
    while sent < 3000 {
        while let Ok(pass) = gates.take(&set, 1) {
            sent += 1;
            let served = Duration::from_millis(50 + sent * 37 % 100);
            requests.spawn(live(pass, Arc::clone(&state), served));
        }
        let there = state.scheduler.with(|core, _| core.in_flight());
        most = most.max(there);
        samples.push(f64::from(there));
        gates.changed().await;
        while requests.try_join_next().is_some_and(|ended| ended.is_ok()) {}
    }
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    assert!(most <= 90, "{most} of 100, {mean} on average");
    // A loaded machine takes its time between an end and the next beginning.
    assert!(mean > 60.0, "{mean} on average, at most {most}");
    eprintln!("{mean:.1} on average, at most {most}");
}

/// One backend of a gateway that finds its bounds, at which prompts of 300 tokens start in 40 ms.
fn at_work() -> (Arc<State>, Arc<Gates>) {
    let config = Resolved { flow: Settings::default(), ..Resolved::default() };
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
    let settings = [spec("g", GateKind::Gateway { rest: 1.0 }, System::Known)];
    let gates =
        Gates::new(&settings, Some(Arc::clone(&state)), state.clock, Arc::default()).unwrap();
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
async fn d02_batch_work_holds_back_while_somebody_is_about_to_begin() {
    let (state, gates) = at_work();
    let _watching = watched(&gates);
    let set = set(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let ticket = state.scheduler.with(|core, now| ask(core, Band::High, now));
    assert_eq!(gates.room(&set), 0);
    let closed = gates.take(&set, 1200).unwrap_err();
    assert_eq!(closed.to_string(), "gate \"g\" is holding back: others are about to begin");
    let shown = gates.status().remove(0);
    assert_eq!((shown.open, shown.left > 0), (false, true), "{shown:?}");
    state.scheduler.with(|core, now| core.started(ticket, now)).unwrap();
    tokio::time::timeout(Duration::from_secs(30), gates.changed()).await.unwrap();
    assert_eq!(gates.room(&set), 1);
}

#[tokio::test]
async fn d02_after_one_has_begun_the_next_one_rests() {
    let (_state, gates) = at_work();
    let _watching = watched(&gates);
    let set = set(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let pass = gates.take(&set, 1200).unwrap();
    // A thousand times as long as the usual one.
    pass.prompt_size(300_000);
    assert_eq!(gates.room(&set), 0);
    let shown = gates.status().remove(0);
    assert!(shown.state.starts_with("holding back: one more in "), "{shown:?}");
}

/// A rest is over when it is over, not with the next look: a large pool begins many a second.
#[tokio::test]
async fn d02_a_rest_ends_without_another_look() {
    let (_state, gates) = at_work();
    let watching = watched(&gates);
    until(&gates, "open", |gate| gate.open).await;
    // From here on nobody looks.
    drop(watching);
    let mut resting = tokio::task::JoinSet::new();
    resting.spawn(Arc::clone(&gates).end_latches());
    let set = set(&gates);
    let _first = gates.take(&set, 1200).unwrap();
    let second = async {
        loop {
            match gates.take(&set, 1200) {
                Ok(pass) => return pass,
                Err(_) => gates.changed().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), second).await.expect("it rings after the rest");
}

/// One gate that is closed and one that is open: nobody rings for the one that is not waited for.
#[tokio::test]
async fn d03_a_gate_that_is_open_does_not_ring_for_one_that_is_closed() {
    let state = State::new(Resolved { flow: fixed(100.0), ..Resolved::default() });
    state.scheduler.with(|core, now| {
        core.supply(&[BackendSupply::new(BackendId(1), vec![ModelId(1)])], now);
    });
    let settings =
        [spec("g", GateKind::Gateway { rest: 1.0 }, System::Known), constant("shut", 0.1, 10.0)];
    let gates =
        Gates::new(&settings, Some(Arc::clone(&state)), state.clock, Arc::default()).unwrap();
    let _watching = watched(&gates);
    until(&gates, "open", |gate| gate.open).await;
    let set = set(&gates);
    let mut rings = 0;
    let ringing = async {
        loop {
            assert_eq!(gates.room(&set), 0);
            gates.changed().await;
            rings += 1;
        }
    };
    // Time for fifteen looks into the gateway.
    _ = tokio::time::timeout(Duration::from_millis(300), ringing).await;
    assert!(rings <= 2, "{rings} rings");
}

/// A watermark says nothing of who is about to begin.
#[test]
fn d02_under_a_watermark_there_is_no_start_limiter() {
    let mut core = core(fixed(10.0), 2);
    assert_eq!(start_load(&core), None);
    core.configure(Settings::default(), NOW);
    let seen = start_load(&core).unwrap();
    assert_eq!((seen.ready, seen.calm, seen.start, seen.others), (2, 2, None, false));
}

#[test]
fn d02_who_is_about_to_begin_is_counted_by_backend() {
    let mut core = core(Settings::default(), 3);
    let later = NOW.after(Span::from_millis(40));
    let ours = ask(&mut core, Band::BestEffort, NOW);
    assert!(!start_load(&core).unwrap().others, "one of the lowest band may be ours");
    core.started(ours, later).unwrap();
    ask(&mut core, Band::Normal, later);
    let seen = start_load(&core).unwrap();
    assert_eq!((seen.ready, seen.calm, seen.others), (3, 2, true));
    let (took, prompt) = seen.start.unwrap();
    assert_eq!(took, Span::from_millis(40));
    assert!((290..=320).contains(&prompt), "{prompt}");
}
